"""Finds runs for a list: window by window, the newest first, until the page is full or the time is over.

Most filters have no index of their own, because each would cost every run. So a list walks the ids downwards. What is
frequent is found at once. For what is rare, the window grows until the budget is spent; the answer then says how far it
came, and the next page goes on from there.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from mainspring.core.ids import SHARDS, BackfillId, JobId, RunId
from mainspring.core.model import Run, RunKind
from mainspring.core.states import RunState
from mainspring.core.values import value
from mainspring.engine.common.run_ids import SLACK, seek_creation
from mainspring.errors import InvalidInput, TookTooLong
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store

BUDGET = timedelta(milliseconds=250)
"""How long a list looks before it answers what it has found, if nobody said how long."""
FIRST_WINDOW = 16_384 * SHARDS
"""The width of the first window, in ids. Each run has a number of its own, and there are 256 ids for each number."""
GROWTH = 4
FAST_GROWTH = 16


@value(kw_only=True)
class RunFilter:
    """Which runs to list.

    Attributes:
        error: only runs that FAILED with an error that begins with this.
        since, until: only runs that were created at or after the one, and before the other.
    """

    job_id: JobId | None = None
    state: RunState | None = None
    queue: str | None = None
    kind: RunKind | None = None
    backfill_id: BackfillId | None = None
    error: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_only_of_job(self) -> bool:
        """Whether it asks for a job's runs, at most of a time."""
        others = (self.state, self.queue, self.kind, self.backfill_id, self.error)
        return self.job_id is not None and all(other is None for other in others)


@value()
class FoundRuns:
    """A page of runs, the newest first.

    Attributes:
        before: where the next page begins; None if there is none.
        searched_to: when the runs were created down to which the list has looked, if its time was over; else None.
    """

    runs: list[Run]
    before: RunId | None
    searched_to: datetime | None = None


class RunBrowser:
    """Lists runs.

    Args:
        budget: how long a list looks before it answers what it has found.
    """

    def __init__(self, store: Store, *, clock: Clock, budget: timedelta = BUDGET) -> None:
        self._store = store
        self._clock = clock
        self._budget = budget.total_seconds()

    async def find(
        self, tenant: str, wanted: RunFilter, *, before: RunId | None, limit: int, is_brief: bool = False
    ) -> FoundRuns:
        """Return a page of runs.

        Args:
            is_brief: leave payload, result and output of the runs out.

        Raises:
            InvalidInput: `error` is asked for without the state FAILED, the tenant has no such backfill, or the store
                is too slow for this list. The error says what to add.
        """
        if wanted.error is not None and wanted.state is not RunState.FAILED:
            raise InvalidInput("error", "is only for runs that FAILED; add state=FAILED")
        try:
            wanted = await self._of_backfill(tenant, wanted)
            bounds = await self._store.read_run_bounds()
            if bounds is None:
                return FoundRuns([], None)
            low, high = await self._narrow(wanted, bounds[0], bounds[1] + 1)
            if before is not None:
                high = min(high, before)
            return await self._walk(tenant, wanted, low, high, limit=limit, is_brief=is_brief)
        except TookTooLong as error:
            raise InvalidInput(_name_missing(wanted), _REFUSAL) from error

    async def _of_backfill(self, tenant: str, wanted: RunFilter) -> RunFilter:
        """Add what is known of a backfill's runs: their job, which has an index, and when they were made."""
        if wanted.backfill_id is None:
            return wanted
        [backfill] = await self._store.get_backfills([wanted.backfill_id])
        if backfill is None or backfill.tenant != tenant:
            raise InvalidInput("backfill", "there is no such backfill; list them with GET /backfills")
        if wanted.job_id not in {None, backfill.job_id}:
            raise InvalidInput("backfill", "is of another job than job_id; leave one of them out")
        since = backfill.created_at - SLACK
        until = None if backfill.closed_at is None else backfill.closed_at + SLACK
        return replace(
            wanted,
            job_id=backfill.job_id,
            since=since if wanted.since is None else max(since, wanted.since),
            until=min((each for each in (until, wanted.until) if each is not None), default=None),
        )

    async def _narrow(self, wanted: RunFilter, low: int, high: int) -> tuple[int, int]:
        """Return the range of ids that holds everything created between two instants, and not much more."""
        first, end = low, high
        if wanted.since is not None:
            first, _ = await seek_creation(self._store, wanted.since - SLACK, low, high)
        if wanted.until is not None:
            _, end = await seek_creation(self._store, wanted.until + SLACK, first, high)
        return first, end

    async def _walk(
        self, tenant: str, wanted: RunFilter, low: int, high: int, *, limit: int, is_brief: bool
    ) -> FoundRuns:
        begun = self._clock.monotonic()
        # A job's runs have an index: without further filters, whatever it holds in the range is the page.
        width = high - low if wanted.is_only_of_job else FIRST_WINDOW
        runs: list[Run] = []
        while low < high:
            since = self._clock.monotonic()
            lowest = max(low, high - width)
            runs += await self._store.list_runs(
                tenant,
                job_id=wanted.job_id,
                state=wanted.state,
                queue=wanted.queue,
                kind=wanted.kind,
                backfill_id=wanted.backfill_id,
                error=wanted.error,
                since=wanted.since,
                until=wanted.until,
                lowest=RunId(lowest),
                before=RunId(high),
                limit=limit - len(runs),
                is_brief=is_brief,
            )
            if len(runs) == limit:
                return FoundRuns(runs, runs[-1].id)
            high = lowest
            now = self._clock.monotonic()
            if now - begun >= self._budget:
                break
            width *= self._growth(now - since)
        if low >= high:
            return FoundRuns(runs, None)
        [searched_to] = await self._store.read_creations([RunId(high)])
        return FoundRuns(runs, RunId(high), searched_to)

    def _growth(self, took: float) -> int:
        """Return how much wider the next window may be, so that it takes half the budget at most."""
        for factor in (FAST_GROWTH, GROWTH):
            if took * factor * 2 <= self._budget:
                return factor
        return 1


_REFUSAL = "the list takes too long without it; add it, or another of job_id, state, since and until"


def _name_missing(wanted: RunFilter) -> str:
    """Return the filter that would help most."""
    return "job_id" if wanted.job_id is None else "since"
