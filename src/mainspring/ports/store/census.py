"""How many runs there are: counted, and kept."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from mainspring.core.census import Census, DeadLine, EndedLine, LiveLine
from mainspring.core.states import RunState
from mainspring.ports.store.nodes import Epochs

MOST_OVERDUE = 100_000
"""So many clocks are counted that wait for a fire that is overdue."""


class Counted(NamedTuple):
    """How many runs there are, all at one instant.

    Attributes:
        overdue: how many clocks wait for a fire that is overdue, at most `MOST_OVERDUE`; 0 in the counts of one tenant.
    """

    live: Sequence[LiveLine]
    ended: Sequence[EndedLine]
    dead: Sequence[DeadLine]
    overdue: int = 0


class CensusStore(Protocol):
    """How many runs there are.

    Ended runs are too many to be counted each time. The store keeps a tally of them, by day, up to an instant; only
    what ended later is counted. What the janitor removes is taken off the tally.
    """

    async def count_runs(self, tenant: str) -> dict[RunState, int]:
        """Return how many runs of a tenant are in each state, including finished ones that are still kept.

        Raises:
            TookTooLong: it took longer than a list or count may take.
        """
        ...

    async def count_lines(self, tenant: str) -> Counted:
        """Return how many runs of a tenant there are: live ones by queue and state, ended ones by state, and open dead
        letters by queue.

        Raises:
            TookTooLong: it took longer than a list or count may take.
        """
        ...

    async def count_all_runs(self, *, overdue_before: datetime) -> Counted:
        """Return how many runs of every tenant there are, and how many clocks were due before an instant."""
        ...

    async def settle_ends(self, *, before: datetime, epochs: Epochs) -> bool:
        """Add what ended before an instant to the tally, as much of it as one transaction should.

        Does nothing without the epoch of shard 0. Nothing may end before that instant later on.

        Returns:
            Whether there is more to add.
        """
        ...

    async def put_census(self, census: Census, *, epochs: Epochs) -> bool:
        """Replace the stored census. Return False, and leave it, without the epoch of shard 0."""
        ...

    async def read_census(self) -> Census | None:
        """Return the stored census; None before the first one."""
        ...
