"""The census: how many runs there are, by tenant, queue and state, at one instant."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import chain
from typing import NamedTuple

from mainspring.core.states import READY_STATES, RunState
from mainspring.core.values import value

QUICK = timedelta(milliseconds=20)
"""If the last census took no longer than this, whoever asks for counts gets them counted anew."""
FEW = 10_000
"""So many runs are quick to count, even if the last census met with a pause of the machine and took longer."""
NEW_ENOUGH = timedelta(minutes=1)
"""A run that became ready since a census that is as new as this has not waited for long."""
MOST_LINES = 20_000
"""The most lines of each kind that a census keeps: those with the most runs."""


class LiveLine(NamedTuple):
    """The live runs of one tenant and queue in one state. The earliest became, or becomes, ready at that instant."""

    tenant: str
    queue: str
    state: RunState
    runs: int
    earliest_ready_at: datetime


class EndedLine(NamedTuple):
    """The runs of one tenant that ended in one state and are still kept."""

    tenant: str
    state: RunState
    runs: int


class DeadLine(NamedTuple):
    """The open dead letters of one tenant and queue."""

    tenant: str
    queue: str
    runs: int


@value(kw_only=True)
class Census:
    """How many runs there were at one instant. All its counts are of that instant.

    Attributes:
        took: how long the count took.
        dead: open dead letters. They are among those that ended, too.
        is_cut: there were more lines than a census keeps.
    """

    taken_at: datetime
    took: timedelta
    live: tuple[LiveLine, ...]
    ended: tuple[EndedLine, ...]
    dead: tuple[DeadLine, ...] = ()
    is_cut: bool = False

    @property
    def total(self) -> int:
        """How many runs were counted."""
        return sum(line.runs for line in chain[LiveLine | EndedLine](self.live, self.ended))

    @property
    def is_quick(self) -> bool:
        """Whether whoever asks gets a count of now, because that is quick, or this one is incomplete."""
        return self.took <= QUICK or self.total <= FEW or self.is_cut

    def queues_that_wait(self, period: timedelta, now: datetime) -> tuple[str, ...] | None:
        """Return the queues of which a run may have been ready for a period; None if it may be one of any queue."""
        if self.is_cut or now - self.taken_at > NEW_ENOUGH:
            return None
        waiting = {
            line.queue
            for line in self.live
            if line.state in READY_STATES and line.earliest_ready_at <= now - period
        }
        return tuple(sorted(waiting))

    def lines_of(self, tenant: str) -> list[LiveLine]:
        """Return the lines of a tenant's live runs."""
        return [line for line in self.live if line.tenant == tenant]

    def dead_of(self, tenant: str) -> list[DeadLine]:
        """Return the lines of a tenant's open dead letters."""
        return [line for line in self.dead if line.tenant == tenant]

    def of_tenant(self, tenant: str) -> dict[RunState, int]:
        """Return how many runs a tenant has in each state. States without runs are left out."""
        return add_up(
            line for line in chain[LiveLine | EndedLine](self.live, self.ended) if line.tenant == tenant
        )


def add_up(lines: Iterable[LiveLine | EndedLine]) -> dict[RunState, int]:
    """Return how many runs the lines count in each state."""
    counts: dict[RunState, int] = {}
    for line in lines:
        counts[line.state] = counts.get(line.state, 0) + line.runs
    return counts


def make_census(
    live: Iterable[LiveLine],
    ended: Iterable[EndedLine],
    dead: Iterable[DeadLine],
    *,
    taken_at: datetime,
    took: timedelta,
) -> Census:
    """Make a census that keeps no more lines than it may."""
    all_live = sorted(live, key=lambda line: -line.runs)
    all_ended = sorted(ended, key=lambda line: -line.runs)
    all_dead = sorted(dead, key=lambda line: -line.runs)
    return Census(
        taken_at=taken_at,
        took=took,
        live=tuple(all_live[:MOST_LINES]),
        ended=tuple(all_ended[:MOST_LINES]),
        dead=tuple(all_dead[:MOST_LINES]),
        is_cut=max(len(all_live), len(all_ended), len(all_dead)) > MOST_LINES,
    )
