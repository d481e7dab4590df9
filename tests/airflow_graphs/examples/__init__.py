"""Airflow's example graphs, by the names that they have there."""

from __future__ import annotations

from tests.airflow_graphs.compare import Example
from tests.airflow_graphs.examples import branching, mapping, plain, scopes, sensing, skipping, within

EXAMPLES: dict[str, Example] = {
    "example_bash_operator": skipping.bash_operator,
    "example_branch_operator": branching.branch_operator,
    "example_complex": plain.complex_,
    "example_dynamic_task_mapping": mapping.dynamic_task_mapping,
    "example_latest_only_with_trigger": branching.latest_only_with_trigger,
    "example_nested_branch_dag": branching.nested_branch_dag,
    "example_sensors": sensing.sensors,
    "example_setup_teardown": scopes.setup_teardown,
    "example_setup_teardown_taskflow": scopes.setup_teardown_taskflow,
    "example_short_circuit_operator": branching.short_circuit_operator,
    "example_skip_dag": skipping.skip_dag,
    "example_subdag_operator": within.subdag_operator,
    "example_task_group": plain.task_group,
    "example_task_mapping_second_order": mapping.task_mapping_second_order,
}
