"""The example of sensors: here a sensor is a step that is called again later, until it finds something or gives up."""

from __future__ import annotations

from collections.abc import Iterator

from tests.airflow_graphs.compare import Example, step
from tests.airflow_graphs.dags import FAILED, Dag, End, Rule, State, Task, task
from tests.airflow_graphs.scripts import Script, all_scripts, backward, by_section, forward

_FOUND = End(State.SUCCESS, value=True)
_GIVES_UP = End(State.SKIPPED, value=False, name="gives up")
"""A sensor that fails softly is skipped after its time; here it returns that it has found nothing."""

_HARD = [
    "wait_some_seconds",
    "wait_some_seconds_async",
    "fire_immediately",
    "fire_immediately_async",
    "sensor_succeeds",
    "success_sensor_python",
]
_SOFT = [
    "timeout_after_second_date_in_the_future",
    "timeout_after_second_date_in_the_future_async",
    "sensor_fails_after_3_seconds",
    "failure_timeout_sensor_python",
    "week_day_sensor_failing_on_timeout",
]
_FILE = "remove_file wait_for_file wait_for_file_async create_file_after_3_seconds print_date_in_bash"
_LAST = [*_HARD, *_SOFT, "wait_for_file_async", "create_file_after_3_seconds"]


def _sensor(name: str, after: str = "") -> Task:
    return task(name, after, ends=(_FOUND, FAILED))


def _soft(name: str) -> Task:
    return task(name, ends=(_FOUND, _GIVES_UP, FAILED))


def _scripts(dag: Dag) -> Iterator[Script]:
    """Yield all combinations within each kind of sensor, and of any two tasks: all of all are 200,000 and more."""
    yield from by_section(" ".join(_HARD), " ".join(_SOFT), _FILE)(dag)
    yield from all_scripts(dag, most_troubles=2)


sensors = Example(
    Dag(
        (
            *map(_sensor, _HARD),
            *map(_soft, _SOFT),
            task("remove_file"),
            _sensor("wait_for_file", "remove_file"),
            _sensor("wait_for_file_async", "wait_for_file"),
            task("create_file_after_3_seconds"),
            task("print_date_in_bash", " ".join(_LAST), Rule.NONE_FAILED),
        )
    ),
    [
        *map(step, _HARD),
        *map(step, _SOFT),
        step("remove_file"),
        step("wait_for_file", "remove_file"),
        step("wait_for_file_async", "wait_for_file"),
        step("create_file_after_3_seconds"),
        step("print_date_in_bash", " ".join(_LAST), rule="none_failed"),
    ],
    scripts=_scripts,
    orders=(forward, backward),
)
