"""What could be capped of a run: its queue, its tenant and its labels."""

from __future__ import annotations

from mainspring.core.model import Run
from tools.judge.model import History

ScopeKey = tuple[str, str]


def scopes_of(run: Run) -> set[ScopeKey]:
    """Return what could be capped of a run, read from its lane by rules of its own."""
    _, *labels = run.lane.route.split("+")
    return {("queue", run.lane.queue), ("tenant", run.tenant), *(("label", label) for label in labels)}


def is_ever_capped(history: History, run: Run) -> bool:
    """Say whether a run was ever under a cap."""
    return bool(history.cappings) and not scopes_of(run).isdisjoint(
        (one.scope, one.name) for one in history.cappings
    )
