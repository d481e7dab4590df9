"""Which lanes there are, as far as this process knows, and what the last look at each of them has found."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from mainspring.core.ids import LaneId
from mainspring.core.lane_caps import LaneCaps
from mainspring.core.lane_marks import mark_of
from mainspring.core.limits import is_batched, is_lined_up
from mainspring.core.model import Lane, LaneKey
from mainspring.engine.claiming.capped_lanes import CappedLanes


@dataclass(slots=True)
class KnownLane:
    """A lane as the last look at it has found it.

    Attributes:
        ready_at: its earliest `ready_at`; None: it has no run.
        settled: no ready run is known before it.
        seen_at: when it was looked at.
    """

    id: LaneId
    key: LaneKey
    ready_at: datetime | None
    quarantined_at: datetime | None
    settled: datetime
    seen_at: datetime

    def view(self) -> Lane:
        """Return the lane as it was found."""
        return Lane(self.id, self.key, self.ready_at, self.quarantined_at)

    def low(self, lag: timedelta) -> datetime:
        """Return where the next scan starts.

        It starts at the lane's oldest run, or at the lag before the last look if that is earlier, because older runs
        may still be on their way.
        """
        return min(self.settled, self.seen_at - lag)


class KnownLanes:
    """The lanes by id, by key, and by queue and route.

    Attributes:
        changes: grows when a lane is added or dropped, and when others have caps.
        capped: those with caps.
        lined_up: those whose runs wait in lines.
        plain_lines: those of them whose runs have no keys, so that they are one line: they have a cap.
        batched: those of them whose runs are taken in batches.
        quarantined: since when each lane has a quarantined run that is ready, or from when on it will.
    """

    def __init__(self) -> None:
        self.changes: int = 0
        self.capped: CappedLanes = CappedLanes()
        self.lined_up: set[LaneId] = set()
        self.plain_lines: set[LaneId] = set()
        self.batched: set[LaneId] = set()
        self.quarantined: dict[LaneId, datetime] = {}
        self._lanes: dict[LaneId, KnownLane] = {}
        self._ids: list[LaneId] = []
        self._by_key: dict[LaneKey, LaneId] = {}
        self._by_mark: dict[str, LaneId] = {}
        self._by_route: dict[tuple[str, str], dict[LaneId, None]] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, lane_id: LaneId) -> KnownLane:
        return self._lanes[lane_id]

    def __contains__(self, lane_id: object) -> bool:
        return lane_id in self._lanes

    @property
    def last(self) -> LaneId | None:
        """The highest id."""
        return self._ids[-1] if self._ids else None

    @property
    def routes(self) -> dict[tuple[str, str], dict[LaneId, None]]:
        """The lanes of each queue and route."""
        return self._by_route

    def kind_of(self, lane_id: LaneId) -> tuple[bool, bool]:
        """Return whether the runs of a lane wait in lines, and whether in batches. A claim has one kind of lanes."""
        return lane_id in self.lined_up, lane_id in self.batched

    def find(self, key: LaneKey) -> LaneId | None:
        """Return a lane's id; None if it is not known."""
        return self._by_key.get(key)

    def find_marked(self, mark: str) -> LaneId | None:
        """Return the id of the lane with this mark; None if it is not known."""
        return self._by_mark.get(mark)

    def following(self, after: LaneId | None, count: int) -> Sequence[LaneId]:
        """Return so many ids above one; None: from the first on."""
        low = 0 if after is None else bisect_right(self._ids, after)
        return self._ids[low : low + count]

    def between(self, after: LaneId | None, last: LaneId | None) -> Sequence[LaneId]:
        """Return the ids above one, up to another; None: without that bound."""
        low = 0 if after is None else bisect_right(self._ids, after)
        high = len(self._ids) if last is None else bisect_right(self._ids, last)
        return self._ids[low:high]

    def keep(self, lanes: Iterable[Lane], among: Iterable[LaneId], now: datetime) -> list[LaneId]:
        """Take over what a look has found. Return those of `among` that it did not find: they are gone."""
        found = set()
        for lane in lanes:
            self._put(lane, now)
            found.add(lane.id)
        gone = [lane_id for lane_id in among if lane_id not in found]
        for lane_id in gone:
            self._drop(lane_id)
        return gone

    def _put(self, lane: Lane, now: datetime) -> None:
        settled = min(lane.earliest_ready_at or now, now)
        known = self._lanes.get(lane.id)
        if known is None:
            known = KnownLane(lane.id, lane.key, None, None, settled, now)
            self._add(known)
        known.ready_at, known.quarantined_at = lane.earliest_ready_at, lane.earliest_quarantined_at
        known.settled, known.seen_at = settled, now
        if lane.earliest_quarantined_at is not None:
            self.quarantined[lane.id] = lane.earliest_quarantined_at
        elif self.quarantined:
            self.quarantined.pop(lane.id, None)

    def _add(self, lane: KnownLane) -> None:
        self.changes += 1
        self._lanes[lane.id] = lane
        self._by_key[lane.key] = self._by_mark[mark_of(lane.key)] = lane.id
        self._by_route.setdefault((lane.key.queue, lane.key.route), {})[lane.id] = None
        self._sort(lane)
        if self._ids and lane.id < self._ids[-1]:
            insort(self._ids, lane.id)
        else:
            self._ids.append(lane.id)

    def _sort(self, lane: KnownLane) -> None:
        """Note how runs of a lane are claimed."""
        is_capped = self.capped.add(lane.id, lane.key)
        if is_lined_up(lane.key.route):
            self.lined_up.add(lane.id)
            if is_batched(lane.key.route):
                self.batched.add(lane.id)
        elif is_capped:
            self.lined_up.add(lane.id)
            self.plain_lines.add(lane.id)

    def follow(self, caps: LaneCaps) -> set[LaneId]:
        """Keep other caps. Return the lanes whose runs without keys are a line from now on, or no longer are."""
        before = self.plain_lines
        self.changes += 1
        self.capped.follow(caps)
        self.lined_up, self.batched, self.plain_lines = set(), set(), set()
        for lane in self._lanes.values():
            self._sort(lane)
        return before ^ self.plain_lines

    def _drop(self, lane_id: LaneId) -> None:
        lane = self._lanes.pop(lane_id, None)
        if lane is None:
            return
        self.changes += 1
        self.quarantined.pop(lane_id, None)
        self.capped.drop(lane_id, lane.key)
        self.plain_lines.discard(lane_id)
        self.lined_up.discard(lane_id)
        self.batched.discard(lane_id)
        if self._by_key.get(lane.key) == lane_id:  # else it was made anew under another id
            del self._by_key[lane.key]
            self._by_mark.pop(mark_of(lane.key), None)
        route = lane.key.queue, lane.key.route
        del self._by_route[route][lane_id]
        if not self._by_route[route]:
            del self._by_route[route]
        del self._ids[bisect_right(self._ids, lane_id) - 1]
