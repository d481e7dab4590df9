"""Jobs that tell channels what becomes of them (`core.notify`)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from mainspring.core.ids import JobId
from mainspring.core.notify import LateRun, NotifyingJob, UnnoticedFailure


class NotifyStore(Protocol):
    """Jobs with `notify`. Which there are is kept by the verbs that add, edit and delete jobs.

    A run of such a job that fails for good is unnoticed until `AlertStore.save_alerts` notes otherwise.
    """

    async def list_notifying_jobs(self) -> list[NotifyingJob]:
        """Return the jobs of all tenants that have `notify`, in order of their ids."""
        ...

    async def list_unnoticed(self, *, limit: int) -> list[UnnoticedFailure]:
        """Return failed runs that are not noticed yet, in order of their ids."""
        ...

    async def find_failing(self, wanted: Sequence[tuple[JobId, int]]) -> list[UnnoticedFailure | None]:
        """Say which jobs have failed so many times in a row, and return their newest failed runs.

        Those are the newest runs that FAILED; none that was made after the first of these has SUCCEEDED. Runs that
        were skipped or cancelled do not count.
        """
        ...

    async def find_late(self, wanted: Sequence[tuple[JobId, datetime]]) -> list[LateRun | None]:
        """Return for each job what was due before an instant and has not ended: a live run, or a fire.

        Of several it is the one that was due first. Runs of backfills do not count.
        """
        ...
