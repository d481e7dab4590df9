"""Decides which runs give up their slots for more urgent work that has waited for too long."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from mainspring.core.ids import LaneId, RunId, SessionId
from mainspring.core.lane_caps import CapKey
from mainspring.core.model import Delivery, JobSpec, LaneKey, Priority
from mainspring.core.unmet import NO_RESERVES, ReserveCounts
from mainspring.core.values import value

MOST_TIMES = 3
"""So often a run is asked to give up its slot, over all its attempts. Otherwise it might never end."""
PATIENCE = timedelta(minutes=1)
"""A run that was asked is expected to end within this. Then others are asked: its worker may be of an older release."""
MOST_TOGETHER = 100
"""Runs of a lane for which slots are sought at a time."""

Lease = tuple[RunId, int]
"""A run and its token."""


@value(kw_only=True)
class PreemptionMark:
    """A request to a run to give up its slot, kept with the run. It counts only under the token that it names.

    Attributes:
        at: when it was made.
        by: for whom, as it stands in a sentence.
        times: how often the run was asked, this time included.
    """

    token: int
    at: datetime
    by: str
    times: int


def store_mark(mark: PreemptionMark) -> str:
    """Return the kept form of a mark."""
    return json.dumps([mark.token, mark.at.isoformat(), mark.by, mark.times], separators=(",", ":"))


def load_mark(text: str | None) -> PreemptionMark | None:
    """Read what `store_mark` wrote; None for None."""
    if text is None:
        return None
    token, at, by, times = json.loads(text)
    return PreemptionMark(token=token, at=datetime.fromisoformat(at), by=by, times=times)


def is_asked(mark: PreemptionMark | None, token: int) -> bool:
    """Say whether a run under this token was asked to give up its slot."""
    return mark is not None and mark.token == token


def may_preempt(spec: JobSpec, tier: Priority) -> bool:
    """Say whether a waiting run may take the slots of others.

    A run with a tier of its own goes by that tier, because what its job says is about the job's tier.
    """
    if spec.preempts is None or tier is not spec.priority:
        return tier is Priority.HIGH
    return spec.preempts


def may_be_preempted(spec: JobSpec) -> bool:
    """Say whether a run of a definition may be stopped, to start again later."""
    return spec.preemptible and spec.delivery is not Delivery.AT_MOST_ONCE


class KeptWaiting(NamedTuple):
    """Runs of a lane that have waited for too long, and may take slots.

    Attributes:
        runs: how many may take the slots of lower tiers.
        since: since when the first of them is ready.
        reserved: how many may take the slots of other tenants, if their own is short of reserved ones.
        caps: those that the lane's runs are counted under.
    """

    lane_id: LaneId
    lane: LaneKey
    runs: int
    since: datetime
    reserved: int = 0
    caps: tuple[CapKey, ...] = ()

    @property
    def words(self) -> str:
        """Who it is, as it stands in a sentence."""
        return f"{self.lane.priority.name} work of queue {self.lane.queue}"


WITH_RESERVE = " with reserved slots"
"""How the words end of what takes slots because of a reserve. They tell other tenants no name."""


@value(kw_only=True)
class Seated:
    """A run that holds a slot.

    Attributes:
        is_preemptible: its definition says so.
        is_ending: it is asked to stop already, because its cancel was requested.
        started_at: the youngest are asked first, because they lose least.
    """

    run_id: RunId
    token: int
    tenant: str
    tier: Priority
    is_preemptible: bool
    is_ending: bool
    started_at: datetime
    mark: PreemptionMark | None


@value(kw_only=True)
class Seats:
    """The slots of a live session.

    Attributes:
        taken: how many of them are taken, or promised to what it has claimed ahead.
        fits: the lanes whose runs it can execute, of those that wait.
        runs: what it holds, but for the runs of batches.
        is_closed: a run that crashed a worker has it for itself, so a free slot is of no use to others.
    """

    session_id: SessionId
    slots: int
    taken: int
    fits: Collection[LaneId]
    runs: Sequence[Seated]
    is_closed: bool = False

    @property
    def is_useful(self) -> bool:
        """Whether a slot that becomes free goes to what waits in the store.

        A session that holds more leases than slots has claimed ahead: the next of these would take the slot. Their
        attempts are short, so a slot is free soon.
        """
        return not self.is_closed and self.taken <= self.slots


@value(kw_only=True)
class Victim:
    """A run that is to give up its slot.

    Attributes:
        old: the mark that it has from before.
    """

    run_id: RunId
    token: int
    mark: PreemptionMark
    old: PreemptionMark | None


@value(kw_only=True)
class Preemption:
    """The runs that are to give up their slots for a lane."""

    waiter: KeptWaiting
    victims: tuple[Victim, ...]


def choose_victims(
    waiters: Iterable[KeptWaiting],
    seats: Iterable[Seats],
    *,
    now: datetime,
    reserves: ReserveCounts = NO_RESERVES,
    room: Mapping[CapKey, int] | None = None,
) -> list[Preemption]:
    """Choose who gives up a slot: as many runs as wait, the lowest tier first, then the youngest.

    Slots that are free, or about to become free, go to whom the next claim would give them: first to tenants that are
    short of reserved slots, then to the most urgent. A run is chosen only if it is preemptible, is not asked yet, was
    asked fewer than `MOST_TIMES` times, and if its session can execute what waits.

    For urgent work, runs of lower tiers give way. For a tenant that is short of reserved slots, those of other tenants
    do, of its tier and lower ones. A slot that a tenant needs for its own reserve is never taken from it: the next
    claim would give it back.

    Args:
        room: how many more runs the caps of the waiters allow.
    """
    order = sorted(waiters, key=lambda one: (one.lane.priority, one.since, one.lane_id))
    slots = _Slots(seats, reserves, room or {}, now)
    chosen: dict[LaneId, list[Victim]] = {one.lane_id: [] for one in order}
    got: Counter[LaneId] = Counter()
    for waiter in order:
        tenant = waiter.lane.tenant
        count, victims = slots.seek(waiter, min(waiter.reserved, slots.missing(tenant)), _gives_to_reserve)
        slots.fill(tenant, count)
        got[waiter.lane_id] = count
        chosen[waiter.lane_id] += [_make_victim(run, waiter.words + WITH_RESERVE, now) for run in victims]
    for waiter in order:
        left = max(waiter.runs, waiter.reserved) - got[waiter.lane_id]
        _, victims = slots.seek(waiter, min(waiter.runs, left), _gives_to_urgent)
        chosen[waiter.lane_id] += [_make_victim(run, waiter.words, now) for run in victims]
    return [Preemption(waiter=one, victims=tuple(found)) for one in order if (found := chosen[one.lane_id])]


def _gives_to_urgent(run: Seated, waiter: KeptWaiting) -> bool:
    return run.tier > waiter.lane.priority


def _gives_to_reserve(run: Seated, waiter: KeptWaiting) -> bool:
    return run.tier >= waiter.lane.priority and run.tenant != waiter.lane.tenant


class _Slots:
    """What is left of slots, of runs that may give theirs up, of reserves and of caps, while victims are chosen."""

    def __init__(
        self, seats: Iterable[Seats], reserves: ReserveCounts, room: Mapping[CapKey, int], now: datetime
    ) -> None:
        known = list(seats)
        self._useful = [one for one in known if one.is_useful]
        self._free = {
            one.session_id: one.slots - one.taken + sum(_is_leaving(run, now) for run in one.runs)
            for one in self._useful
        }
        self._runs = [(run, one.fits) for one in self._useful for run in one.runs if _may_be_asked(run)]
        self._runs.sort(key=lambda item: (item[0].tier, item[0].started_at, item[0].run_id), reverse=True)
        leaving = Counter(run.tenant for one in known for run in one.runs if _is_leaving(run, now))
        self._missing = {tenant: reserves.missing(tenant) for tenant in reserves.slots}
        self._spare = {tenant: reserves.spare(tenant) - leaving[tenant] for tenant in reserves.slots}
        self._room = dict(room)

    def missing(self, tenant: str) -> int:
        return self._missing.get(tenant, 0)

    def fill(self, tenant: str, count: int) -> None:
        """Note that a tenant will have more of its reserve."""
        if count:
            self._missing[tenant] -= count

    def seek(
        self, waiter: KeptWaiting, most: int, gives: Callable[[Seated, KeptWaiting], bool]
    ) -> tuple[int, list[Seated]]:
        """Return how many slots a lane will have, and the runs that are to give them up: fewer, if some are free."""
        wanted = min(most, *(self._room.get(cap, most) for cap in waiter.caps), most)
        free = self._use_free(waiter, wanted)
        victims = self._take(waiter, wanted - free, gives)
        for cap in waiter.caps:
            if cap in self._room:
                self._room[cap] -= free + len(victims)
        return free + len(victims), victims

    def _use_free(self, waiter: KeptWaiting, wanted: int) -> int:
        used = 0
        for one in self._useful:
            if waiter.lane_id in one.fits:
                some = min(self._free[one.session_id], wanted - used)
                self._free[one.session_id] -= some
                used += some
        return used

    def _take(
        self, waiter: KeptWaiting, wanted: int, gives: Callable[[Seated, KeptWaiting], bool]
    ) -> list[Seated]:
        taken: dict[RunId, Seated] = {}
        for run, fits in self._runs if wanted > 0 else ():
            if waiter.lane_id in fits and gives(run, waiter) and self._can_spare(run.tenant, waiter):
                taken[run.run_id] = run
                if len(taken) == wanted:
                    break
        if taken:
            self._runs = [item for item in self._runs if item[0].run_id not in taken]
        return list(taken.values())

    def _can_spare(self, tenant: str, waiter: KeptWaiting) -> bool:
        """Say whether a tenant can give up a slot, and note that it does."""
        if tenant == waiter.lane.tenant or tenant not in self._spare:
            return True
        self._spare[tenant] -= 1
        return self._spare[tenant] >= 0


def _may_be_asked(run: Seated) -> bool:
    if not run.is_preemptible or run.is_ending or is_asked(run.mark, run.token):
        return False
    return run.mark is None or run.mark.times < MOST_TIMES


def _is_leaving(run: Seated, now: datetime) -> bool:
    if run.is_ending:
        return True
    return run.mark is not None and run.mark.token == run.token and now - run.mark.at < PATIENCE


def _make_victim(run: Seated, by: str, now: datetime) -> Victim:
    times = 1 if run.mark is None else run.mark.times + 1
    mark = PreemptionMark(token=run.token, at=now, by=by, times=times)
    return Victim(run_id=run.run_id, token=run.token, mark=mark, old=run.mark)


def count_slots(sizes: Mapping[Hashable, tuple[int, int]]) -> int:
    """Return how many slots batches take: for each call's runs, how many there are, and how many a call may have."""
    return sum(-(-count // size) for count, size in sizes.values())


def next_look(periods: Mapping[str, timedelta]) -> float:
    """Return the seconds until the next look at queues whose work may wait so long."""
    return max(0.1, min(1.0, min(period.total_seconds() for period in periods.values()) / 2))
