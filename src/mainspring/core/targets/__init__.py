"""Targets: what a job runs.

`TARGETS` has every type that this process knows. A new one is a module beside these, one more entry here, and a module
of the same name in `executors` with its `make_executor`. Only workflows have no executor: the engine carries them out.
"""

from __future__ import annotations

from collections.abc import Collection

from mainspring.core.targets.base import TargetType
from mainspring.core.targets.container import ContainerType
from mainspring.core.targets.function import FunctionType
from mainspring.core.targets.grpc import GrpcType
from mainspring.core.targets.http import HttpType
from mainspring.core.targets.kubernetes import KubernetesType
from mainspring.core.targets.shell import ShellType
from mainspring.core.targets.workflow import WorkflowType
from mainspring.core.types import Types

__all__ = ["BUILT_IN", "TARGETS", "WORKFLOW", "TargetType", "WorkflowType", "accepted_types", "unknown_type"]

TARGETS: Types[TargetType] = Types(
    "target",
    HttpType(),
    FunctionType(),
    ShellType(),
    GrpcType(),
    ContainerType(),
    KubernetesType(),
    WorkflowType(),
)
WORKFLOW = WorkflowType.name
"""The type of jobs that run steps."""
BUILT_IN = tuple(name for name in TARGETS.by_name if name != WORKFLOW)
"""Names of the types whose executors are Mainspring's own."""


def accepted_types(switches: Collection[str] = ()) -> frozenset[str]:
    """Return the names of the types that are accepted where these switches are on."""
    return frozenset(one.name for one in TARGETS if one.switch is None or one.switch in switches)


def unknown_type(name: object, accepted: frozenset[str] | None) -> str:
    """Say why a type is not accepted, and which ones are."""
    known = TARGETS.by_name.get(name) if isinstance(name, str) else None
    if known is not None and known.switch is not None:
        given = known.turned_on_by or f"--{known.switch.replace('_', '-')}"
        return f"{name} jobs are not enabled here; start the server with {given}"
    return f"must be one of {', '.join(sorted(TARGETS.by_name if accepted is None else accepted))}"
