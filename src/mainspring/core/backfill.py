"""Backfills: the fires of a range that is past, each made once, at a bounded rate.

A backfill is cut into sections, one for each version of the job that held in its range. A dry run and the backfill
itself walk the same sections (`walk_section`), so they find the same fires.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice

from mainspring.core.calendars.sieve import SievedTrigger
from mainspring.core.ids import BackfillId, JobId
from mainspring.core.model import FireRange, Priority
from mainspring.core.pacing import Pace
from mainspring.core.planning import walk_range
from mainspring.core.rates import Bucket, Rate
from mainspring.core.states import RunState
from mainspring.core.triggers import EPOCH, CalendarInterval, Interval, Trigger, change_parts
from mainspring.core.values import value
from mainspring.errors import InvalidInput

MOST_FIRES = 1_000_000
"""Fires of one backfill, at most, unless a server says otherwise."""
MOST_FIRST = 10
"""Fires that a dry run shows."""
_TICK = timedelta(microseconds=1)
_PAGE = 1000


class BackfillState(StrEnum):
    """What becomes of a backfill."""

    OPEN = "open"
    PAUSED = "paused"
    DONE = "done"
    CANCELLED = "cancelled"


class BackfillChange(StrEnum):
    """What may be done to a backfill."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"

    @property
    def leads_to(self) -> BackfillState:
        """The state in which it leaves the backfill."""
        return _LEADS_TO[self]


_LEADS_TO = {
    BackfillChange.PAUSE: BackfillState.PAUSED,
    BackfillChange.RESUME: BackfillState.OPEN,
    BackfillChange.CANCEL: BackfillState.CANCELLED,
}
_UNDER_WAY = frozenset({BackfillState.OPEN, BackfillState.PAUSED})
CHANGEABLE = {
    BackfillChange.PAUSE: _UNDER_WAY,
    BackfillChange.RESUME: _UNDER_WAY,
    BackfillChange.CANCEL: frozenset(BackfillState),
}
"""The states in which each change is possible. One that is in the wanted state already stays as it is. A backfill that
has made all its runs can be cancelled, because they may wait."""


class SkipDone(StrEnum):
    """Which fires a backfill leaves out because of the runs that they have already.

    - `succeeded`: those with a run that succeeded, or that is not over yet.
    - `any`: those with any run that was not skipped.
    - `none`: none.
    """

    SUCCEEDED = "succeeded"
    ANY = "any"
    NONE = "none"


class BackfillDefinition(StrEnum):
    """By which definition a fire is made: the one that held at its time, or the newest."""

    THEN = "then"
    NOW = "now"


@value(kw_only=True)
class BackfillOptions:
    """How a backfill is made.

    Attributes:
        rate: how fast its runs are made.
        max_live: how many of its runs may be made and not yet over.
        priority: of its runs, instead of the job's.
        note: what its maker says about it.
    """

    skip_done: SkipDone = SkipDone.SUCCEEDED
    definition: BackfillDefinition = BackfillDefinition.THEN
    rate: Rate
    max_live: int
    priority: Priority = Priority.LOW
    note: str = ""

    @property
    def pace(self) -> Pace:
        """Its pace."""
        return Pace(self.rate, self.max_live)


@value(kw_only=True)
class Backfill:
    """A backfill, and how far it has come.

    Attributes:
        from_at, to_at: its fires are from the first of these on, and before the second.
        fires: how many fires it had when it was made.
        made: runs made.
        skipped: fires left out because they were done.
        live: runs made that are not over.
        cursor_at: the fire time up to which all is made or skipped; None before its first step.
        is_job_paused: its job is paused, so it makes no runs meanwhile.
    """

    id: BackfillId
    job_id: JobId
    tenant: str
    from_at: datetime
    to_at: datetime
    options: BackfillOptions
    state: BackfillState
    fires: int
    made: int
    skipped: int
    live: int
    cursor_at: datetime | None
    created_at: datetime
    closed_at: datetime | None
    is_job_paused: bool

    @property
    def left(self) -> int:
        """How many fires are still to be made or skipped."""
        is_over = self.state in {BackfillState.DONE, BackfillState.CANCELLED}
        return 0 if is_over else max(self.fires - self.made - self.skipped, 0)


@value()
class VersionTime:
    """A version of a job, and when it was stored."""

    version: int
    created_at: datetime


@value()
class Section:
    """The fires t of a backfill, `from_at <= t <= to_at`, that one version of the job makes."""

    version: int
    from_at: datetime
    to_at: datetime


def cut_sections(
    versions: Sequence[VersionTime], from_at: datetime, to_at: datetime, definition: BackfillDefinition
) -> list[Section]:
    """Cut the range `from_at <= t < to_at` where the job's definition changed.

    A version holds after the instant at which it was stored, up to and including that of the next one. The first one
    holds for all the time before it, too: who backfills that time has no other.

    Args:
        versions: in order, at least one.
    """
    last = to_at - _TICK
    if definition is BackfillDefinition.NOW:
        return [Section(versions[-1].version, from_at, last)]
    sections: list[Section] = []
    begins_at = from_at
    for one, following in zip(versions, [*versions[1:], None], strict=True):
        ends_at = last if following is None else min(following.created_at, last)
        if begins_at <= ends_at:
            sections.append(Section(one.version, begins_at, ends_at))
            begins_at = ends_at + _TICK
    return sections


def reach_back(trigger: Trigger) -> Trigger:
    """Return a job's own trigger such that it fires at any past time, even before the job existed.

    Intervals and calendar intervals begin somewhere, at their anchor. The same distances are counted back from there.
    What a window leaves out stays out.
    """
    return change_parts(trigger, _reach_back)


def _reach_back(trigger: Trigger) -> Trigger:
    if isinstance(trigger, CalendarInterval):
        return trigger.reaching_back()
    if not isinstance(trigger, Interval) or trigger.anchor < EPOCH:
        return trigger
    steps = (trigger.anchor - EPOCH) // trigger.every + 1
    return replace(trigger, anchor=trigger.anchor - steps * trigger.every)


def walk_section(section: Section, trigger: Trigger, cursor_at: datetime | None = None) -> Iterator[datetime]:
    """Yield the fires of a section that lie after a cursor, in order.

    Args:
        trigger: that of the section's version, with its calendars, as far back as `reach_back` makes it.
    """
    return walk_range(trigger, section.from_at, section.to_at, cursor_at)


def walk_excluded(section: Section, trigger: Trigger) -> Iterator[datetime]:
    """Yield the fires of a section that its calendars keep out, and do not move, in order."""
    if isinstance(trigger, SievedTrigger):
        for fire in walk_range(trigger.raw, section.from_at, section.to_at, None):
            if trigger.sieve.excluded_by(fire) is not None:
                yield fire


@dataclass(slots=True)
class BackfillPlan:
    """What a backfill would do, added up.

    Attributes:
        fires: how many fires the range has, those done among them.
        done: how many of them are left out as done.
        excluded: how many the job's calendars keep out; they do not count among `fires`.
        versions: how many fires each version has.
        first: the first fires of which runs would be made.
        sections: those that have fires.
    """

    fires: int = 0
    done: int = 0
    excluded: int = 0
    versions: dict[int, int] = field(default_factory=dict)
    first: list[datetime] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)

    def add(self, section: Section, fires: Sequence[datetime], done: Collection[datetime]) -> None:
        """Count some fires of a section."""
        if not fires:
            return
        left = [fire for fire in fires if fire not in done]
        self.fires += len(fires)
        self.done += len(fires) - len(left)
        self.versions[section.version] = self.versions.get(section.version, 0) + len(fires)
        self.first += left[: MOST_FIRST - len(self.first)]
        if not self.sections or self.sections[-1] != section:
            self.sections.append(section)


def plan_backfill(
    sections: Sequence[Section],
    triggers: Mapping[int, Trigger],
    done: Collection[datetime],
    *,
    most: int,
) -> Iterator[BackfillPlan]:
    """Plan a backfill. Yield the plan again and again as it grows, so that others can run; the last one is whole.

    Args:
        triggers: by version, as for `walk_section`. Versions without a trigger are left out.
        done: fires that are left out.
        most: fires that the range may have, at most, those that calendars keep out among them.

    Raises:
        InvalidInput: there are more.
    """
    plan = BackfillPlan()
    for section in sections:
        trigger = triggers.get(section.version)
        if trigger is None:
            continue
        fires = walk_section(section, trigger)
        while page := list(islice(fires, _PAGE)):
            plan.add(section, page, done)
            _check_count(plan, most)
            yield plan
        excluded = walk_excluded(section, trigger)
        while count := sum(1 for _ in islice(excluded, _PAGE)):
            plan.excluded += count
            _check_count(plan, most)
            yield plan
    yield plan


def _check_count(plan: BackfillPlan, most: int) -> None:
    if plan.fires + plan.excluded > most:
        raise InvalidInput(
            "to",
            f"the range has more than {most:,} fires, the most of one backfill; make several of shorter ranges",
        )


def done_states(skip_done: SkipDone) -> frozenset[RunState]:
    """Return the states of runs on account of which a fire is left out."""
    if skip_done is SkipDone.NONE:
        return frozenset()
    kept = (
        {RunState.SKIPPED}
        if skip_done is SkipDone.ANY
        else {RunState.SKIPPED, RunState.FAILED, RunState.CANCELLED}
    )
    return frozenset(set(RunState) - kept)


@value(kw_only=True)
class BackfillWork:
    """An open backfill that is worked on, and the section that is next.

    Attributes:
        section: the fire range of that section.
        is_last: no other section follows.
        level, level_at: the permits of its rate; None: as many as fit.
        live: how many of its runs are not over.
        is_job_busy: the job has a run that is not over, of any kind.
    """

    id: BackfillId
    options: BackfillOptions
    section: FireRange
    is_last: bool
    level: float | None
    level_at: datetime | None
    live: int
    is_job_busy: bool


@value(kw_only=True)
class SectionStep:
    """A step through a section: which fires become runs, how many are skipped, and where the cursor stands then."""

    fires: tuple[datetime, ...]
    skipped: int
    cursor_to: datetime
    is_section_done: bool


def room_of(work: BackfillWork, permits: Bucket, *, is_alone: bool) -> int:
    """Return how many runs a step may make.

    Args:
        permits: those of the rate as they are now.
        is_alone: the job's runs must not overlap, so each waits until the job has none.
    """
    if is_alone:
        return 0 if work.is_job_busy else min(permits.permits, 1)
    return work.options.pace.room(permits, work.live)


def plan_step(
    fires: Sequence[datetime], done: Collection[datetime], room: int, *, ends_at: datetime | None
) -> SectionStep | None:
    """Take as many of the next fires as there is room for; done ones on the way are skipped. None: no step.

    Args:
        fires: the next ones after the cursor, in order.
        ends_at: the section's end, if these are all that it has left.
    """
    taken: list[datetime] = []
    passed = 0
    for fire in fires:
        if fire not in done:
            if len(taken) >= room:
                break
            taken.append(fire)
        passed += 1
    if passed == len(fires) and ends_at is not None:
        return SectionStep(
            fires=tuple(taken), skipped=passed - len(taken), cursor_to=ends_at, is_section_done=True
        )
    if not passed:
        return None
    return SectionStep(
        fires=tuple(taken), skipped=passed - len(taken), cursor_to=fires[passed - 1], is_section_done=False
    )
