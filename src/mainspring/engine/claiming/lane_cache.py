"""What a process knows about the lanes: what it has heard of them, and what it looks at."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice

from mainspring.core.fairness import LaneOrder
from mainspring.core.ids import KeyId, LaneId
from mainspring.core.model import Lane, LaneKey
from mainspring.core.pools import Peek
from mainspring.engine.claiming import lane_rounds
from mainspring.engine.claiming.held_lanes import HeldLanes
from mainspring.engine.claiming.known_lanes import KnownLanes
from mainspring.engine.claiming.lane_choices import LaneChooser
from mainspring.engine.claiming.lane_rounds import (
    POLL_JITTER,
    POLL_PERIOD,
    SCAN_DEPTHS,
    SLICE,
    LaneRounds,
)
from mainspring.engine.claiming.lines import LinesInView
from mainspring.engine.claiming.no_room import NoRoom
from mainspring.engine.common.restrictions import RestrictionReader
from mainspring.ports.clock import Clock, RandomSource
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ClaimRequest, ClaimResult
from mainspring.ports.store.limits import PLAIN, LineClaim, LineClaimResult

_LAG = SCAN_DEPTHS[0].lag or timedelta(0)
PEEKED_LANES = 64
"""Lanes of a queue that serves the oldest run first whose runs are seen before a claim, those with the oldest heads."""
PEEKED_RUNS = 64
"""Runs that are seen of each of them, at most."""
_MOST_MADE_ROOM = 1000
"""Keys that are noted by name of those that got room since the last claim, at most. More stand for any: a server that
nobody asks for work hears of them without end."""


class LaneCache:
    """What the last looks said about the lanes.

    While there are few lanes, each look is at all of them. Otherwise it is at those of which something was heard, which
    are named, and now and then at a slice of the others, so that none is forgotten.

    Attributes:
        order: in which order they are to be served.
        lines: what is known of the runs that wait under limits.
        held: the lanes that are paused.
        chooser: says from which lanes sessions get work.
    """

    def __init__(self) -> None:
        self.order: LaneOrder = LaneOrder()
        self.lines: LinesInView = LinesInView()
        self.held: HeldLanes = HeldLanes()
        self._lanes = KnownLanes()
        self._rounds = LaneRounds()
        self._period = POLL_PERIOD
        self._read_at = -1.0e9  # monotonic
        self._heard: dict[LaneId, None] = {}
        self._has_unknown = False
        self._are_lines_old = False
        self._has_line_news = True
        self._made_room: frozenset[KeyId] | None = frozenset()  # since claims were begun; None: any may have
        self._no_room = NoRoom()
        self.chooser: LaneChooser = LaneChooser(
            order=self.order, lines=self.lines, held=self.held, lanes=self._lanes, no_room=self._no_room
        )

    # -- what was heard ------------------------------------------------------------------------------------------------

    @property
    def _are_few(self) -> bool:
        return len(self._lanes) <= lane_rounds.FEW and self._rounds.after is None

    @property
    def _have_lines(self) -> bool:
        """Whether there are lanes whose lines are looked at. Those of runs without keys are found with the lanes."""
        return len(self._lanes.lined_up) > len(self._lanes.plain_lines)

    def hear(self, keys: Callable[[], Iterable[LaneKey]]) -> None:
        """Have lanes looked at before the next use, because runs of them may have become ready."""
        if self._lanes.lined_up or not self._are_few:
            self._hear([self._lanes.find(key) for key in keys()])

    def hear_marks(self, marks: Collection[str]) -> None:
        """Have lanes looked at that another process has named."""
        if self._lanes.lined_up or not self._are_few:
            self._hear([self._lanes.find_marked(mark) for mark in marks])

    def hear_anything(self) -> None:
        """Note that runs of any lanes may have become ready."""
        self._has_line_news = True

    def _hear(self, found: Collection[LaneId | None]) -> None:
        self._has_line_news |= not self._lanes.lined_up.isdisjoint(found) or None in found
        if self._are_few:
            return
        for lane_id in found:
            if lane_id is None:
                self._has_unknown = True  # it is new, so its id is above all others
            else:
                self._heard[lane_id] = None

    def expire(
        self, request: ClaimRequest | LineClaim, result: ClaimResult | LineClaimResult, now: datetime
    ) -> None:
        """Have the lanes looked at before the next use from which a claim took runs, or found none."""
        self._read_at = -1.0e9
        if isinstance(result, LineClaimResult):
            assert isinstance(request, LineClaim), "it is the answer to one"
            self._note_lines(request, result, now)
            return
        assert isinstance(request, ClaimRequest), "it is the answer to one"
        if request.is_quarantined and result.runs:
            self._no_room.forget(result.taken)
        elif request.is_quarantined:
            self._no_room.note(self._lanes.lined_up.intersection(request.lanes), now)
        if not self._are_few:
            is_full = len(result.runs) == request.limit and result.taken
            self._heard.update(dict.fromkeys(result.taken if is_full else request.lanes))

    def _note_lines(self, request: LineClaim, result: LineClaimResult, now: datetime) -> None:
        capped, stops = self._lanes.capped, result.stops
        self._are_lines_old = True
        # A run may have ended after the claim had counted it, and before the answer came: then nobody tells again.
        stops = {
            line: stop for line, stop in stops.items() if stop.is_busy or not self._has_made_room(stop.key_id)
        }
        self.lines.note_claim(request, replace(result, stops=stops), now, is_cap=capped.is_cap)
        capped.close(stops.values(), now)
        plain = [line.key.lane_id for line in request.lines if line.key.key_id == PLAIN]
        capped.news.update(plain)
        if not self._are_few:
            self._heard.update(dict.fromkeys(plain))

    def make_room(self, key_ids: Collection[KeyId] | None) -> None:
        """Note that runs with these keys have ended, so there may be room for those that wait; None: any keys."""
        if self._made_room is not None:
            known = None if key_ids is None else self._made_room.union(key_ids)
            self._made_room = known if known is not None and len(known) <= _MOST_MADE_ROOM else None
        has_room = self._lanes.capped.open(key_ids)
        if self.lines.open(key_ids) or has_room:
            self._are_lines_old = True

    def begin_claims(self) -> None:
        """Note that the store is about to be asked, so that room that is made meanwhile is not missed."""
        self._made_room = frozenset()

    def _has_made_room(self, key_id: KeyId) -> bool:
        return self._made_room is None or key_id in self._made_room

    async def settle(self, reader: RestrictionReader, now: datetime) -> None:
        """Keep the restrictions as they are from now on: some lanes are paused, and others no longer are."""
        if not self.held.is_new and not self.held.is_over(now):
            return
        await self.held.renew(reader)
        held, freed = self.held.settle(self._lanes, now)
        for lane_id in held:
            self.order.remove(lane_id)
        self.order.keep([self._lanes[lane_id].view() for lane_id in freed], among=())
        if self._lanes.capped:
            self._lanes.capped.news |= freed & self._lanes.lined_up
            self._are_lines_old = True
        if self.held.caps is not self._lanes.capped.caps:
            self._follow_caps(now)

    def _follow_caps(self, now: datetime) -> None:
        """Have runs without keys wait in a line where their lane has a cap now, and no longer where it has none."""
        lanes = self._lanes
        if self.held.caps == lanes.capped.caps:
            lanes.capped.caps = self.held.caps
            return
        self.order.stop({})
        for lane_id in lanes.follow(self.held.caps):
            is_line = lane_id in lanes.plain_lines
            self.lines.note_plain(lane_id, lanes[lane_id].ready_at if is_line else None)
            if not is_line:
                self.order.keep(self.held.take([lanes[lane_id].view()], now), among=())
        lanes.capped.news |= lanes.lined_up
        self._are_lines_old = True

    # -- looks ---------------------------------------------------------------------------------------------------------

    def is_old(self, at: float) -> bool:
        """Return whether to look again: the last look was long ago, or something was heard, or a slice is due."""
        return self.due_in(at) <= 0

    def due_in(self, at: float) -> float:
        """Return the seconds until the next look, if nothing is heard before."""
        if self._heard or self._has_unknown or self._are_lines_old or self.held.is_new:
            return 0.0
        rounds = self._rounds
        due_in = self._read_at + self._period - at if self._are_few else rounds.due_in(at, self._period)
        line_in = self.lines.due_in(at) if self._have_lines else None
        return due_in if line_in is None else min(due_in, line_in)

    def ready_in(self, now: datetime) -> float | None:
        """Return the seconds until something becomes ready, as far as is known; None: nothing will."""
        self.order.wake(now)
        instants = [self.order.next_ready_at()]
        if self._lanes.quarantined:
            instants += [instant for instant in self.chooser.quarantined_at().values() if instant > now]
        delays = [(instant - now).total_seconds() for instant in instants if instant]
        changes_in = self.held.changes_in(now)
        return min(delays if changes_in is None else [*delays, changes_in], default=None)

    def ready_instants(self, fits: Callable[[str], bool], now: datetime) -> tuple[datetime, ...]:
        """Return from when on each lane of some routes has a run to start, as far as the last look has found.

        Of a lane whose runs wait in lines, that is now, as long as it has any: only a claim finds out.
        """
        found: list[datetime] = []
        for (_, route), lanes in self._lanes.routes.items():
            if not fits(route):
                continue
            for lane_id in lanes:
                lane = self._lanes[lane_id]
                is_line = lane_id in self._lanes.lined_up
                instants = [now if is_line else lane.ready_at, lane.quarantined_at]
                found += [instant for instant in instants if instant is not None]
        return tuple(found)

    async def read(self, store: Store, clock: Clock, random: RandomSource, now: datetime) -> None:
        """Look at the lanes, each from its lower bound on, and from time to time from further back."""
        self._period = POLL_PERIOD * (1 - POLL_JITTER * random.random())
        if self._are_few:
            self._forget_heard()
            await self._read_slice(store, clock, now)
        else:
            await self._read_heard(store, now)
            if self._has_unknown:
                self._has_unknown = False
                self._keep(await store.read_lanes((), after=self._lanes.last, limit=SLICE), (), now)
            if self._rounds.due_in(clock.monotonic(), self._period) <= 0:
                await self._read_slice(store, clock, now)
        self._are_lines_old = False
        if self._lanes.lined_up:
            await self._read_lines(store, clock, now)

    def _forget_heard(self) -> None:
        self._heard.clear()
        self._has_unknown = False

    async def _read_heard(self, store: Store, now: datetime) -> None:
        heard = [lane_id for lane_id in islice(self._heard, SLICE) if lane_id in self._lanes]
        lows = {lane_id: self._lanes[lane_id].low(_LAG) for lane_id in heard}
        taken = list(islice(self._heard, SLICE))
        if heard:
            self._keep(await store.read_some_lanes(heard, lows=lows), heard, now)
        for lane_id in taken:
            self._heard.pop(lane_id, None)

    async def _read_slice(self, store: Store, clock: Clock, now: datetime) -> None:
        begun = clock.monotonic()
        lag, after = self._rounds.begin(begun), self._rounds.after
        lows = {}
        if lag is not None:
            lows = {lane_id: self._lanes[lane_id].low(lag) for lane_id in self._lanes.following(after, SLICE)}
        try:
            lanes = await store.read_lanes((), lows=lows, after=after, limit=SLICE)
        except BaseException:
            self._rounds.fail(begun, clock.monotonic())
            raise
        last = lanes[-1].id if len(lanes) == SLICE else None
        self._rounds.end(begun, clock.monotonic(), last)
        self._keep(lanes, self._lanes.between(after, last), now)
        self._read_at = begun

    async def _read_lines(self, store: Store, clock: Clock, now: datetime) -> None:
        """Look at the lines of runs with limits: in their lanes, these are what is ready."""
        lanes, capped, found = self._lanes, self._lanes.capped, []
        if capped.are_stops_old:
            self.order.stop(capped.stops(now))
        if self._have_lines:
            has_news, self._has_line_news = self._has_line_news, False
            await self.lines.read(store, clock, now, batched=lanes.batched, has_news=has_news)
            news = {*self.lines.take_news(now), *capped.news, *lanes.quarantined} & lanes.lined_up
            found = [
                self._view(lane_id, self.lines.head(lane_id, now)) for lane_id in news - lanes.plain_lines
            ]
            lanes.keep(found, (), now)
        # What a look has found of runs without keys stays as it was found: it says where the next look begins.
        plain, capped.news = capped.news & lanes.plain_lines, set()
        found += [self._view(lane_id, lanes[lane_id].ready_at) for lane_id in plain]
        self.order.keep(self.held.take(found, now), among=())

    def _view(self, lane_id: LaneId, head: datetime | None) -> Lane:
        """Return a lane whose first run is ready at `head`, with when there is something to claim."""
        lane = self._lanes[lane_id]
        return Lane(lane_id, lane.key, self._lanes.capped.opens_at(lane_id, head), lane.quarantined_at)

    def _keep(self, lanes: Collection[Lane], among: Collection[LaneId], now: datetime) -> None:
        for lane_id in self._lanes.keep(lanes, among, now):
            self.order.remove(lane_id)
            self.held.drop(lane_id)
            self._no_room.forget((lane_id,))
            self.lines.note_plain(lane_id, None)
        plain, lined_up = [], []
        for lane in lanes:
            if lane.id not in self._lanes.lined_up:
                plain.append(lane)
                continue
            lined_up.append(lane)
            if lane.id in self._lanes.plain_lines:
                self.lines.note_plain(lane.id, lane.earliest_ready_at)
                self._lanes.capped.news.add(lane.id)
            else:
                self.lines.note_lane(lane.id)
            if lane.earliest_quarantined_at is None:
                self._no_room.forget((lane.id,))
        self.held.take(lined_up, now)  # their lines are read next; what is quarantined can be chosen before
        self.order.keep(self.held.take(plain, now), among=())

    async def peek(self, store: Store, now: datetime) -> None:
        """See which runs are the oldest, in queues that serve these first."""
        self.order.wake(now)
        for queue in self.order.fifo_queues():
            pools = [pool for pool in queue.pools.values() if not pool.is_stopped]
            heads = sorted(
                (head for pool in pools for head in pool.first(PEEKED_LANES + 1)),
                key=lambda head: head.ready_at,
            )
            if not heads:
                continue
            ids = [head.lane_id for head in heads[:PEEKED_LANES]]
            lows = {lane_id: self._lanes[lane_id].settled for lane_id in ids}
            found = await store.read_ready_instants(ids, lows=lows, now=now, limit=PEEKED_RUNS)
            keyed = self._lanes.lined_up.intersection(ids) - self._lanes.plain_lines
            found = {**found, **self.lines.instants(keyed, now, PEEKED_RUNS)}
            # Beyond the last run that was seen of a lane, and beyond the first lane that was not, runs may be missing.
            ends = [found[lane_id][-1] for lane_id in ids if len(found[lane_id]) == PEEKED_RUNS]
            ends += [head.ready_at for head in heads[PEEKED_LANES : PEEKED_LANES + 1]]
            runs = sorted((instant, lane_id) for lane_id in ids for instant in found[lane_id])
            queue.peek = Peek(tuple(runs), min(ends, default=now))
