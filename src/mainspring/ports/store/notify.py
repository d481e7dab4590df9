"""Jobs that tell channels what becomes of them (`core.notify`)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from mainspring.core.ids import JobId
from mainspring.core.notify import LateRun, NotifyingJob, UnnoticedFailure

LOOKED_AT = 20
"""Live runs of a job that are looked at for one that is late: the oldest."""


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

    async def find_failing(
        self, wanted: Sequence[tuple[JobId, int, datetime]]
    ) -> list[UnnoticedFailure | None]:
        """Say which jobs have failed so many times in a row since an instant, and return their newest failed runs.

        Those are the newest runs that FAILED, if all of them have ended from the instant on; none that was made after
        the first of these has SUCCEEDED. Runs that were skipped or cancelled do not count. If one of them was redriven
        or discarded as a dead letter, it has been dealt with, and the job does not fail any more.

        Dead letters are kept longer than runs that have succeeded. Ask for no more time than these are kept, or one in
        between may not be known any more. Ask for at most 1,000 jobs at a time.

        Raises:
            TookTooLong: the search was stopped at its limit, as lists are.
        """
        ...

    async def find_late(self, wanted: Sequence[tuple[JobId, datetime]]) -> list[LateRun | None]:
        """Return for each job what was due before an instant and has not ended: a live run, or a fire.

        Of several it is the one that was due first. Runs of backfills do not count.

        Only the oldest `LOOKED_AT` live runs are looked at, in order of their ids. So a late run is missed while so
        many older ones live that are not late: runs of backfills, and runs that were submitted for a later time.

        Raises:
            TookTooLong: the search was stopped at its limit, as lists are.
        """
        ...
