"""Which run is that of which step."""

from __future__ import annotations

from mainspring.core.ids import RunId
from mainspring.core.values import value

NO_ITEM = -1
"""The item of a step that runs once."""


@value()
class StepPlace:
    """Where in a workflow a run belongs. No two live runs have the same place.

    Attributes:
        flow_id: the workflow's run.
        step: the place of the step in the workflow.
        item: which of the step's items it runs for; `NO_ITEM` if it runs once.
    """

    flow_id: RunId
    step: int
    item: int = NO_ITEM


_WORKFLOW = "workflow"


def is_workflow_route(route: str) -> bool:
    """Say whether the runs of a lane's route are workflows: the engine carries them out, and all shards share them."""
    return route.startswith(_WORKFLOW) and route[len(_WORKFLOW) :][:1] in {"", "+"}


def may_be_of_step(target_key: str | None) -> bool:
    """Say whether a run may be that of a step, by its target key. Callers' keys may look like one of these, too."""
    return target_key is not None and "." in target_key
