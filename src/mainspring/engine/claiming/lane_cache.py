"""What a process knows about the lanes, and from which of them a session gets work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice

from mainspring.core.fairness import LaneOrder
from mainspring.core.ids import LaneId
from mainspring.core.limits import is_lined_up
from mainspring.core.model import Lane, LaneKey
from mainspring.core.triggers import EPOCH
from mainspring.engine.claiming.abilities import Abilities
from mainspring.engine.claiming.lines import LinesInView
from mainspring.engine.common.scan_depth import Depth, ScanDepth
from mainspring.ports.clock import Clock, RandomSource
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ClaimRequest, ClaimResult
from mainspring.ports.store.limits import LineClaim, LineClaimResult, LineQuota

POLL_PERIOD = 0.5
"""Seconds between two reads of the lanes without a hint, at most. Another process's commits are found by then."""
POLL_JITTER = 0.25
"""Reads come earlier by up to this part of the period, at random, so that many servers do not fall into step."""
SCAN_DEPTHS = (
    Depth(timedelta(seconds=2)),
    Depth(timedelta(seconds=30), period=5.0),
    Depth(None, period=30.0),
)
"""A run's `ready_at` is the instant at which its write started. A run that is committed later than a depth's lag is
found only by a deeper scan, which comes later."""

_PASSED_OVER = timedelta(seconds=2)
"""How long quarantined runs without room under their limits are left alone."""
_MOST_SPECULATIVE = 8
"""Lanes that a claim walks on the strength of a hint alone, and that are looked at for a submission."""


@dataclass(frozen=True, slots=True)
class LaneChoice:
    """The lanes from which sessions with the same abilities get work now.

    Attributes:
        lanes: those with ready runs, in order of preference.
        lows: the lower bound of `ready_at` in each of them.
        quotas: the most runs to take of each; no bound where there is none.
        lines: if the lanes are those of runs with limits, the lines to claim from; a choice has lanes of one kind.
        quarantined: the lanes with a quarantined run, the longest waiting first.
    """

    lanes: tuple[LaneId, ...]
    lows: Mapping[LaneId, datetime]
    quarantined: tuple[LaneId, ...]
    quotas: Mapping[LaneId, int] = field(default_factory=dict)
    lines: tuple[LineQuota, ...] = ()


@dataclass(slots=True)
class LaneCache:
    """What the last read said about the lanes.

    Attributes:
        order: in which order they are to be served.
        lines: what is known of the runs that wait under limits.
        period: seconds until they are read again if no hint comes.
    """

    lanes: list[Lane] = field(default_factory=list)
    order: LaneOrder = field(default_factory=LaneOrder)
    lines: LinesInView = field(default_factory=LinesInView)
    period: float = POLL_PERIOD
    _ready: list[Lane] = field(default_factory=list)
    _quarantined: list[Lane] = field(default_factory=list)
    _read_at: float = -1.0e9  # monotonic
    _seen_at: datetime = EPOCH
    _settled: dict[LaneId, datetime] = field(default_factory=dict)  # no ready run is known before it
    _scans: ScanDepth = field(default_factory=lambda: ScanDepth(SCAN_DEPTHS))
    _few_served: dict[Abilities, tuple[Lane, ...]] = field(default_factory=dict)
    _lined_up: frozenset[LaneId] = frozenset()  # lanes whose runs wait in lines
    _passed_over: dict[LaneId, datetime] = field(
        default_factory=dict
    )  # lanes of quarantined runs without room

    def is_old(self, at: float, now: datetime) -> bool:
        """Return whether to read again: the last read was long ago, or a run has become ready since."""
        return (
            at - self._read_at >= self.period
            or self.lines.is_due(at)
            or any(self._seen_at < ready_at <= now for ready_at in self.ready_instants())
        )

    def expire(self) -> None:
        """Have the lanes read before the next use, because runs were taken."""
        self._read_at = -1.0e9

    def note_claim(
        self, request: ClaimRequest | LineClaim, result: ClaimResult | LineClaimResult, now: datetime
    ) -> None:
        """Take over what a claim has found out, and have the lanes read before the next use."""
        self.expire()
        if isinstance(request, LineClaim) and isinstance(result, LineClaimResult):
            self.lines.note_claim(request, result, now)
        elif isinstance(request, ClaimRequest) and request.is_quarantined and not result.runs:
            self.pass_over(request.lanes, now)

    def has_ready(self, now: datetime) -> bool:
        """Return whether any run is ready, for any worker."""
        return any(ready_at <= now for ready_at in self.ready_instants())

    def has_quarantined(self, now: datetime) -> bool:
        """Return whether a quarantined run is ready."""
        return any(
            lane.earliest_quarantined_at is not None and lane.earliest_quarantined_at <= now
            for lane in self._quarantined
        )

    def ready_instants(self) -> list[datetime]:
        """Return the earliest `ready_at` of each lane, of ordinary and of quarantined runs."""
        ready = [lane.earliest_ready_at for lane in self._ready if lane.earliest_ready_at is not None]
        return ready + [
            lane.earliest_quarantined_at
            for lane in self._quarantined
            if lane.earliest_quarantined_at is not None
        ]

    async def read(self, store: Store, clock: Clock, random: RandomSource, now: datetime) -> None:
        """Read the lanes, each from its lower bound on, and from time to time from further back."""
        begun = clock.monotonic()
        depth = self._scans.choose(begun)
        try:
            self.lanes = await store.read_lanes((), lows=self._lows(self._scans.lag(depth)))
        except BaseException:
            self._scans.charge(depth, begun=begun, ended=clock.monotonic())
            raise
        self._scans.note(depth, begun=begun, ended=clock.monotonic())
        await self._read_lines(store, clock)
        self._ready = [lane for lane in self.lanes if lane.earliest_ready_at is not None]
        self._quarantined = [lane for lane in self.lanes if lane.earliest_quarantined_at is not None]
        self._settled = {lane.id: min(lane.earliest_ready_at or now, now) for lane in self.lanes}
        self._few_served = {}
        self.order.keep(self.lanes)
        self._read_at, self._seen_at = begun, now
        self.period = POLL_PERIOD * (1 - POLL_JITTER * random.random())

    async def _read_lines(self, store: Store, clock: Clock) -> None:
        """Look at the lines of the lanes whose runs have limits. Few lanes are of that kind, and mostly none is."""
        self._lined_up = frozenset(lane.id for lane in self.lanes if is_lined_up(lane.key.route))
        if self._lined_up:
            await self.lines.read(store, clock)
            self.lanes = [
                replace(lane, earliest_ready_at=self.lines.head(lane.id))
                if lane.id in self._lined_up
                else lane
                for lane in self.lanes
            ]

    def _lows(self, lag: timedelta | None) -> dict[LaneId, datetime]:
        """Return where the next scan of each lane starts.

        It starts at the lane's oldest run, or at the lag before the last read if that is earlier, because older runs
        may still be on their way.
        """
        if lag is None:
            return {}
        latest = self._seen_at - lag
        return {lane_id: min(settled, latest) for lane_id, settled in self._settled.items()}

    def choose(self, abilities: Abilities, seats: int, now: datetime) -> LaneChoice:
        """Return the lanes from which sessions with these abilities get runs for so many seats."""
        quotas = self.order.choose(abilities.reach, seats, now)
        if self._lined_up and not self._lined_up.isdisjoint(quotas):
            return self._choose_kind(abilities, quotas, now)
        return LaneChoice(
            lanes=tuple(quotas),
            lows={lane_id: self._settled[lane_id] for lane_id in quotas},
            quarantined=self.quarantined(abilities, now),
            quotas=quotas,
        )

    def _choose_kind(self, abilities: Abilities, quotas: Mapping[LaneId, int], now: datetime) -> LaneChoice:
        """Return the lanes with limits, or those without: a claim takes runs of one kind.

        It is that of the lane that goes first. If lanes of both kinds wait in its tier, they take turns, each with what
        was dealt to them.
        """
        tier = self.order.priority_of(next(iter(quotas)))
        first = {key in self._lined_up for key in quotas if self.order.priority_of(key) is tier}
        are_lined_up = next(iter(quotas)) in self._lined_up
        if len(first) > 1:
            abilities.is_turn_of_lines = are_lined_up = not abilities.is_turn_of_lines
        lined_up = {key: quota for key, quota in quotas.items() if key in self._lined_up}
        lines = self.lines.pick(lined_up, now) if are_lined_up else ()
        plain = {key: quota for key, quota in quotas.items() if key not in self._lined_up}
        kept = lined_up if lines else plain
        return LaneChoice(
            lanes=tuple(kept),
            lows={} if lines else {lane_id: self._settled[lane_id] for lane_id in kept},
            quarantined=self.quarantined(abilities, now),
            quotas=kept,
            lines=lines,
        )

    def choose_speculatively(self, abilities: Abilities, now: datetime) -> LaneChoice | None:
        """Return the lanes from which a session may get what a hint has just announced, without reading them.

        None if that cannot be told so cheaply: something was ready or quarantined at the last read, so that others may
        come first, or these abilities serve too many lanes, or none that is known.
        """
        if self.has_ready(now) or self.has_quarantined(now):
            return None
        return self._choose_among(self._serve_few(abilities))

    def choose_for_new(self, key: LaneKey, abilities: Abilities, now: datetime) -> LaneChoice | None:
        """Return all lanes from which a session gets work, if a new run of one lane is the next that it would get.

        None if that is not certain: at the last read something was ready or quarantined for it, or these abilities
        serve too many lanes, or not this one, or the lane is not known.
        """
        served = self._serve_few(abilities)
        if all(lane.key != key for lane in served):
            return None
        if any(instant <= now for instant in _ready_instants(served)):
            return None
        return self._choose_among(served)

    def _serve_few(self, abilities: Abilities) -> tuple[Lane, ...]:
        """Return the known lanes that a session serves, in order of preference; none if they are many."""
        served = self._few_served.get(abilities)
        if served is None:
            found = list(
                islice(
                    (lane for lane in self.lanes if abilities.serve(lane.key.queue, lane.key.route)),
                    _MOST_SPECULATIVE + 1,
                )
            )
            found.sort(key=lambda lane: (lane.key.priority, lane.id))
            served = self._few_served[abilities] = tuple(found) if len(found) <= _MOST_SPECULATIVE else ()
        return served

    def _choose_among(self, served: tuple[Lane, ...]) -> LaneChoice | None:
        if not served:
            return None
        # A hint may overtake the clock: what was written a moment before the last read may not have been seen by it.
        low = self._seen_at - (SCAN_DEPTHS[0].lag or timedelta(0))
        return LaneChoice(tuple(lane.id for lane in served), {lane.id: low for lane in served}, ())

    def pass_over(self, lanes: Iterable[LaneId], now: datetime) -> None:
        """Leave the quarantined runs of lanes alone for a while: there was no room for them under their limits."""
        self._passed_over.update((key, now + _PASSED_OVER) for key in lanes if key in self._lined_up)

    def quarantined(self, abilities: Abilities, by: datetime) -> tuple[LaneId, ...]:
        """Return the lanes with a quarantined run that has been ready since `by`, the longest waiting first."""
        found = [
            (lane.earliest_quarantined_at, lane.id)
            for lane in self._quarantined
            if lane.earliest_quarantined_at is not None
            and lane.earliest_quarantined_at <= by
            and self._passed_over.get(lane.id, EPOCH) <= self._seen_at
            and abilities.serve(lane.key.queue, lane.key.route)
        ]
        return tuple(lane_id for _, lane_id in sorted(found))


def _ready_instants(lanes: Iterable[Lane]) -> Iterator[datetime]:
    for lane in lanes:
        if lane.earliest_ready_at is not None:
            yield lane.earliest_ready_at
        if lane.earliest_quarantined_at is not None:
            yield lane.earliest_quarantined_at
