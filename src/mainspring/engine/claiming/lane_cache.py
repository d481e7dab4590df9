"""What a process knows about the lanes, and from which of them a session gets work."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice

from mainspring.core.fairness import LaneOrder
from mainspring.core.ids import KeyId, LaneId
from mainspring.core.limits import is_lined_up
from mainspring.core.model import Lane, LaneKey
from mainspring.core.pools import Peek
from mainspring.engine.claiming import lane_rounds
from mainspring.engine.claiming.abilities import Abilities
from mainspring.engine.claiming.held_lanes import HeldLanes
from mainspring.engine.claiming.known_lanes import KnownLane, KnownLanes
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
from mainspring.ports.store.limits import LineClaim, LineClaimResult, LineQuota

_MOST_SPECULATIVE = 8
"""Lanes that a claim walks on the strength of a hint alone, and that are looked at for a submission."""
_LAG = SCAN_DEPTHS[0].lag or timedelta(0)
PEEKED_LANES = 64
"""Lanes of a queue that serves the oldest run first whose runs are seen before a claim, those with the oldest heads."""
PEEKED_RUNS = 64
"""Runs that are seen of each of them, at most."""


@dataclass(frozen=True, slots=True)
class LaneChoice:
    """The lanes from which sessions with the same abilities get work now.

    Attributes:
        lanes: those with ready runs, in order of preference.
        lows: the lower bound of `ready_at` in each of them.
        quotas: the most runs to take of each; no bound where there is none.
        lines: if the lanes are those of runs with limits, the lines to claim from; a choice has lanes of one kind.
        quarantined: the lanes with a quarantined run, the longest waiting first.
        policy_epoch: that of the restrictions which these lanes keep.
    """

    lanes: tuple[LaneId, ...]
    lows: Mapping[LaneId, datetime]
    quarantined: tuple[LaneId, ...]
    quotas: Mapping[LaneId, int] = field(default_factory=dict)
    lines: tuple[LineQuota, ...] = ()
    policy_epoch: int = 0


class LaneCache:
    """What the last looks said about the lanes.

    While there are few lanes, each look is at all of them. Otherwise it is at those of which something was heard, which
    are named, and now and then at a slice of the others, so that none is forgotten.

    Attributes:
        order: in which order they are to be served.
        lines: what is known of the runs that wait under limits.
        held: the lanes that are paused.
    """

    def __init__(self) -> None:
        self.order = LaneOrder()
        self.lines = LinesInView()
        self.held = HeldLanes()
        self._lanes = KnownLanes()
        self._rounds = LaneRounds()
        self._period = POLL_PERIOD
        self._read_at = -1.0e9  # monotonic
        self._heard: dict[LaneId, None] = {}
        self._has_unknown = False
        self._served: dict[Abilities, tuple[KnownLane, ...]] = {}
        self._changes = (-1, -1)
        self._lined_up: set[LaneId] = set()  # lanes whose runs wait in lines
        self._are_lines_old = False
        self._no_room = NoRoom()

    # -- what was heard ------------------------------------------------------------------------------------------------

    @property
    def _are_few(self) -> bool:
        return len(self._lanes) <= lane_rounds.FEW and self._rounds.after is None

    def hear(self, keys: Callable[[], Iterable[LaneKey]]) -> None:
        """Have lanes looked at before the next use, because runs of them may have become ready."""
        if not self._are_few:
            self._hear(map(self._lanes.find, keys()))

    def hear_marks(self, marks: Collection[str]) -> None:
        """Have lanes looked at that another process has named."""
        if not self._are_few:
            self._hear(map(self._lanes.find_marked, marks))

    def _hear(self, found: Iterable[LaneId | None]) -> None:
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
            self._are_lines_old = True
            self.lines.note_claim(request, result, now)
            return
        assert isinstance(request, ClaimRequest), "it is the answer to one"
        if request.is_quarantined and result.runs:
            self._no_room.forget(result.taken)
        elif request.is_quarantined:
            self._no_room.note(self._lined_up.intersection(request.lanes), now)
        if not self._are_few:
            is_full = len(result.runs) == request.limit and result.taken
            self._heard.update(dict.fromkeys(result.taken if is_full else request.lanes))

    def make_room(self, key_ids: Collection[KeyId] | None) -> None:
        """Note that runs with these keys have ended, so there may be room for those that wait; None: any keys."""
        if self.lines.open(key_ids):
            self._are_lines_old = True

    async def settle(self, reader: RestrictionReader, now: datetime) -> None:
        """Keep the restrictions as they are from now on: some lanes are paused, and others no longer are."""
        await self.held.renew(reader)
        held, freed = self.held.settle(self._lanes, now)
        for lane_id in held:
            self.order.remove(lane_id)
        self.order.keep([self._lanes[lane_id].view() for lane_id in freed], among=())

    # -- looks ---------------------------------------------------------------------------------------------------------

    def is_old(self, at: float) -> bool:
        """Return whether to look again: the last look was long ago, or something was heard, or a slice is due."""
        return self.due_in(at) <= 0

    def due_in(self, at: float) -> float:
        """Return the seconds until the next look, if nothing is heard before."""
        if self._heard or self._has_unknown or self._are_lines_old or self.held.is_new:
            return 0.0
        due_in = self._rounds.due_in(at, self._period)
        if self._are_few:
            due_in = self._read_at + self._period - at
        line_in = self.lines.due_in(at)
        return due_in if line_in is None else min(due_in, line_in)

    def ready_in(self, now: datetime) -> float | None:
        """Return the seconds until something becomes ready, as far as is known; None: nothing will."""
        self.order.wake(now)
        instants = [self.order.next_ready_at()]
        instants += [instant for instant in self._quarantined().values() if instant > now]
        delays = [(instant - now).total_seconds() for instant in instants if instant]
        changes_in = self.held.changes_in(now)
        return min(delays if changes_in is None else [*delays, changes_in], default=None)

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
        if self._lined_up:
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
        await self.lines.read(store, clock)
        found = []
        for lane_id in self._lined_up:
            lane = self._lanes[lane_id]
            found.append(Lane(lane_id, lane.key, self.lines.head(lane_id, now), lane.quarantined_at))
        self._lanes.keep(found, (), now)
        self.order.keep(self.held.take(found, now), among=())

    def _keep(self, lanes: Collection[Lane], among: Collection[LaneId], now: datetime) -> None:
        for lane_id in self._lanes.keep(lanes, among, now):
            self.order.remove(lane_id)
            self.held.drop(lane_id)
            self._lined_up.discard(lane_id)
            self._no_room.forget((lane_id,))
        plain = []
        for lane in lanes:
            if is_lined_up(lane.key.route):
                self._lined_up.add(lane.id)
                if lane.earliest_quarantined_at is None:
                    self._no_room.forget((lane.id,))
            else:
                plain.append(lane)
        self.order.keep(self.held.take(plain, now), among=())

    async def peek(self, store: Store, now: datetime) -> None:
        """See which runs are the oldest, in queues that serve these first."""
        self.order.wake(now)
        for queue in self.order.fifo_queues():
            heads = sorted(
                (head for pool in queue.pools.values() for head in pool.first(PEEKED_LANES + 1)),
                key=lambda head: head.ready_at,
            )
            ids = [head.lane_id for head in heads[:PEEKED_LANES]]
            lows = {lane_id: self._lanes[lane_id].settled for lane_id in ids}
            found = await store.read_ready_instants(ids, lows=lows, now=now, limit=PEEKED_RUNS)
            found = {**found, **self.lines.instants(self._lined_up.intersection(ids), now, PEEKED_RUNS)}
            # Beyond the last run that was seen of a lane, and beyond the first lane that was not, runs may be missing.
            ends = [found[lane_id][-1] for lane_id in ids if len(found[lane_id]) == PEEKED_RUNS]
            ends += [head.ready_at for head in heads[PEEKED_LANES : PEEKED_LANES + 1]]
            runs = sorted((instant, lane_id) for lane_id in ids for instant in found[lane_id])
            queue.peek = Peek(tuple(runs), min(ends, default=now))

    # -- choices -------------------------------------------------------------------------------------------------------

    def has_ready(self, now: datetime) -> bool:
        """Return whether any run is ready, for any worker."""
        return self.order.wake(now) or self.has_quarantined(now)

    def has_quarantined(self, now: datetime) -> bool:
        """Return whether a quarantined run is ready."""
        return any(instant <= now for instant in self._quarantined().values())

    def choose(self, abilities: Abilities, seats: int, now: datetime) -> LaneChoice:
        """Return the lanes from which sessions with these abilities get runs for so many seats."""
        quotas = self.order.choose(abilities.reach, seats, now)
        if self._lined_up and not self._lined_up.isdisjoint(quotas):
            return self._choose_kind(abilities, quotas, now)
        return LaneChoice(
            lanes=tuple(quotas),
            lows={lane_id: self._lanes[lane_id].settled for lane_id in quotas},
            quarantined=self.quarantined(abilities, now),
            quotas=quotas,
            policy_epoch=self.held.epoch,
        )

    def _choose_kind(self, abilities: Abilities, quotas: Mapping[LaneId, int], now: datetime) -> LaneChoice:
        """Return the lanes with limits, or those without: a claim takes runs of one kind.

        It is that of the lane that goes first. If lanes of both kinds wait in its tier, they take turns, each with what
        was dealt to them; but not where the oldest run goes first.
        """
        leader = next(iter(quotas))
        tier = self.order.priority_of(leader)
        first = {key in self._lined_up for key in quotas if self.order.priority_of(key) is tier}
        are_lined_up = leader in self._lined_up
        if len(first) > 1 and not self.order.is_fifo(leader):
            abilities.is_turn_of_lines = are_lined_up = not abilities.is_turn_of_lines
        lined_up = {key: quota for key, quota in quotas.items() if key in self._lined_up}
        fifo = {key for key in lined_up if self.order.is_fifo(key)}
        lines = self.lines.pick(lined_up, now, fifo=fifo) if are_lined_up else ()
        plain = {key: quota for key, quota in quotas.items() if key not in self._lined_up}
        kept = lined_up if lines else plain
        return LaneChoice(
            lanes=tuple(kept),
            lows={} if lines else {lane_id: self._lanes[lane_id].settled for lane_id in kept},
            quarantined=self.quarantined(abilities, now),
            quotas=kept,
            lines=lines,
            policy_epoch=self.held.epoch,
        )

    def choose_speculatively(self, abilities: Abilities, now: datetime) -> LaneChoice | None:
        """Return the lanes from which a session may get what a hint has just announced, without reading them.

        None if that cannot be told so cheaply: something was ready or quarantined at the last read, so that others may
        come first, or these abilities serve too many lanes, or none that is known.
        """
        if self.has_ready(now):
            return None
        return self._choose_among(self._serve_few(abilities))

    def choose_for_new(self, key: LaneKey, abilities: Abilities, now: datetime) -> LaneChoice | None:
        """Return all lanes from which a session gets work, if a new run of one lane is the next that it would get.

        None if that is not certain: at the last read something was ready or quarantined for it, or these abilities
        serve too many lanes, or not this one, or the lane is not known.
        """
        served = () if self.held.is_over(now) else self._serve_few(abilities)
        if all(lane.key != key for lane in served):
            return None
        if any(
            instant <= now for lane in served for instant in (lane.ready_at, lane.quarantined_at) if instant
        ):
            return None
        return self._choose_among(served)

    def _serve_few(self, abilities: Abilities) -> tuple[KnownLane, ...]:
        """Return the known lanes that a session serves, in order of preference; none if they are many."""
        changes = self._lanes.changes, self.held.changes
        if self._changes != changes:
            self._changes, self._served = changes, {}
        served = self._served.get(abilities)
        if served is None:
            ids = (
                lane_id
                for (queue, route), lanes in self._lanes.routes.items()
                if abilities.serve(queue, route)
                for lane_id in lanes
                if lane_id not in self.held
            )
            found = [self._lanes[lane_id] for lane_id in islice(ids, _MOST_SPECULATIVE + 1)]
            found.sort(key=lambda lane: (lane.key.priority, lane.id))
            served = self._served[abilities] = tuple(found) if len(found) <= _MOST_SPECULATIVE else ()
        return served

    def _choose_among(self, served: tuple[KnownLane, ...]) -> LaneChoice | None:
        if not served:
            return None
        # A hint may overtake the clock: what was written a moment before the last look may not have been seen by it.
        return LaneChoice(
            tuple(lane.id for lane in served),
            {lane.id: lane.seen_at - _LAG for lane in served},
            (),
            policy_epoch=self.held.epoch,
        )

    def quarantined(self, abilities: Abilities, by: datetime) -> tuple[LaneId, ...]:
        """Return the lanes with a quarantined run that has been ready since `by`, the longest waiting first."""
        quarantined = self._quarantined()
        if not quarantined:
            return ()
        found = sorted(
            (instant, lane_id)
            for lane_id, instant in quarantined.items()
            if instant <= by
            and self._no_room.may_try(lane_id, self._lanes[lane_id].seen_at)
            and abilities.serve(self._lanes[lane_id].key.queue, self._lanes[lane_id].key.route)
        )
        return tuple(lane_id for _, lane_id in found)

    def _quarantined(self) -> Mapping[LaneId, datetime]:
        """Return the lanes with quarantined runs, but for those that are paused."""
        found = self._lanes.quarantined
        return {key: found[key] for key in found if key not in self.held} if self.held else found

    def is_drain_wanted(self, abilities: Abilities, by: datetime) -> bool:
        """Say whether a quarantined run that has been ready since `by` waits for one of these workers to drain."""
        return any(
            self._no_room.may_drain(lane_id, self._lanes[lane_id].seen_at)
            for lane_id in self.quarantined(abilities, by)
        )
