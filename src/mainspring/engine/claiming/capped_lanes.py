"""Which of the known lanes have caps, and which of these are full, so that claims pass over whole lanes.

A cap of a queue or a label may close very many lanes, so it closes queues and routes. One of a tenant closes its lanes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from mainspring.core.holding import LineStop
from mainspring.core.ids import KeyId, LaneId
from mainspring.core.lane_caps import NO_CAPS, LaneCaps
from mainspring.core.model import LaneKey
from mainspring.core.reach import Place
from mainspring.engine.claiming.lines import closed_until


class CappedLanes:
    """The caps of the lanes that a process knows.

    That a cap is full is a hint, as for lines: the store decides about each run.

    Attributes:
        caps: those that are kept. They change together with the policy epoch of claims.
        news: the lanes whose tenants' caps have become full, or have room again, since somebody took them from here.
        are_stops_old: other queues and routes are closed than `stops` has said.
    """

    def __init__(self) -> None:
        self.caps: LaneCaps = NO_CAPS
        self.news: set[LaneId] = set()
        self.are_stops_old: bool = False
        self._keys: dict[LaneId, tuple[KeyId, ...]] = {}
        self._lanes: dict[KeyId, set[LaneId]] = {}  # by the caps of tenants
        self._places: dict[KeyId, Counter[Place]] = {}  # how many lanes each has, by the other caps
        self._full: dict[KeyId, datetime] = {}

    def __bool__(self) -> bool:
        return bool(self._keys)

    def __contains__(self, lane_id: object) -> bool:
        return lane_id in self._keys

    def is_cap(self, key_id: KeyId) -> bool:
        """Say whether a key is that of a cap."""
        return key_id in self._places or key_id in self._lanes

    def of(self, lane_ids: Iterable[LaneId]) -> dict[LaneId, tuple[KeyId, ...]]:
        """Return what runs of these lanes need places under; lanes without a cap are left out."""
        if not self._keys:
            return {}
        return {lane_id: self._keys[lane_id] for lane_id in lane_ids if lane_id in self._keys}

    def add(self, lane_id: LaneId, key: LaneKey) -> bool:
        """Note a lane. Return whether it has a cap."""
        keys = self.caps.keys_of(key)
        if not keys:
            return False
        self._keys[lane_id] = keys
        of_tenant = self.caps.key_of_tenant(key.tenant)
        for key_id in keys:
            if key_id == of_tenant:
                self._lanes.setdefault(key_id, set()).add(lane_id)
            else:
                self._places.setdefault(key_id, Counter())[key.queue, key.route] += 1
                self.are_stops_old = self.are_stops_old or key_id in self._full
        return True

    def drop(self, lane_id: LaneId, key: LaneKey) -> None:
        """Forget a lane that is gone."""
        self.news.discard(lane_id)
        place = key.queue, key.route
        for key_id in self._keys.pop(lane_id, ()):
            if key_id in self._lanes:
                self._lanes[key_id].discard(lane_id)
                continue
            self._places[key_id][place] -= 1
            if not self._places[key_id][place]:
                del self._places[key_id][place]

    def follow(self, caps: LaneCaps) -> None:
        """Keep other caps. The lanes are to be added anew. What was full may have room now."""
        self.caps = caps
        self.news.clear()
        self._keys.clear()
        self._lanes.clear()
        self._places.clear()
        self._full.clear()
        self.are_stops_old = True

    def close(self, stops: Iterable[LineStop], now: datetime) -> None:
        """Note which caps have stopped a claim."""
        for stop in stops:
            if self.is_cap(stop.key_id):
                self._full[stop.key_id] = closed_until(stop, now)
                self._note(stop.key_id)

    def open(self, key_ids: Collection[KeyId] | None) -> bool:
        """Note that there may be room under these caps, or under any. Return whether there was none."""
        found = [
            key_id for key_id in (list(self._full) if key_ids is None else key_ids) if key_id in self._full
        ]
        for key_id in found:
            del self._full[key_id]
            self._note(key_id)
        return bool(found)

    def _note(self, key_id: KeyId) -> None:
        if key_id in self._places:
            self.are_stops_old = True
        self.news |= self._lanes.get(key_id, set())

    def stops(self, now: datetime) -> Mapping[Place, datetime]:
        """Return the queues and routes with full caps, and when they are tried again if nothing is heard before."""
        self.are_stops_old = False
        stops: dict[Place, datetime] = {}
        for key_id, until in self._full.items():
            if until > now:
                for place in self._places.get(key_id, ()):
                    stops[place] = max(until, stops.get(place, until))
        return stops

    def opens_at(self, lane_id: LaneId, head: datetime | None) -> datetime | None:
        """Return when there is room under its tenant's cap for a lane whose first run is ready at `head`.

        None: it has nothing.
        """
        if head is None or not self._full:
            return head
        for key_id in self._keys.get(lane_id, ()):
            until = self._full.get(key_id) if key_id in self._lanes else None
            if until is not None and until > head:
                head = until
        return head
