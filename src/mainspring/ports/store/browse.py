"""Lists for people. A read is stopped at its limit, and holds up nothing but other lists."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from mainspring.core.ids import BackfillId, JobId, RunId, SessionId
from mainspring.core.model import Run, RunKind
from mainspring.core.states import RunState
from mainspring.core.why import WaitFacts
from mainspring.ports.store.sessions import SessionFacts


class JobCounts(NamedTuple):
    """How many jobs there are."""

    active: int
    paused: int


class OverdueFires(NamedTuple):
    """How many clocks wait for a fire that is overdue, and since when one of them has been due."""

    clocks: int
    oldest_due_at: datetime | None


class BrowseStore(Protocol):
    """Lists of runs and workers.

    Every method raises `TookTooLong` if it took longer than it may.
    """

    async def list_runs(
        self,
        tenant: str,
        *,
        job_id: JobId | None = None,
        state: RunState | None = None,
        queue: str | None = None,
        kind: RunKind | None = None,
        backfill_id: BackfillId | None = None,
        error: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        lowest: RunId | None = None,
        before: RunId | None = None,
        limit: int = 100,
        is_brief: bool = False,
    ) -> list[Run]:
        """Return a page of runs, the newest first.

        It passes every run in its range of ids that the filters leave out, except those of other jobs, and those that
        another table holds because of their state.

        Args:
            backfill_id: only runs of this backfill. They are found by its job, so give that, too.
            error: only runs that have ended with an error that begins with this.
            since, until: only runs that were created at or after the one, and before the other.
            lowest, before: only runs with ids from the one on, and below the other.
            is_brief: leave payload, result and output of the runs out: they are None.
        """
        ...

    async def read_job_names(self, job_ids: Sequence[JobId]) -> dict[JobId, str]:
        """Return the names of jobs, of deleted ones too; unknown ones are left out."""
        ...

    async def page_sessions(
        self, *, after: SessionId | None = None, limit: int = 100, tenant: str | None = None
    ) -> list[SessionFacts]:
        """Return a page of live sessions after the given one, in order of id.

        Args:
            tenant: only those that are bound to it; None means all, bound or not.
        """
        ...

    async def read_run_bounds(self) -> tuple[RunId, RunId] | None:
        """Return the lowest and the highest id of all runs, of every tenant; None if there are none."""
        ...

    async def read_creations(self, run_ids: Sequence[RunId]) -> list[datetime | None]:
        """Return for each id when the first run from that id on was created; None if there is none.

        The id may be that of no run.
        """
        ...

    async def count_held(self, session_ids: Sequence[SessionId]) -> list[int]:
        """Return for each session how many runs it holds."""
        ...

    async def count_job_states(self, tenant: str, *, limit: int) -> JobCounts:
        """Return how many of a tenant's jobs are paused, and how many are not. It counts the first `limit` jobs."""
        ...

    async def count_overdue(self, *, before: datetime, limit: int) -> OverdueFires:
        """Return how many clocks, of every tenant, were due before an instant and have not fired; at most `limit`."""
        ...

    async def read_wait(self, run_id: RunId, *, now: datetime) -> WaitFacts | None:
        """Return what a waiting run waits for, apart from its time; None if it does not wait."""
        ...
