"""Decides which runs give up their slots for more urgent work that has waited for too long."""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from mainspring.core.ids import LaneId, RunId, SessionId
from mainspring.core.model import Delivery, JobSpec, LaneKey, Priority
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
        runs: how many there are.
        since: since when the first of them is ready.
    """

    lane_id: LaneId
    lane: LaneKey
    runs: int
    since: datetime

    @property
    def words(self) -> str:
        """Who it is, as it stands in a sentence."""
        return f"{self.lane.priority.name} work of queue {self.lane.queue}"


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
    tier: Priority
    is_preemptible: bool
    is_ending: bool
    started_at: datetime
    mark: PreemptionMark | None


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A run that is to give up its slot.

    Attributes:
        old: the mark that it has from before.
    """

    run_id: RunId
    token: int
    mark: PreemptionMark
    old: PreemptionMark | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """The runs that are to give up their slots for a lane."""

    waiter: KeptWaiting
    victims: tuple[Victim, ...]


def choose_victims(
    waiters: Iterable[KeptWaiting], seats: Iterable[Seats], *, now: datetime
) -> list[Preemption]:
    """Choose who gives up a slot: as many runs as wait, of lower tiers, the lowest tier first, then the youngest.

    Slots that are free, or about to become free, go to the most urgent first. A run is chosen only if it is
    preemptible, is not asked yet, was asked fewer than `MOST_TIMES` times, and if its session can execute what waits.
    """
    useful = [one for one in seats if one.is_useful]
    free = {
        one.session_id: one.slots - one.taken + sum(_is_leaving(run, now) for run in one.runs)
        for one in useful
    }
    left = [(run, one.fits) for one in useful for run in one.runs if _may_be_asked(run)]
    left.sort(key=lambda item: (item[0].tier, item[0].started_at, item[0].run_id), reverse=True)
    chosen: list[Preemption] = []
    for waiter in sorted(waiters, key=lambda one: (one.lane.priority, one.since, one.lane_id)):
        missing = waiter.runs
        for one in useful:
            if waiter.lane_id in one.fits:
                used = min(free[one.session_id], missing)
                free[one.session_id] -= used
                missing -= used
        fitting = [run for run, fits in left if run.tier > waiter.lane.priority and waiter.lane_id in fits][
            :missing
        ]
        if fitting:
            taken = {run.run_id for run in fitting}
            left = [item for item in left if item[0].run_id not in taken]
            victims = tuple(_make_victim(run, waiter, now) for run in fitting)
            chosen.append(Preemption(waiter=waiter, victims=victims))
    return chosen


def _may_be_asked(run: Seated) -> bool:
    if not run.is_preemptible or run.is_ending or is_asked(run.mark, run.token):
        return False
    return run.mark is None or run.mark.times < MOST_TIMES


def _is_leaving(run: Seated, now: datetime) -> bool:
    if run.is_ending:
        return True
    return run.mark is not None and run.mark.token == run.token and now - run.mark.at < PATIENCE


def _make_victim(run: Seated, waiter: KeptWaiting, now: datetime) -> Victim:
    times = 1 if run.mark is None else run.mark.times + 1
    mark = PreemptionMark(token=run.token, at=now, by=waiter.words, times=times)
    return Victim(run_id=run.run_id, token=run.token, mark=mark, old=run.mark)


def count_slots(sizes: Mapping[Hashable, tuple[int, int]]) -> int:
    """Return how many slots batches take: for each call's runs, how many there are, and how many a call may have."""
    return sum(-(-count // size) for count, size in sizes.values())


def next_look(periods: Mapping[str, timedelta]) -> float:
    """Return the seconds until the next look at queues whose work may wait so long."""
    return max(0.1, min(1.0, min(period.total_seconds() for period in periods.values()) / 2))
