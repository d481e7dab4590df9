"""From which lanes a session gets work, by what is known of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from itertools import islice

from mainspring.core.fairness import LaneOrder
from mainspring.core.ids import KeyId, LaneId
from mainspring.core.model import LaneKey
from mainspring.core.reach import Reach
from mainspring.core.values import value
from mainspring.engine.claiming.abilities import Abilities
from mainspring.engine.claiming.held_lanes import HeldLanes
from mainspring.engine.claiming.known_lanes import KnownLane, KnownLanes
from mainspring.engine.claiming.lane_rounds import SCAN_DEPTHS
from mainspring.engine.claiming.lines import LinesInView
from mainspring.engine.claiming.no_room import NoRoom
from mainspring.ports.store.claims import NO_CAPPED_LANES
from mainspring.ports.store.limits import LineQuota

_MOST_SPECULATIVE = 8
"""Lanes that a claim walks on the strength of a hint alone, and that are looked at for a submission."""
_LAG = SCAN_DEPTHS[0].lag or timedelta(0)


@value()
class LaneChoice:
    """The lanes from which sessions with the same abilities get work now.

    Attributes:
        lanes: those with ready runs, in order of preference.
        lows: the lower bound of `ready_at` in each of them.
        quotas: the most runs to take of each; no bound where there is none.
        lines: if the lanes are those of runs with limits, the lines to claim from; a choice has lanes of one kind.
        are_batches: runs of these lines are taken in batches.
        is_oldest_first: of all these lines, the oldest run goes first.
        quarantined: the lanes with a quarantined run, the longest waiting first.
        policy_epoch: that of the restrictions which these lanes keep.
        caps: the keys of the caps of those lanes that have some.
    """

    lanes: tuple[LaneId, ...]
    lows: Mapping[LaneId, datetime]
    quarantined: tuple[LaneId, ...]
    quotas: Mapping[LaneId, int] = field(default_factory=dict)
    lines: tuple[LineQuota, ...] = ()
    policy_epoch: int = 0
    are_batches: bool = False
    is_oldest_first: bool = False
    caps: Mapping[LaneId, tuple[KeyId, ...]] = field(default_factory=lambda: NO_CAPPED_LANES)


class LaneChooser:
    """Chooses the lanes for claims. It reads nothing: `LaneCache` keeps what it goes by.

    Args:
        order: in which order lanes are served.
        lines: what is known of the runs that wait in lines.
        held: the lanes that are paused.
        lanes: what is known of all lanes.
        no_room: where quarantined runs found no room.
    """

    def __init__(
        self, *, order: LaneOrder, lines: LinesInView, held: HeldLanes, lanes: KnownLanes, no_room: NoRoom
    ) -> None:
        self._order = order
        self._lines = lines
        self._held = held
        self._lanes = lanes
        self._no_room = no_room
        self._served: dict[Abilities, tuple[KnownLane, ...]] = {}
        self._changes = (-1, -1)

    def has_ready(self, now: datetime) -> bool:
        """Return whether any run is ready, for any worker."""
        return self._order.wake(now) or self.has_quarantined(now)

    def has_quarantined(self, now: datetime) -> bool:
        """Return whether a quarantined run is ready."""
        if not self._lanes.quarantined:  # as nearly always
            return False
        return any(instant <= now for instant in self.quarantined_at().values())

    def choose(self, abilities: Abilities, seats: int, now: datetime) -> LaneChoice:
        """Return the lanes from which sessions with these abilities get runs for so many seats."""
        quotas = self._order.choose(abilities.reach, seats, now)
        if self._lanes.lined_up and not self._lanes.lined_up.isdisjoint(quotas):
            return self._choose_kind(abilities, quotas, now)
        quarantined = self.quarantined(abilities, now)
        return LaneChoice(
            lanes=tuple(quotas),
            lows={lane_id: self._lanes[lane_id].settled for lane_id in quotas},
            quarantined=quarantined,
            quotas=quotas,
            policy_epoch=self._held.epoch,
            caps=self._lanes.capped.of(quarantined),
        )

    def _choose_kind(self, abilities: Abilities, quotas: Mapping[LaneId, int], now: datetime) -> LaneChoice:
        """Return the lanes with limits, or those without: a claim takes runs of one kind.

        It is that of the lane that goes first. If lanes of both kinds wait in its tier, they take turns, each with what
        was dealt to them; but not where the oldest run goes first, nor where lanes have reserved seats. The seats that
        runs with limits have just left empty are for those without, of whatever tier: however soon a limit lets one
        more run start, they would not be filled.
        """
        plain = {key: quota for key, quota in quotas.items() if key not in self._lanes.lined_up}
        if abilities.reach.reserved:
            quotas = self._keep_reserved_kind(abilities.reach, quotas)
        leader = next(iter(quotas))
        tier = self._order.priority_of(leader)
        first = {key in self._lanes.lined_up for key in quotas if self._order.priority_of(key) is tier}
        are_lined_up = leader in self._lanes.lined_up
        if self._order.is_fifo(leader):
            pass
        elif len(first) > 1:
            abilities.is_turn_of_lines = are_lined_up = not abilities.is_turn_of_lines
        elif are_lined_up and abilities.are_lines_short and plain and not abilities.reach.reserved:
            are_lined_up = abilities.are_lines_short = False
        lined_up = {key: quota for key, quota in quotas.items() if key in self._lanes.lined_up}
        are_batches = False
        if self._lanes.batched and not self._lanes.batched.isdisjoint(lined_up):
            lined_up, are_batches = self._choose_batches(abilities, lined_up)
        fifo = {key for key in lined_up if self._order.is_fifo(key)}
        lines = self._lines.pick(lined_up, now, fifo=fifo) if are_lined_up else ()
        lines = keep_reserved_lines(abilities.reach, lines)
        if not are_lined_up:
            plain = {key: quota for key, quota in plain.items() if key in quotas}
        kept = lined_up if lines else plain
        quarantined = self.quarantined(abilities, now)
        return LaneChoice(
            lanes=tuple(kept),
            lows={} if lines else {lane_id: self._lanes[lane_id].settled for lane_id in kept},
            quarantined=quarantined,
            quotas=kept,
            lines=lines,
            policy_epoch=self._held.epoch,
            are_batches=are_batches,
            # Reserved seats go by tenant, whatever the ages are.
            is_oldest_first=fifo == lined_up.keys() and not abilities.reach.reserved,
            caps=self._lanes.capped.of((*kept, *quarantined)),
        )

    def _keep_reserved_kind(self, reach: Reach, quotas: Mapping[LaneId, int]) -> dict[LaneId, int]:
        """Return the lanes of the kind of the first one, which has reserved seats.

        If lanes of other kinds have some, too, they come before all lanes without.
        """
        leader = self._lanes.kind_of(next(iter(reach.reserved)))
        if any(self._lanes.kind_of(key) != leader for key in reach.reserved):
            quotas, reach.is_cut = reach.reserved, True
        return {key: quota for key, quota in quotas.items() if self._lanes.kind_of(key) == leader}

    def _choose_batches(
        self, abilities: Abilities, lined_up: Mapping[LaneId, int]
    ) -> tuple[dict[LaneId, int], bool]:
        """Return the lanes whose runs are taken in batches, or the others with lines, and which of the two it is.

        They take turns as lanes with limits and those without do.
        """
        first = next(iter(lined_up))
        tier = self._order.priority_of(first)
        are_batches = first in self._lanes.batched
        if len({key in self._lanes.batched for key in lined_up if self._order.priority_of(key) is tier}) > 1:
            abilities.is_turn_of_batches = are_batches = not abilities.is_turn_of_batches
        return {
            key: quota for key, quota in lined_up.items() if (key in self._lanes.batched) is are_batches
        }, are_batches

    def choose_speculatively(self, abilities: Abilities, now: datetime) -> LaneChoice | None:
        """Return the lanes from which a session may get what a hint has just announced, without reading them.

        None if that cannot be told so cheaply: something was ready or quarantined at the last read, so that others may
        come first, or a tenant has fewer slots than are reserved for it, or these abilities serve too many lanes, or
        none that is known.
        """
        served, reserves = self._serve_few(abilities), self._order.reserves
        if self.has_ready(now) or (reserves and any(reserves.missing(lane.key.tenant) for lane in served)):
            return None
        return self._choose_among(served)

    def choose_for_new(self, key: LaneKey, abilities: Abilities, now: datetime) -> LaneChoice | None:
        """Return all lanes from which a session gets work, if a new run of one lane is the next that it would get.

        None if that is not certain: at the last read something was ready or quarantined for it, or these abilities
        serve too many lanes, or not this one, or the lane is not known, or it has a cap.
        """
        if self._lanes.capped and self._order.wake(now):
            return None  # it may be of a lane with a cap, which comes first
        served = () if self._held.is_over(now) else self._serve_few(abilities)
        is_served = False
        for lane in served:
            is_served = is_served or lane.key == key
            if lane.ready_at is not None and lane.ready_at <= now:
                return None
            if lane.quarantined_at is not None and lane.quarantined_at <= now:
                return None
        return self._choose_among(served) if is_served else None

    def _serve_few(self, abilities: Abilities) -> tuple[KnownLane, ...]:
        """Return the known lanes that a session serves, in order of preference; none if they are many."""
        changes = self._lanes.changes, self._held.changes
        if self._changes != changes:
            self._changes, self._served = changes, {}
        served = self._served.get(abilities)
        if served is None:
            tenant = abilities.tenant
            ids = (
                lane_id
                for (queue, route), lanes in self._lanes.routes.items()
                if abilities.serve(queue, route)
                for lane_id in lanes
                if lane_id not in self._held
                and lane_id not in self._lanes.capped
                and (tenant is None or self._lanes[lane_id].key.tenant == tenant)
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
            policy_epoch=self._held.epoch,
        )

    def quarantined(self, abilities: Abilities, by: datetime) -> tuple[LaneId, ...]:
        """Return the lanes with a quarantined run that has been ready since `by`, the longest waiting first."""
        if not self._lanes.quarantined:
            return ()
        found = sorted(
            (instant, lane_id)
            for lane_id, instant in self.quarantined_at().items()
            if instant <= by
            and self._no_room.may_try(lane_id, self._lanes[lane_id].seen_at)
            and abilities.serve_lane(self._lanes[lane_id].key)
        )
        return tuple(lane_id for _, lane_id in found)

    def quarantined_at(self) -> Mapping[LaneId, datetime]:
        """Return since when lanes have quarantined runs, but for those that are paused."""
        found = self._lanes.quarantined
        return {key: found[key] for key in found if key not in self._held} if self._held else found

    def is_drain_wanted(self, abilities: Abilities, by: datetime) -> bool:
        """Say whether a quarantined run that has been ready since `by` waits for one of these workers to drain."""
        if not self._lanes.quarantined:
            return False
        return any(
            self._no_room.may_drain(lane_id, self._lanes[lane_id].seen_at)
            for lane_id in self.quarantined(abilities, by)
        )


def keep_reserved_lines(reach: Reach, lines: tuple[LineQuota, ...]) -> tuple[LineQuota, ...]:
    """Return only the lines of lanes with reserved seats, if these are asked for fewer runs than they have seats."""
    if not reach.reserved:
        return lines
    picked: Counter[LaneId] = Counter()
    for line in lines:
        picked[line.key.lane_id] += line.quota
    if all(picked[key] >= quota for key, quota in reach.reserved.items() if key in picked):
        return lines
    reach.is_cut = True
    return tuple(line for line in lines if line.key.lane_id in reach.reserved)
