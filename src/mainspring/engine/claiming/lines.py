"""What a process knows about the lines of runs that wait under limits, and from which of them to claim."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import heappop, heappush, nsmallest

from mainspring.core.holding import LineStop
from mainspring.core.ids import KeyId, LaneId
from mainspring.engine.common.pacing import Pacing
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store
from mainspring.ports.store.limits import (
    PLAIN,
    BatchLine,
    Line,
    LineClaim,
    LineClaimResult,
    LineKey,
    LineQuota,
)

SLICE = 1000
"""Lines that one look reads. If there are more, the looks go round, and between them only lines that were claimed from
are read again."""
LONGEST = 0.5
"""The most seconds between two slices of a round, however long they take. So it is with the slices of lanes."""
CLOSED_SHARE = 0.01
"""The share of the time that looks may take while no line has room, and nothing was heard of new ones."""
FULL_PERIOD = timedelta(seconds=5)
"""A line without room is tried again after this time, if nothing is heard of the end of a run in its way. So it is if
the next permit or retry is further away: the limit may be changed until then, or the run that is to retry cancelled."""
BUSY_PERIOD = timedelta(milliseconds=20)
"""The same if another claim is just deciding about its key."""
_MOST_LINES = 256
"""Lines of one claim, at most."""
_FIRST_QUOTA = 2


@dataclass(slots=True)
class _Known:
    """A line.

    Attributes:
        ready_at: the earliest instant at which one of its runs, or a batch, may start.
        head_at: the earliest `ready_at` of its runs.
        closed_until: it is not claimed from before this instant.
        closed_by: the key that has no room.
        quota: how many runs or batches of it to ask for. It follows what the line gave.
        turn: grows with each claim that it was offered to, so that lines that are alike take turns.
    """

    ready_at: datetime
    head_at: datetime
    closed_until: datetime | None = None
    closed_by: KeyId | None = None
    quota: int = _FIRST_QUOTA
    turn: int = 0

    @property
    def opens_at(self) -> datetime:
        """When there is something to claim, as far as is known."""
        return self.ready_at if self.closed_until is None else max(self.ready_at, self.closed_until)

    def head(self, now: datetime) -> datetime:
        """Return since when its first run has been ready, or from when on there is something to claim.

        A run that waited in a line without room is as old as it is: what has waited for long goes first.
        """
        return self.ready_at if self.opens_at <= now else self.opens_at


@dataclass(slots=True)
class LinesInView:
    """The lines of the lanes that a process knows.

    All of it is a hint: the store decides about each run. What is wrong here costs a claim, or the time until the next
    look.
    """

    _lanes: dict[LaneId, dict[KeyId, _Known]] = field(default_factory=dict)
    _closed: dict[KeyId, set[LineKey]] = field(default_factory=dict)  # by the key that has no room
    _changed: set[LineKey] = field(default_factory=set)  # claimed from since they were read
    _after: LineKey | None = None
    _seen: set[LineKey] = field(default_factory=set)  # in this round of looks
    _next_slice_at: float = -1.0e9  # monotonic
    _is_round: bool = False  # the last look was one of several that go round
    _is_put_off: bool = False  # a look at all lines is to follow
    _turns: int = 0
    _news: set[LaneId] = field(default_factory=set)
    _reopenings: list[tuple[datetime, LaneId]] = field(default_factory=list)
    _pacing: Pacing = field(default_factory=lambda: Pacing(longest=LONGEST))
    _closed_pacing: Pacing = field(default_factory=lambda: Pacing(longest=LONGEST, share=CLOSED_SHARE))

    def note_lane(self, lane_id: LaneId) -> None:
        """Have `take_news` name a lane."""
        self._news.add(lane_id)

    def take_news(self, now: datetime) -> set[LaneId]:
        """Return the lanes whose `head` may be another than when this was asked before, but for runs without keys."""
        while self._reopenings and self._reopenings[0][0] <= now:
            self._news.add(heappop(self._reopenings)[1])
        news, self._news = self._news, set()
        return news

    def head(self, lane_id: LaneId, now: datetime) -> datetime | None:
        """Return since when a lane has had something to claim, or from when on it will; None: it has nothing."""
        lines = self._lanes.get(lane_id)
        return min((line.head(now) for line in lines.values()), default=None) if lines else None

    def instants(self, lane_ids: Iterable[LaneId], now: datetime, limit: int) -> dict[LaneId, list[datetime]]:
        """Return by lane since when the heads of its lines have been ready, the oldest first.

        Lines without room are left out. What stands behind the heads is not known.
        """
        found: dict[LaneId, list[datetime]] = {}
        for lane_id in lane_ids:
            lines = self._lanes.get(lane_id, {}).values()
            open_ones = [line.ready_at for line in lines if line.opens_at <= now]
            found[lane_id] = sorted(open_ones)[:limit]
        return found

    def due_in(self, at: float) -> float | None:
        """Return the seconds until the next look of a round, or one that was put off; None if there is none."""
        is_due = self._after is not None or self._is_put_off
        return max(self._next_slice_at - at, 0.0) if is_due else None

    async def read(
        self,
        store: Store,
        clock: Clock,
        now: datetime,
        *,
        batched: Collection[LaneId] = (),
        has_news: bool = True,
    ) -> None:
        """Look at the lines: at all if they are few, else at the next ones, and at those that were claimed from.

        While no line has room, a look finds only new ones. Then it comes seldom, so that what waits costs others
        nothing.

        Args:
            batched: lanes whose runs are taken in batches.
            has_news: there may be new lines.
        """
        begun = clock.monotonic()
        is_early = begun < self._next_slice_at
        is_seldom = not (has_news or self._is_round) and self._are_all_closed(now)
        self._is_put_off = is_early and is_seldom
        if (self._is_round or self._is_put_off) and (
            changed := sorted(key for key in self._changed if key.key_id != PLAIN)
        ):
            lines = await store.read_some_lines(changed)
            found = {line.key: line for line in await _read_batches(store, lines, batched, now)}
            for key in changed:
                self._note(key, found.get(key))
        self._changed.clear()
        if self._is_put_off or (self._is_round and is_early):
            return
        found_lines = await store.read_lines(after=self._after, limit=SLICE)
        for line in await _read_batches(store, found_lines, batched, now):
            self._seen.add(line.key)
            self._note(line.key, line)
        self._is_round = self._after is not None or len(found_lines) == SLICE
        if len(found_lines) < SLICE:
            self._end_round()
        else:
            self._after = found_lines[-1].key
        ended = clock.monotonic()
        pacing = self._pacing if self._is_round else self._closed_pacing
        self._next_slice_at = ended + pacing.rest(ended - begun)

    def _are_all_closed(self, now: datetime) -> bool:
        lines = (line for known in self._lanes.values() for line in known.values())
        return bool(self._lanes) and all(line.opens_at > now for line in lines)

    def _end_round(self) -> None:
        """Forget the lines that were not seen since the round began, but for runs without keys."""
        for key in [key for key in self._keys() if key not in self._seen and key.key_id != PLAIN]:
            self._note(key, None)
        self._after = None
        self._seen = set()

    def _keys(self) -> Iterator[LineKey]:
        return (LineKey(key_id, lane_id) for lane_id, lines in self._lanes.items() for key_id in lines)

    def note_plain(self, lane_id: LaneId, ready_at: datetime | None) -> None:
        """Take over what a look has found of the runs without keys of a lane with a cap; None: it has none."""
        key = LineKey(PLAIN, lane_id)
        if ready_at is not None:
            self._note(key, Line(key, ready_at))
        elif lane_id in self._lanes:
            self._note(key, None)

    def _note(self, key: LineKey, line: Line | BatchLine | None) -> None:
        """Take over what a look has found of a line; None: nothing waits in it."""
        lines = self._lanes.setdefault(key.lane_id, {})
        known = lines.get(key.key_id)
        if line is None:
            if known is not None:
                self._open(key, known)
                del lines[key.key_id]
        else:
            head_at = line.head_at if isinstance(line, BatchLine) else line.ready_at
            if known is None:
                lines[key.key_id] = _Known(line.ready_at, head_at)
                self._tell(key)
            elif known.ready_at != line.ready_at:
                known.ready_at = line.ready_at
                self._tell(key)
            lines[key.key_id].head_at = head_at
        if not lines:
            del self._lanes[key.lane_id]

    def pick(
        self, quotas: Mapping[LaneId, int], now: datetime, *, fifo: Collection[LaneId] = ()
    ) -> tuple[LineQuota, ...]:
        """Return the lines to claim from, and how many runs of each.

        Within a lane, the line whose head is the oldest goes first, and of those that are alike the one that has waited
        longest for its turn.

        Args:
            quotas: the most runs to take of each lane.
            fifo: the lanes of queues that serve the oldest run first. Only the head of each line is taken of them, as
                runs of other lines may be older than what stands behind it. A line that is alone has no others. Of runs
                without keys the quotas say how many are the oldest, if there are no other queues.
        """
        is_fifo = all(lane_id in fifo for lane_id in quotas)
        is_alone = len(quotas) == 1 and all(len(self._lanes.get(lane_id, ())) == 1 for lane_id in quotas)
        picked: list[LineQuota] = []
        self._turns += 1
        for lane_id, most in quotas.items():
            lines = self._lanes.get(lane_id, {})
            ready = (
                (line.ready_at, line.turn, key_id) for key_id, line in lines.items() if line.opens_at <= now
            )
            left = most
            for _, _, key_id in nsmallest(_MOST_LINES - len(picked), ready):
                is_head_only = lane_id in fifo and not is_alone and not (is_fifo and key_id == PLAIN)
                quota = 1 if is_head_only else lines[key_id].quota
                quota = min(quota, left)
                if quota < 1:
                    break
                left -= quota
                lines[key_id].turn = self._turns
                picked.append(LineQuota(LineKey(key_id, lane_id), lines[key_id].head_at, quota))
        return tuple(picked)

    def note_claim(
        self, request: LineClaim, result: LineClaimResult, now: datetime, *, is_cap: Callable[[KeyId], bool]
    ) -> None:
        """Take over what a claim has found out about its lines.

        Args:
            is_cap: says whether a key is that of a cap, which closes whole lanes.
        """
        for line in request.lines:
            known = self._lanes.get(line.key.lane_id, {}).get(line.key.key_id)
            if known is None:
                continue
            self._changed.add(line.key)
            taken = result.taken.get(line.key, 0)
            stop = result.stops.get(line.key)
            if stop is not None:
                known.quota = max(taken, 1)
                if not is_cap(stop.key_id):
                    self._close(line.key, known, stop, now)
            elif taken >= line.quota:
                known.quota = 2 * line.quota

    def _close(self, key: LineKey, known: _Known, stop: LineStop, now: datetime) -> None:
        self._open(key, known)
        known.closed_until = closed_until(stop, now)
        heappush(self._reopenings, (known.closed_until, key.lane_id))
        if not stop.is_busy:
            known.closed_by = stop.key_id
            self._closed.setdefault(stop.key_id, set()).add(key)

    def _open(self, key: LineKey, known: _Known) -> None:
        if known.closed_by is not None:
            waiting = self._closed.get(known.closed_by, set())
            waiting.discard(key)
            if not waiting:
                self._closed.pop(known.closed_by, None)
        known.closed_until = known.closed_by = None
        self._tell(key)

    def _tell(self, key: LineKey) -> None:
        if key.key_id != PLAIN:
            self._news.add(key.lane_id)

    def open(self, key_ids: Iterable[KeyId] | None) -> bool:
        """Have the lines tried again that these keys, or any, have stopped. Return whether there are any."""
        stopping = list(self._closed) if key_ids is None else key_ids
        found = [key for key_id in stopping for key in self._closed.get(key_id, ())]
        for key in found:
            self._open(key, self._lanes[key.lane_id][key.key_id])
        return bool(found)


def closed_until(stop: LineStop, now: datetime) -> datetime:
    """Return when something that was stopped is tried again, if nothing is heard before."""
    if stop.is_busy:
        return now + BUSY_PERIOD
    return min(stop.until or now + FULL_PERIOD, now + FULL_PERIOD)


async def _read_batches(
    store: Store, lines: Sequence[Line], batched: Collection[LaneId], now: datetime
) -> Sequence[Line | BatchLine]:
    """Return lines, and of those that are taken in batches when they have one."""
    keys = [line.key for line in lines if line.key.lane_id in batched] if batched else []
    if not keys:
        return lines
    return [
        *(line for line in lines if line.key.lane_id not in batched),
        *await store.read_batches(keys, now=now),
    ]
