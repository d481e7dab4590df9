"""Jobs whose next fire waits for the end of a run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from mainspring.core.clocks import NextFire
from mainspring.core.ends import FiredRun
from mainspring.core.ids import JobId
from mainspring.core.values import value
from mainspring.ports.store.nodes import Epochs


class EndStore(Protocol):
    """Jobs whose next fire waits for the end of a run (ADR 0060)."""

    async def watches_ends(self, shards: Sequence[int]) -> bool:
        """Say whether these shards have jobs whose trigger counts from an end."""
        ...

    async def read_ended(self, shards: Sequence[int], *, limit: int) -> list[JobId]:
        """Return jobs of these shards whose trigger counts from an end, and whose last fire has no live run.

        Their clocks stand nowhere, and they are not paused. It is a hint: `follow_ends` decides.
        """
        ...

    async def find_fires(self, fires: Sequence[tuple[JobId, datetime]]) -> list[FiredRun | None]:
        """Return what became of fires, each given by its job and its nominal time.

        None: there is no run, or it is no longer kept. A run that has ended is found if it is among the newest thousand
        that its job has in the history, or among as many that FAILED.
        """
        ...

    async def follow_ends(
        self, following: Sequence[FollowingFire], *, epochs: Epochs, now: datetime
    ) -> list[FollowVerdict]:
        """Set clocks that stand nowhere to the fires that follow the ends of runs, and raise their revisions.

        A clock is set only if its revision is the given one; otherwise the answer is `MOVED`. It is `FENCED` if the
        shard's epoch is not the given one (law 3). A job that has no next fire is looked at no more, until it is
        edited.
        """
        ...


@value(kw_only=True)
class FollowingFire:
    """The fire that follows the end of a run.

    Attributes:
        revision: that of the clock when the end was looked up.
        next_fire: None if the job does not fire any more.
    """

    job_id: JobId
    revision: int
    next_fire: NextFire | None


class FollowVerdict(StrEnum):
    """What becomes of a clock that is to be set after the end of a run."""

    SET = "set"
    MOVED = "moved"
    FENCED = "fenced"
