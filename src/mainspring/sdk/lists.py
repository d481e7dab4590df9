"""Lists of any length: they ask for a page when the one before is used up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from mainspring.sdk.log_streams import follow_lines, follow_lines_sync

if TYPE_CHECKING:
    from mainspring.wire.dead_letters import DeadRunView
    from mainspring.wire.pages import BriefView
    from mainspring.wire.views import JobView, RunView, WorkerView

T = TypeVar("T")
FIRST_PAGE = 100
LATER_PAGE = 1000
"""Who reads on beyond the first page wants many, and gets them in fewer requests. But whole runs can be large."""


class RunFilters(TypedDict, total=False):
    """Which runs to list. What is left out, or None, does not matter.

    Attributes:
        job_id: only runs of this job.
        state, kind, queue: only runs in this state, of this kind, of this queue.
        backfill: only runs of this backfill.
        error: only runs that FAILED with an error that begins with this; needs `state`.
        since, until: only runs created at or after the one, and before the other. Text like `2h` and a `timedelta`
            mean so long ago, by the store's clock.
    """

    job_id: str | None
    state: str | None
    queue: str | None
    kind: str | None
    backfill: str | None
    error: str | None
    since: str | datetime | timedelta | None
    until: str | datetime | timedelta | None


class DeadFilters(TypedDict, total=False):
    """Which dead letters are meant. What is left out, or None, does not matter.

    Attributes:
        job: only those of this job, a name or an id.
        queue, reason: only those of this queue, or that failed for this reason.
        error: only those whose error has this text in it.
        error_group: only those whose error is of exactly this group.
        since, until: only those that failed at or after the one, and before the other. Text like `2h` and a
            `timedelta` mean so long ago, by the store's clock.
    """

    job: str | None
    queue: str | None
    reason: str | None
    error: str | None
    error_group: str | None
    since: str | datetime | timedelta | None
    until: str | datetime | timedelta | None


NO_FILTERS: dict[str, str | int | None] = dict.fromkeys(RunFilters.__annotations__)


def query_of(wanted: RunFilters) -> dict[str, str | int | None]:
    """Return the filters as a query has them.

    Raises:
        TypeError: there is no such filter.
    """
    query: dict[str, str | int | None] = {}
    for name, given in wanted.items():
        if name not in NO_FILTERS:
            raise TypeError(f"there is no filter {name!r}")
        query[name] = text_of(given)
    return query


def text_of(given: Any) -> str | None:
    """Return an instant, a length of time or a text as a query has it."""
    if isinstance(given, datetime):
        return given.isoformat()
    if isinstance(given, timedelta):
        return f"{given.total_seconds():.6f}s"
    return None if given is None else str(given)


class AsyncLists:
    """Lists of any length, for `async for`. The methods `list_…` of the same class return an awaitable page."""

    def runs(self: Any, **wanted: Unpack[RunFilters]) -> AsyncIterator[RunView]:
        """Yield runs, the newest first. `break` when you have enough: no further page is asked for.

        A search that finds little goes on, page by page, to the oldest run; `since` ends it sooner.
        """
        return _walk(lambda at, limit: self.list_runs(before=at, limit=limit, **wanted), most=FIRST_PAGE)

    def briefs(self: Any, **wanted: Unpack[RunFilters]) -> AsyncIterator[BriefView]:
        """Yield runs as `runs` does, without payload, result and output."""
        return _walk(lambda at, limit: self.list_briefs(before=at, limit=limit, **wanted))

    def dead_runs(
        self: Any, *, settled: bool | None = None, **wanted: Unpack[DeadFilters]
    ) -> AsyncIterator[DeadRunView]:
        """Yield dead letters, the newest runs first: the open ones, or those that are settled."""
        return _walk(lambda at, limit: self.list_dead_runs(settled=settled, before=at, limit=limit, **wanted))

    def jobs(self: Any) -> AsyncIterator[JobView]:
        """Yield all jobs, in order of creation."""
        return _walk(lambda at, limit: self.list_jobs(after=at, limit=limit))

    def workers(self: Any) -> AsyncIterator[WorkerView]:
        """Yield all live worker sessions, in order of their start."""
        return _walk(lambda at, limit: self.list_workers(after=at, limit=limit))

    def follow_logs(self: Any, run_id: str, *, attempt: int | None = None) -> AsyncIterator[str]:
        """Yield the lines that a run writes, while it writes them, until it has ended.

        Args:
            attempt: only those of this attempt; None begins with the last one that has begun, and goes on with those
                after it.
        """
        return follow_lines(lambda work: work(self), run_id, attempt)


class Lists:
    """The same for code without an event loop, for `for`. The methods `list_…` return their answers."""

    def runs(self: Any, **wanted: Unpack[RunFilters]) -> Iterator[RunView]:
        """Yield runs, as `AsyncLists.runs` does."""
        return _walk_sync(lambda at, limit: self.list_runs(before=at, limit=limit, **wanted), most=FIRST_PAGE)

    def briefs(self: Any, **wanted: Unpack[RunFilters]) -> Iterator[BriefView]:
        """Yield runs without payload, result and output."""
        return _walk_sync(lambda at, limit: self.list_briefs(before=at, limit=limit, **wanted))

    def dead_runs(
        self: Any, *, settled: bool | None = None, **wanted: Unpack[DeadFilters]
    ) -> Iterator[DeadRunView]:
        """Yield dead letters, as `AsyncLists.dead_runs` does."""
        return _walk_sync(
            lambda at, limit: self.list_dead_runs(settled=settled, before=at, limit=limit, **wanted)
        )

    def jobs(self: Any) -> Iterator[JobView]:
        """Yield all jobs, in order of creation."""
        return _walk_sync(lambda at, limit: self.list_jobs(after=at, limit=limit))

    def workers(self: Any) -> Iterator[WorkerView]:
        """Yield all live worker sessions, in order of their start."""
        return _walk_sync(lambda at, limit: self.list_workers(after=at, limit=limit))

    def follow_logs(self: Any, run_id: str, *, attempt: int | None = None) -> Iterator[str]:
        """Yield the lines that a run writes, as `AsyncLists.follow_logs` does."""
        return follow_lines_sync(self._perform, run_id, attempt)


async def _walk(
    ask: Callable[[str | None, int], Awaitable[Any]], *, most: int = LATER_PAGE
) -> AsyncIterator[Any]:
    at: str | None = None
    limit = FIRST_PAGE
    while True:
        page = await ask(at, limit)
        for item in page.items:
            yield item
        at, limit = page.next, most
        if at is None:
            return


def _walk_sync(ask: Callable[[str | None, int], Any], *, most: int = LATER_PAGE) -> Iterator[Any]:
    at: str | None = None
    limit = FIRST_PAGE
    while True:
        page = ask(at, limit)
        yield from page.items
        at, limit = page.next, most
        if at is None:
            return
