"""Jobs that are paused when their runs fail."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from mainspring.core.ids import JobId
from mainspring.ports.store.jobs import ClockChange


class FailureStore(Protocol):
    """Jobs that are paused when their runs fail."""

    async def read_failing(self, shards: Sequence[int], *, limit: int) -> list[JobId]:
        """Return jobs of these shards that seem to have failed as often in a row as their definitions allow.

        It is a hint: `pause_failing` decides.
        """
        ...

    async def pause_failing(self, changes: Sequence[ClockChange], *, now: datetime) -> list[JobId]:
        """Pause those of these jobs that have failed as often in a row as their definitions allow; return them.

        `core.failures` decides, under the lock of the job and its clock. The clock stops as by `pause_jobs`, and the
        job notes why. Jobs are left out that are paused or deleted, or whose clocks have moved since they were read.
        """
        ...
