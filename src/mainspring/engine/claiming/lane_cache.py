"""What a process knows of the lanes, and which of them a session is to be given work from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mainspring.core.fairness import accepts_route, prefer_lanes
from mainspring.core.ids import LaneId
from mainspring.core.model import Lane
from mainspring.core.triggers import EPOCH
from mainspring.engine.common.scan_depth import Depth, ScanDepth
from mainspring.ports.clock import Clock, RandomSource
from mainspring.ports.gateway import Registration
from mainspring.ports.store import Store
from mainspring.ports.store.sessions import SessionFacts

POLL_PERIOD = 0.5
"""How often lanes are read without a hint, at the latest: what another process committed is found by then."""
POLL_JITTER = 0.25
"""The part of the period by which reads come earlier at random, so that many servers do not fall into step."""
SCAN_DEPTHS = (
    Depth(timedelta(seconds=2)),
    Depth(timedelta(seconds=30), period=5.0),
    Depth(None, period=30.0),
)
"""A run's `ready_at` is the instant at which its write began: what is committed so much later is found
late."""

_MOST_KEPT = 16
"""Sessions that offer the same name the same functions as bounded, as a rule."""


class Abilities:
    """What a session can carry out, with the routes it was asked about; sessions that offer the same share one.

    Attributes:
        width: how many of their calls are worth asking the store for at a time: as many as got something last time.
    """

    __slots__ = ("_routes", "_without", "functions", "labels", "queues", "types", "width")

    def __init__(self, offer: SessionFacts | Registration | Abilities) -> None:
        self.queues: frozenset[str] = frozenset(offer.queues)
        self.types: frozenset[str] = frozenset(offer.types)
        self.functions: frozenset[str] = frozenset(offer.functions)
        self.labels: frozenset[str] = frozenset(offer.labels)
        self._routes: dict[str, bool] = {}
        self._without: dict[frozenset[str], Abilities] = {}
        self.width = 1

    @property
    def key(self) -> tuple[frozenset[str], ...]:
        """What makes two of them the same."""
        return self.queues, self.types, self.functions, self.labels

    def without(self, functions: frozenset[str]) -> Abilities:
        """Return what is left while none of these functions can be carried out."""
        known = self._without.get(functions)
        if known is None:
            if len(self._without) >= _MOST_KEPT:
                self._without.clear()
            known = self._without[functions] = Abilities(self)
            known.functions -= functions
        return known

    def serve(self, lane: Lane) -> bool:
        """Say whether runs of a lane can be carried out."""
        if self.queues and lane.key.queue not in self.queues:
            return False
        known = self._routes.get(lane.key.route)
        if known is None:
            known = accepts_route(
                lane.key.route, types=self.types, functions=self.functions, labels=self.labels
            )
            self._routes[lane.key.route] = known
        return known


@dataclass(frozen=True, slots=True)
class LaneChoice:
    """Where sessions with the same abilities are to be given work from now.

    Attributes:
        lanes: those with something ready, in order of preference.
        lows: their lower bounds of `ready_at`.
        quarantined: lanes with a run that must be alone, the longest waiting first.
    """

    lanes: tuple[LaneId, ...]
    lows: Mapping[LaneId, datetime]
    quarantined: tuple[LaneId, ...]


@dataclass(slots=True)
class LaneCache:
    """What was last read of the lanes.

    Attributes:
        period: seconds until they are read again, where nothing was heard.
    """

    lanes: list[Lane] = field(default_factory=list)
    period: float = POLL_PERIOD
    _ready: list[Lane] = field(default_factory=list)
    _quarantined: list[Lane] = field(default_factory=list)
    _read_at: float = -1.0e9  # monotonic
    _seen_at: datetime = EPOCH
    _settled: dict[LaneId, datetime] = field(default_factory=dict)  # before it no ready run is known
    _scans: ScanDepth = field(default_factory=lambda: ScanDepth(SCAN_DEPTHS))

    def is_old(self, at: float, now: datetime) -> bool:
        """Say whether to read again: it was long ago, or something that was ahead has become ready."""
        return at - self._read_at >= self.period or any(
            self._seen_at < ready_at <= now for ready_at in self.ready_instants()
        )

    def expire(self) -> None:
        """Have it read before it is used again: runs were taken."""
        self._read_at = -1.0e9

    def has_ready(self, now: datetime) -> bool:
        """Say whether anything is ready, for any worker."""
        return any(ready_at <= now for ready_at in self.ready_instants())

    def has_quarantined(self, now: datetime) -> bool:
        """Say whether a run is ready that must be alone."""
        return any(
            lane.earliest_quarantined_at is not None and lane.earliest_quarantined_at <= now
            for lane in self._quarantined
        )

    def ready_instants(self) -> list[datetime]:
        """Return the earliest `ready_at` of each lane that has any."""
        ready = [lane.earliest_ready_at for lane in self._ready if lane.earliest_ready_at is not None]
        return ready + [
            lane.earliest_quarantined_at
            for lane in self._quarantined
            if lane.earliest_quarantined_at is not None
        ]

    async def read(self, store: Store, clock: Clock, random: RandomSource, now: datetime) -> None:
        """Read the lanes, each from its lower bound on; now and then from further back."""
        begun = clock.monotonic()
        depth = self._scans.choose(begun)
        try:
            self.lanes = await store.read_lanes((), lows=self._lows(self._scans.lag(depth)))
        except BaseException:
            self._scans.charge(depth, begun=begun, ended=clock.monotonic())
            raise
        self._scans.note(depth, begun=begun, ended=clock.monotonic())
        self._ready = [lane for lane in self.lanes if lane.earliest_ready_at is not None]
        self._quarantined = [lane for lane in self.lanes if lane.earliest_quarantined_at is not None]
        self._settled = {lane.id: min(lane.earliest_ready_at or now, now) for lane in self.lanes}
        self._read_at, self._seen_at = begun, now
        self.period = POLL_PERIOD * (1 - POLL_JITTER * random.random())

    def _lows(self, lag: timedelta | None) -> dict[LaneId, datetime]:
        """Return where the next scan of each lane begins.

        Not before its oldest run, unless that is younger than the lag: then others may be on their way.
        """
        if lag is None:
            return {}
        latest = self._seen_at - lag
        return {lane_id: min(settled, latest) for lane_id, settled in self._settled.items()}

    def choose(self, abilities: Abilities, served: Mapping[str, float], now: datetime) -> LaneChoice:
        """Say where sessions with these abilities are to be given work from."""
        ready = [lane for lane in self._ready if abilities.serve(lane)]
        lanes = tuple(prefer_lanes(ready, now=now, served=served))
        return LaneChoice(
            lanes, {lane_id: self._settled[lane_id] for lane_id in lanes}, self.quarantined(abilities, now)
        )

    def quarantined(self, abilities: Abilities, by: datetime) -> tuple[LaneId, ...]:
        """Return the lanes with a run that must be alone and has been ready since `by`, the longest waiting first."""
        found = [
            (lane.earliest_quarantined_at, lane.id)
            for lane in self._quarantined
            if lane.earliest_quarantined_at is not None
            and lane.earliest_quarantined_at <= by
            and abilities.serve(lane)
        ]
        return tuple(lane_id for _, lane_id in sorted(found))
