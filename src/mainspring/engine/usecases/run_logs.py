"""Use cases on what runs write: read it, or follow it while it is written."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from datetime import datetime, timedelta

from mainspring.core.ids import RunId, format_run_id
from mainspring.core.model import Run
from mainspring.core.run_logs import LogPart, LogText, join_parts, text_from
from mainspring.core.states import FINAL_STATES, RunState
from mainspring.core.values import value
from mainspring.engine.common.log_feed import LogFeed
from mainspring.engine.usecases.runs import Runs
from mainspring.errors import NotFound
from mainspring.ports.store import Store
from mainspring.ports.store.run_logs import KeptProgress, LogPlace

_SOONEST = timedelta(seconds=0.05)
"""What takes less has told nothing: half of the shortest time between two of its parts."""
_PAGE = 64
"""Parts that are read at a time."""
_SHARE = 4
"""Parts that one who follows gets at a time: many who read slowly are not to hold much of a server's memory."""


@value()
class LogMark:
    """Where a reader who follows a run has got to: the token of an attempt's lease, and the place in its output."""

    token: int
    place: int = 0


@value()
class LogNews:
    """What one who follows a run gets next.

    Attributes:
        attempt: the number of the attempt that has written it; 0 with a state.
        text: None: nothing for some seconds, or the end.
        state: the run's, if there will be no more; else None.
        mark: from where to go on.
    """

    attempt: int
    mark: LogMark
    text: str | None = None
    state: RunState | None = None


@value()
class _Try:
    """One lease under which a run was or is carried out. An attempt that was lost or handed back has several."""

    number: int
    token: int
    is_over: bool
    output: str | None


class RunLogs:
    """Use cases on the output of runs. Every method acts for one tenant."""

    def __init__(self, store: Store, runs: Runs, feed: LogFeed) -> None:
        self._store = store
        self._runs = runs
        self._feed = feed

    async def progress(self, run: Run, *, now: datetime) -> KeptProgress | None:
        """Return how far the run's last attempt said it was; None if it has said nothing, or had no time to."""
        if run.started_at is None or (run.finished_at or now) - run.started_at < _SOONEST:
            return None
        [told] = await self._store.get_progress([run.id])
        return told

    async def read(
        self, tenant: str, run_id: RunId, *, attempt: int | None = None, start: int = 0
    ) -> LogText:
        """Return what an attempt has written, from a place on.

        Args:
            attempt: its number; None is the last one that has begun.

        Raises:
            NotFound: this tenant has no such run, or the run no such attempt.
        """
        run = await self._runs.get(tenant, run_id)
        tries = await self._tries(run)
        number = attempt or (tries[-1].number if tries else 0)
        chosen = [one for one in tries if one.number == number]
        if attempt is not None and not chosen:
            raise NotFound("attempt", f"{attempt} of {format_run_id(run_id)}")
        texts: list[str] = []
        base = 0
        for one in chosen:
            text = await self._read_try(run.id, one, max(start - base, 0))
            texts.append(text.text)
            base += text.end
        return LogText("".join(texts), start, max(start, base))

    async def _read_try(self, run_id: RunId, one: _Try, start: int) -> LogText:
        parts: list[LogPart] = []
        place = start
        while True:
            [page] = await self._store.list_log_parts([LogPlace(run_id, one.token, place)], limit=_PAGE)
            parts += page
            if len(page) < _PAGE:
                break
            place = page[-1].end
        if not parts and (start == 0 or not await self._has_parts(run_id, one.token)):
            return text_from(one.output or "", start) if one.is_over else LogText("", start, start)
        return join_parts(parts, start)

    async def _has_parts(self, run_id: RunId, token: int) -> bool:
        [page] = await self._store.list_log_parts([LogPlace(run_id, token)], limit=1)
        return bool(page)

    async def _tries(self, run: Run) -> list[_Try]:
        """Return the leases under which a run was carried out, the oldest first."""
        attempts = await self._store.list_attempts(run.id)
        tries = {one.token: _Try(one.number, one.token, True, one.output) for one in attempts}
        if run.state is RunState.RUNNING:
            tries[run.token] = _Try(run.attempt, run.token, False, None)
        elif run.state in FINAL_STATES and run.started_at is not None and run.token not in tries:
            tries[run.token] = _Try(run.attempt, run.token, True, run.output)
        return [tries[token] for token in sorted(tries)]

    async def check(self, tenant: str, run_id: RunId, attempt: int | None) -> None:
        """Check that there is something to follow.

        Raises:
            NotFound: this tenant has no such run, or the run no such attempt.
        """
        run = await self._runs.get(tenant, run_id)
        if attempt is not None and attempt > run.attempt:
            raise NotFound("attempt", f"{attempt} of {format_run_id(run_id)}")

    async def follow(
        self, tenant: str, run_id: RunId, *, attempt: int | None = None, after: LogMark | None = None
    ) -> AsyncGenerator[LogNews, None]:
        """Yield what a run writes, as it is kept, until the run has ended, or the attempt that was asked for.

        Args:
            attempt: only this one; None begins with the last that has begun, and goes on with those that follow.
            after: where the reader has got to.

        Raises:
            NotFound: this tenant has no such run. Nothing was yielded then.
        """
        with self._feed.follow(run_id) as follower:
            while True:
                follower.has_moved_on = False
                run = await self._runs.get(tenant, run_id)
                tries = await self._tries(run)
                wanted = _wanted(tries, attempt, after)
                for one in wanted:
                    start = after.place if after is not None and after.token == one.token else 0
                    async for news in self._drain(run_id, one, start):
                        after = news.mark
                        yield news
                    if after is None or after.token != one.token:
                        after = LogMark(one.token)
                if _is_over(run, attempt):
                    yield LogNews(0, after or LogMark(0), state=run.state)
                    return
                under_way = next((one for one in wanted if not one.is_over), None)
                if under_way is None or after is None:
                    follower.place = None
                else:
                    follower.place = LogPlace(run_id, under_way.token, after.place)
                while not follower.has_moved_on:
                    parts = await follower.wait()
                    if not parts:
                        if not follower.has_moved_on:
                            yield LogNews(0, after or LogMark(0))
                        continue
                    if under_way is None or after is None:
                        continue
                    text = join_parts(parts, after.place)
                    if text.end == after.place:  # it was read before
                        continue
                    after = LogMark(after.token, text.end)
                    follower.place = LogPlace(run_id, after.token, after.place)
                    yield LogNews(under_way.number, after, text.text)

    async def _drain(self, run_id: RunId, one: _Try, start: int) -> AsyncIterator[LogNews]:
        """Yield what is kept of an attempt from a place on."""
        place = start
        while True:
            [page] = await self._store.list_log_parts([LogPlace(run_id, one.token, place)], limit=_SHARE)
            if not page:
                break
            text = join_parts(page, place)
            place = text.end
            yield LogNews(one.number, LogMark(one.token, place), text.text)
        if place == start and one.is_over and (start == 0 or not await self._has_parts(run_id, one.token)):
            text = text_from(one.output or "", start)
            if text.text:
                yield LogNews(one.number, LogMark(one.token, text.end), text.text)


def _wanted(tries: list[_Try], attempt: int | None, after: LogMark | None) -> list[_Try]:
    """Return the leases whose output a follower still gets."""
    if attempt is not None:
        tries = [one for one in tries if one.number == attempt]
    elif after is None and tries:
        tries = [one for one in tries if one.number == tries[-1].number]
    return [one for one in tries if after is None or one.token >= after.token]


def _is_over(run: Run, attempt: int | None) -> bool:
    if run.state in FINAL_STATES:
        return True
    return attempt is not None and run.attempt > attempt
