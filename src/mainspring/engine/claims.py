"""Answers workers' requests for work: merges them, prefers lanes fairly, waits for what becomes ready (design 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mainspring.core.fairness import accepts_route, charge, prefer_lanes
from mainspring.core.ids import LaneId, SessionId
from mainspring.core.model import Lane
from mainspring.core.triggers import EPOCH
from mainspring.engine.lookback import Depth, LookBack
from mainspring.engine.wakeups import Wakeups
from mainspring.errors import StoreUnavailable
from mainspring.ports.clock import Clock, RandomSource, Waiter
from mainspring.ports.gateway import ClaimCall
from mainspring.ports.store import Store
from mainspring.ports.store_types import ClaimedRun, ClaimRequest, ClaimResult, SessionFacts

POLL_PERIOD = 0.5
"""How often lanes are looked at without a hint, at the latest: what another process committed is found by then."""
POLL_JITTER = 0.25
"""The part of the period by which looks come earlier at random, so that many servers do not fall into step."""
SESSIONS_PERIOD = 5.0
"""A call is answered empty only when its session was seen alive within so many seconds."""
LOOKS = (Depth(timedelta(seconds=2)), Depth(timedelta(seconds=30), period=5.0), Depth(None, period=30.0))
"""A run's rank is the instant at which somebody began to write it: what is committed so much later is found late."""
SUSPECT_PATIENCE = timedelta(seconds=2)
"""A run that must be alone may wait so long for an idle worker before busy ones are asked to drain."""


@dataclass(slots=True)
class _Waiting:
    call: ClaimCall
    future: asyncio.Future[ClaimAnswer]
    until: float  # monotonic


@dataclass(frozen=True, slots=True)
class ClaimAnswer:
    """Claimed runs for one call; see `ClaimReply`."""

    runs: tuple[ClaimedRun, ...] = ()
    is_session_live: bool = True
    is_alone_waiting: bool = False


@dataclass(slots=True)
class _LaneView:
    """What was last read of the lanes.

    Attributes:
        seen_at: the store's time when it was read.
        settled: for each lane the instant before which no ready run is known.
    """

    lanes: list[Lane] = field(default_factory=list)
    read_at: float = -1.0e9
    seen_at: datetime = EPOCH
    settled: dict[LaneId, datetime] = field(default_factory=dict)


class ClaimDesk:
    """Holds the claim calls of all workers of this process and serves them together.

    A service: each tick answers what can be answered with one merged `claim_runs` and says when to look again. The
    store is asked for runs only where a lane looks ready, or where a call may be a repeat; whatever it answers then
    goes to the worker, so that a request number is used once.
    """

    name = "claims"

    def __init__(
        self, store: Store, *, clock: Clock, random: RandomSource, wakeups: Wakeups, waiter: Waiter
    ) -> None:
        self._store = store
        self._clock = clock
        self._random = random
        self._wakeups = wakeups
        self.waiter = waiter
        self._waiting: dict[SessionId, _Waiting] = {}
        self._abilities: dict[SessionId, _Abilities] = {}
        self._sessions_read_at = -1.0e9
        self._is_closed = False
        self._last_numbers: dict[SessionId, int] = {}
        self._view = _LaneView()
        self._looks = LookBack(LOOKS)
        self._served: dict[str, float] = {}
        self._poll_period = POLL_PERIOD
        self._has_news = True
        wakeups.subscribe_runs(self._on_runs_ready)

    @property
    def waiting(self) -> int:
        """How many calls wait for work."""
        return len(self._waiting)

    def _on_runs_ready(self) -> None:
        self._has_news = True
        if self._waiting:
            self.waiter.signal()

    async def claim(self, call: ClaimCall) -> ClaimAnswer:
        """Queue a call and wait for its answer (at most `call.wait`).

        A newer call of the same session takes the older one's place, which is answered empty: the worker gave up
        waiting for it. A caller that is cancelled leaves the queue; what the store has given to the call by then stays
        with the session, and a repeat of the number brings it.

        Raises:
            StoreUnavailable: the desk is closed.
        """
        if self._is_closed:
            raise StoreUnavailable("the engine is stopping")
        future: asyncio.Future[ClaimAnswer] = asyncio.get_running_loop().create_future()
        older = self._waiting.pop(call.session_id, None)
        if older is not None and not older.future.done():
            older.future.set_result(ClaimAnswer())
        until = self._clock.monotonic() + call.wait.total_seconds()
        mine = _Waiting(call, future, until)
        self._waiting[call.session_id] = mine
        self.waiter.signal()
        try:
            return await future
        finally:
            if self._waiting.get(call.session_id) is mine:
                del self._waiting[call.session_id]

    def close(self) -> None:
        """Answer those who wait, empty, and send others away: the engine is stopping."""
        self._is_closed = True
        for item in list(self._waiting.values()):
            self._resolve(item, ClaimAnswer())

    def welcome(self, session_id: SessionId) -> None:
        """Note that a session was just opened: its first call cannot be a repeat of one that another desk served."""
        self._last_numbers[session_id] = 0

    def forget(self, session_id: SessionId) -> None:
        """Drop what is kept of a session that has ended."""
        self._abilities.pop(session_id, None)
        self._last_numbers.pop(session_id, None)

    async def tick(self, now: datetime) -> float:
        """Serve the calls that wait; return when something may become ready or a wait ends."""
        if not self._waiting:
            return POLL_PERIOD
        await self._read_lanes(now)
        waiting = list(self._waiting.values())
        await self._know_sessions(waiting)
        asked: list[_Waiting] = []
        requests: list[ClaimRequest] = []
        for item in waiting:
            if item.future.done():
                continue  # replaced, or its caller has gone while the store was read: take nothing for it
            if item.call.session_id not in self._abilities:
                self.forget(item.call.session_id)
                self._resolve(item, ClaimAnswer(is_session_live=False))
                continue
            request = self._request(item.call, now)
            if request.lanes or self._may_repeat(item.call):
                asked.append(item)
                requests.append(request)
            else:
                self._answer_if_over(item, now)
        for item in asked:  # should this fail, nobody knows what the store has given to them
            self._last_numbers.pop(item.call.session_id, None)
        results = await self._store.claim_runs(requests, now=now)
        self._take(asked, results, now)
        if self._waiting and not self._has_news:
            self._wakeups.runs_wanted()
        return self._delay(now)

    def _may_repeat(self, call: ClaimCall) -> bool:
        """Say whether the store may have given leases to this very number: then it is asked, ready runs or not."""
        last = self._last_numbers.get(call.session_id)
        return last is None or call.number != last + 1

    def _take(self, asked: list[_Waiting], results: list[ClaimResult], now: datetime) -> None:
        taken: dict[str, int] = {}
        for item, result in zip(asked, results, strict=True):
            for run in result.runs:
                taken[run.tenant] = taken.get(run.tenant, 0) + 1
            if len(result.runs) == item.call.limit:
                self._has_news = True  # there may be more than was taken
            if result.is_session_live:
                self._last_numbers[item.call.session_id] = item.call.number
            else:
                self.forget(item.call.session_id)
            answer = ClaimAnswer(result.runs, result.is_session_live, self._is_drain_wanted(item.call, now))
            self._resolve(item, answer)
        if taken:
            self._served = charge(self._served, taken, {})

    async def _read_lanes(self, now: datetime) -> None:
        at = self._clock.monotonic()
        if self._has_news or at - self._view.read_at >= self._poll_period or self._is_rank_reached(now):
            self._has_news = False
            look = self._looks.choose(at)
            lanes = await self._store.read_lanes((), lows=self._lows(self._looks.lag(look)))
            self._looks.note(look, begun=at, ended=self._clock.monotonic())
            settled = {lane.id: min(lane.oldest_rank or now, now) for lane in lanes}
            self._view = _LaneView(lanes, read_at=at, seen_at=now, settled=settled)
            self._poll_period = POLL_PERIOD * (1 - POLL_JITTER * self._random.random())

    def _is_rank_reached(self, now: datetime) -> bool:
        return any(
            rank is not None and rank <= now
            for lane in self._view.lanes
            for rank in (lane.oldest_rank, lane.oldest_suspect_rank)
        )

    async def _know_sessions(self, waiting: list[_Waiting]) -> None:
        at = self._clock.monotonic()
        is_old = at - self._sessions_read_at >= SESSIONS_PERIOD and any(item.until <= at for item in waiting)
        if is_old or any(item.call.session_id not in self._abilities for item in waiting):
            sessions = await self._store.list_sessions()
            self._sessions_read_at = at
            known = self._abilities
            self._abilities = {item.id: known.get(item.id) or _Abilities(item) for item in sessions}
            numbers = self._last_numbers
            self._last_numbers = {key: numbers[key] for key in numbers if key in self._abilities}

    def _request(self, call: ClaimCall, now: datetime) -> ClaimRequest:
        abilities = self._abilities.get(call.session_id)
        lanes = [] if abilities is None else [lane for lane in self._view.lanes if abilities.serve(lane)]
        if call.is_idle:
            suspects = [lane for lane in lanes if _has_suspect(lane, now)]
            if suspects:
                ids = tuple(lane.id for lane in sorted(suspects, key=_suspect_order))
                return _make_request(call, ids, limit=1, is_alone=True)
        preferred = tuple(prefer_lanes(lanes, now=now, served=self._served))
        lows = {lane_id: self._view.settled[lane_id] for lane_id in preferred}
        return _make_request(call, preferred, limit=call.limit, lows=lows)

    def _lows(self, lag: timedelta | None) -> dict[LaneId, datetime]:
        """Return where the next look at each lane begins.

        Not before its oldest run, unless that is younger than the lag: then others may be on their way.
        """
        if lag is None:
            return {}
        return {
            lane_id: min(settled, self._view.seen_at - lag) for lane_id, settled in self._view.settled.items()
        }

    def _answer_if_over(self, item: _Waiting, now: datetime) -> None:
        is_drain_wanted = self._is_drain_wanted(item.call, now)
        if is_drain_wanted or item.until <= self._clock.monotonic():
            # The next call is no repeat of this one, and may wait in its turn.
            self._last_numbers[item.call.session_id] = item.call.number
            self._resolve(item, ClaimAnswer(is_alone_waiting=is_drain_wanted))

    def _resolve(self, item: _Waiting, answer: ClaimAnswer) -> None:
        # A call that a newer one of its session replaced is answered already: the newer one, a repeat, gets the runs.
        if self._waiting.get(item.call.session_id) is item:
            del self._waiting[item.call.session_id]
        if not item.future.done():
            item.future.set_result(answer)

    def _is_drain_wanted(self, call: ClaimCall, now: datetime) -> bool:
        abilities = self._abilities.get(call.session_id)
        return (
            not call.is_idle
            and abilities is not None
            and any(
                _has_suspect(lane, now - SUSPECT_PATIENCE) and abilities.serve(lane)
                for lane in self._view.lanes
            )
        )

    def _delay(self, now: datetime) -> float:
        if not self._waiting:
            return POLL_PERIOD
        if self._has_news:
            return 0.0
        at = self._clock.monotonic()
        delay = min(self._poll_period, *(item.until - at for item in self._waiting.values()))
        for lane in self._view.lanes:
            for rank in (lane.oldest_rank, lane.oldest_suspect_rank):
                if rank is not None and rank > now:
                    delay = min(delay, (rank - now).total_seconds())
        return max(delay, 0.0)


class _Abilities:
    """What a session can carry out, with the routes it was asked about."""

    def __init__(self, session: SessionFacts) -> None:
        self._queues = frozenset(session.queues)
        self._types = frozenset(session.types)
        self._functions = frozenset(session.functions)
        self._labels = frozenset(session.labels)
        self._routes: dict[str, bool] = {}

    def serve(self, lane: Lane) -> bool:
        if self._queues and lane.key.queue not in self._queues:
            return False
        known = self._routes.get(lane.key.route)
        if known is None:
            known = accepts_route(
                lane.key.route, types=self._types, functions=self._functions, labels=self._labels
            )
            self._routes[lane.key.route] = known
        return known


def _has_suspect(lane: Lane, by: datetime) -> bool:
    return lane.oldest_suspect_rank is not None and lane.oldest_suspect_rank <= by


def _suspect_order(lane: Lane) -> tuple[datetime | None, LaneId]:
    return lane.oldest_suspect_rank, lane.id


def _make_request(
    call: ClaimCall,
    lanes: tuple[LaneId, ...],
    *,
    limit: int,
    lows: Mapping[LaneId, datetime] | None = None,
    is_alone: bool = False,
) -> ClaimRequest:
    return ClaimRequest(
        session_id=call.session_id,
        number=call.number,
        lanes=lanes,
        limit=limit,
        lows=lows or {},
        is_alone=is_alone,
    )
