"""Jobs that are paused when their runs fail."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from mainspring.core.failures import FAILURES
from mainspring.core.ids import JobId
from mainspring.core.model import FireRangeKind
from mainspring.ports.store.schedule import NewFireRange


class FailureStore(Protocol):
    """Jobs that are paused when their runs fail."""

    async def read_failing(self, shards: Sequence[int], *, limit: int) -> list[JobId]:
        """Return jobs of these shards that seem to have failed as often in a row as their definitions allow.

        It is a hint: `pause_failing` decides.
        """
        ...

    async def pause_failing(self, job_ids: Sequence[JobId], *, now: datetime) -> list[JobId]:
        """Pause those of these jobs that have failed as often in a row as their definitions allow; return them.

        `core.failures` decides, under the lock of the job and its clock. The clock stops as by `pause_jobs`, with a gap
        for `failures`, and the job notes why. Paused and deleted jobs are left out.
        """
        ...


def failure_gap(job_id: JobId, version: int, from_at: datetime | None) -> tuple[NewFireRange, ...]:
    """Return the open gap of a job that is paused because its runs failed; none if its clock stands still.

    Args:
        from_at: the first fire that is not made.
    """
    if from_at is None:
        return ()
    gap = NewFireRange(
        job_id=job_id, version=version, kind=FireRangeKind.GAP, from_at=from_at, to_at=None, reason=FAILURES
    )
    return (gap,)
