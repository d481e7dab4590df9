"""Counts the fires of jobs that have a maximum of them (`max_fires`, ADR 0059). Others have no count: it is None.

A fire counts when it is decided that it is to run. So a range of fires that are caught up later counts when it is made,
and what a pause leaves out of it is put on record then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby, islice

from mainspring.core.calendars.joined import has_no_rule
from mainspring.core.calendars.preview import Preview
from mainspring.core.model import FireRangeKind, JobSpec
from mainspring.core.planning import Plan, PlannedRange, walk_missed
from mainspring.core.triggers import Trigger

_TICK = timedelta(microseconds=1)


def keeps_count(old: JobSpec, new: JobSpec) -> bool:
    """Say whether an edit lets the count go on: it changes neither the trigger nor the maximum."""
    return new.trigger == old.trigger and new.max_fires == old.max_fires


def take_left(
    fires: Sequence[Preview],
    trigger: Trigger | None,
    fires_left: int | None,
    *,
    now: datetime,
    after: datetime,
) -> list[Preview]:
    """Return the first fires of a preview, up to the last one that is left. Those that are left out do not count.

    Args:
        trigger: the job's, with its calendars.
        after: where the preview starts. If that is to come, the fires before it use up some.
    """
    if not fires or fires_left is None or trigger is None:
        return list(fires)
    if not has_no_rule(trigger):
        fires_left -= sum(1 for _ in islice(walk_missed(trigger, now + _TICK, after, None), fires_left))
    taken: list[Preview] = []
    for fire in fires:
        if not fires_left:
            break
        taken.append(fire)
        fires_left -= fire.excluded_by is None and fire.skipped_by is None
    return taken


def limit_plan(
    plan: Plan, trigger: Trigger, fires_left: int, *, why: Callable[[datetime], str | None]
) -> tuple[Plan, int]:
    """Cut a plan to the fires that are left, and return it with how many are left then.

    If none are, the clock has no next fire, and what would come after the last one is owed no longer.

    Args:
        trigger: the job's, with its calendars.
        fires_left: at least 1, because the clock of a finished job stands nowhere.
        why: says why a pause or a blackout leaves a fire out; None if it does not.
    """
    plan = _leave_out(plan, trigger, fires_left, why)
    ranges, left = limit_ranges(trigger, plan.ranges, fires_left)
    left -= sum(why(fire_at) is None for fire_at in plan.fires)
    if left:
        return plan, left
    through = plan.fired_through if plan.fires else ranges[-1].to_at
    return replace(plan, ranges=ranges, fired_through=through, next_fire_at=None), 0


def _leave_out(plan: Plan, trigger: Trigger, fires_left: int, why: Callable[[datetime], str | None]) -> Plan:
    """Take the fires that a pause leaves out from those that are caught up, and put them on record as left out.

    They do not count, so it must not be decided anew when their turn would come: the pause may be lifted by then.
    """
    ranges: list[PlannedRange] = []
    skips = list(plan.skips)
    for one in plan.ranges:
        if one.kind is not FireRangeKind.CATCH_UP or not fires_left:
            ranges.append(one)
            continue
        for reason, alike in groupby(walk_missed(trigger, one.from_at, one.to_at, None), key=why):
            first = last = next(alike)
            count = 1
            for fire_at in islice(alike, fires_left - 1 if reason is None else None):
                last, count = fire_at, count + 1
            if reason is None:
                fires_left -= count
                ranges.append(replace(one, from_at=first, to_at=last))
                if not fires_left:
                    break
            elif count == 1:
                skips.append((first, reason))
            else:
                ranges.append(PlannedRange(FireRangeKind.GAP, first, last, reason))
    return replace(plan, ranges=tuple(ranges), skips=tuple(sorted(skips)))


def limit_ranges(
    trigger: Trigger,
    ranges: Iterable[PlannedRange],
    fires_left: int,
) -> tuple[tuple[PlannedRange, ...], int]:
    """Cut the ranges of fires that are to be caught up, and return them with how many fires are left then.

    Args:
        ranges: in the order of their fires.
    """
    kept: list[PlannedRange] = []
    for one in ranges:
        if not fires_left:
            break
        if one.kind is not FireRangeKind.CATCH_UP:
            kept.append(one)
            continue
        counted = list(islice(walk_missed(trigger, one.from_at, one.to_at, None), fires_left))
        fires_left -= len(counted)
        kept.append(one if fires_left else replace(one, to_at=counted[-1]))
    return tuple(kept), fires_left


def settle_count(
    trigger: Trigger | None, owed: tuple[PlannedRange, ...], fires_left: int | None
) -> tuple[tuple[PlannedRange, ...], int | None]:
    """Do the same for what a change of a job settles, where there may be no trigger, or no maximum."""
    if trigger is None or fires_left is None:
        return owed, fires_left
    return limit_ranges(trigger, owed, fires_left)
