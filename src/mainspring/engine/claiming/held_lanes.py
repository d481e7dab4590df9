"""Which of the known lanes are paused, so that nothing of them is chosen."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from mainspring.core.ids import LaneId
from mainspring.core.lane_caps import LaneCaps
from mainspring.core.model import Lane
from mainspring.engine.claiming.known_lanes import KnownLanes
from mainspring.engine.common.restrictions import RestrictionReader
from mainspring.ports.store.restrictions import Restrictions


class HeldLanes:
    """The paused lanes among those that a process knows, and the policy epoch under which it chooses.

    Both change together, in `settle`: a claim that carries an epoch has been chosen by its restrictions.

    Attributes:
        is_outdated: the store has refused a claim, because the restrictions have changed.
        changes: grows when other lanes are held than before.
    """

    def __init__(self) -> None:
        self.is_outdated: bool = False
        self.changes: int = 0
        self._restrictions = Restrictions()
        self._news: Restrictions | None = None
        self._ids: set[LaneId] = set()
        self._changes_at: datetime | None = None

    def __contains__(self, lane_id: object) -> bool:
        return lane_id in self._ids

    def __bool__(self) -> bool:
        return bool(self._ids)

    @property
    def epoch(self) -> int:
        """The policy epoch of what is kept."""
        return self._restrictions.epoch

    @property
    def caps(self) -> LaneCaps:
        """The caps that are kept."""
        return self._restrictions.caps

    @property
    def is_new(self) -> bool:
        """Whether `settle` is to be called, whatever time it is."""
        return self._news is not None or self.is_outdated

    def follow(self, restrictions: Restrictions) -> None:
        """Keep other restrictions, from the next `settle` on."""
        self.is_outdated = False
        self._news = None if restrictions.epoch == self.epoch else restrictions

    def changes_in(self, now: datetime) -> float | None:
        """Return the seconds until a pause ends by itself, or a blackout begins or ends; None: none will."""
        return None if self._changes_at is None else (self._changes_at - now).total_seconds()

    def is_over(self, now: datetime) -> bool:
        """Say whether other lanes are to be held by now than `settle` has found."""
        return self._changes_at is not None and self._changes_at <= now

    def take(self, lanes: Iterable[Lane], now: datetime) -> list[Lane]:
        """Note which of some lanes are held. Return the others."""
        pauses = self._restrictions.pauses
        if not pauses:
            return list(lanes)
        looked_at = list(lanes)
        held = {lane.id for lane in looked_at if pauses.is_held(lane.key, now)}
        if any((lane.id in self._ids) != (lane.id in held) for lane in looked_at):
            self._ids = self._ids.difference(lane.id for lane in looked_at) | held
            self.changes += 1
        return [lane for lane in looked_at if lane.id not in held]

    def drop(self, lane_id: LaneId) -> None:
        """Forget a lane that is gone."""
        self._ids.discard(lane_id)

    async def renew(self, reader: RestrictionReader) -> None:
        """Read the restrictions if the store has refused a claim because of them."""
        if self.is_outdated:
            found = await reader.read()
            assert found is not None, "nothing is known, so all is read"
            self.follow(found)

    def settle(self, lanes: KnownLanes, now: datetime) -> tuple[set[LaneId], set[LaneId]]:
        """Return which lanes are held from now on, and which no longer are; usually none."""
        if self._news is None and not self.is_over(now):
            return set(), set()
        self._restrictions, self._news = self._news or self._restrictions, None
        pauses = self._restrictions.pauses
        self._changes_at = pauses.next_change(now)
        held = set()
        if pauses:
            held = {key for key in lanes.between(None, None) if pauses.is_held(lanes[key].key, now)}
        before, self._ids = self._ids, held
        if before != held:
            self.changes += 1
        return held - before, before - held
