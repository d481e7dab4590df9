"""Plans a due clock row: fires, misfires, jitter, fire ranges (design 5, rule V 10).

Every decision here uses only facts and `now`, so every node plans the same. The conditional update of the clock row
decides which plan wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from hashlib import blake2b

from mainspring.core.calendars.joined import clock_trigger, has_no_rule, own_trigger
from mainspring.core.calendars.resolved import HORIZON
from mainspring.core.calendars.rolling import RolledTrigger
from mainspring.core.calendars.sieve import SievedTrigger
from mainspring.core.clocks import NextFire
from mainspring.core.ends import after_end_of, first_of_all
from mainspring.core.ids import JobId
from mainspring.core.model import FireRangeKind, JobSpec, Misfire
from mainspring.core.triggers import EPOCH, Once, Trigger, UnknownTrigger
from mainspring.core.values import value

_TICK = timedelta(microseconds=1)
REASON_MISFIRE = "misfire"
REASON_MISFIRE_LIMIT = "misfire_limit"
REASON_UNKNOWN_TRIGGER = "unknown_trigger"
REASON_CALENDAR = "calendar"
"""Of a single fire that a calendar kept out; that of several names the calendar and its version, too."""


@value()
class PlannedRange:
    """Every fire time t with `from_at <= t <= to_at`, to be kept as one fire range."""

    kind: FireRangeKind
    from_at: datetime
    to_at: datetime
    reason: str


@value()
class Plan:
    """One step of a job's clock.

    Attributes:
        fires: fire times that become runs now.
        skips: single fire times that become SKIPPED records, with the reason.
        ranges: fire ranges: gaps of more than one fire time, and what is to be caught up.
        fired_through: the newest instant this plan accounts for.
        next_fire_at: the clock's next instant. It may still lie in the past (within the grace), to be planned next.
    """

    fires: tuple[datetime, ...]
    fired_through: datetime
    next_fire_at: datetime | None
    skips: tuple[tuple[datetime, str], ...] = ()
    ranges: tuple[PlannedRange, ...] = ()


def plan_fires(spec: JobSpec, job_id: JobId, clock: NextFire, *, now: datetime) -> Plan | None:
    """Plan the next step of a job's clock. Return None if its fire is not due yet.

    A fire that is overdue by no more than the grace (its end included) fires as if on time. An older one is a
    misfire: the clock jumps past all missed fires in one step, and the fires in between become a record (law 4). With
    `skip` and `fire_all` the fires still within the grace come next, one plan each; `fire_latest` takes them into its
    one run. Fires that the job's calendars keep out are no misfires. They are recorded when the last of them has
    passed.

    Args:
        spec: with the trigger that `with_calendars` made, if the job has calendars.

    Raises:
        UnknownType: this process does not know the trigger's type. Such a job waits for a process that does.
    """
    trigger, fire_at = spec.trigger, clock.fire_at
    if trigger is None or clock.due_at > now:
        return None
    if isinstance(trigger, SievedTrigger) and (label := trigger.sieve.excluded_by(fire_at)) is not None:
        return _leave_out(trigger, fire_at, label, now)
    following = clock_trigger(trigger).next_after
    in_time = now - spec.misfire.grace
    if clock.due_at >= in_time:
        return Plan((fire_at,), fire_at, following(fire_at))
    policy = spec.misfire.policy
    if policy is Misfire.FIRE_LATEST or (policy is Misfire.FIRE_ALL and has_no_rule(trigger)):
        return _fire_latest(trigger, fire_at, now)
    last_missed = _last_through(trigger, fire_at, in_time - _TICK)
    if (
        last_missed > fire_at and _due_at(spec, job_id, last_missed) >= in_time
    ):  # not missed: its jitter is long
        last_missed = _last_through(trigger, fire_at, last_missed - _TICK)
    if spec.misfire.policy is Misfire.SKIP:
        skips, ranges = _left_out(fire_at, last_missed, REASON_MISFIRE)
        return Plan((), last_missed, following(last_missed), skips, ranges)
    return _fire_all(spec, trigger, fire_at, last_missed, now)


def _fire_latest(trigger: Trigger, fire_at: datetime, now: datetime) -> Plan:
    latest = _last_through(trigger, fire_at, now)
    skips: tuple[tuple[datetime, str], ...] = ()
    ranges: tuple[PlannedRange, ...] = ()
    if latest > fire_at:
        before = clock_trigger(trigger).previous_before(latest) or fire_at
        skips, ranges = _left_out(fire_at, max(before, fire_at), REASON_MISFIRE)
    return Plan((latest,), latest, clock_trigger(trigger).next_after(latest), skips, ranges)


def _leave_out(trigger: SievedTrigger, fire_at: datetime, label: str, now: datetime) -> Plan:
    """Record the fires, from one that a calendar keeps out up to the next that gets through, as far as they passed."""
    last = last_excluded(trigger, fire_at)
    if last is None or last > now:
        last = _last_through(trigger.raw, fire_at, now)
    reason = REASON_CALENDAR if last == fire_at else f"{REASON_CALENDAR}:{label}"
    skips, ranges = _left_out(fire_at, last, reason)
    return Plan((), last, trigger.raw.next_after(last), skips, ranges)


def last_excluded(trigger: SievedTrigger, fire_at: datetime) -> datetime | None:
    """Return the last of the fires that calendars keep out in a row, from this one on; None if it never ends."""
    following = trigger.next_after(fire_at)
    if following is None:
        return None if trigger.raw.next_after(fire_at) is not None else fire_at
    before = trigger.raw.previous_before(following)
    return fire_at if before is None else max(before, fire_at)


def _fire_all(
    spec: JobSpec, trigger: Trigger, fire_at: datetime, last_missed: datetime, now: datetime
) -> Plan:
    oldest_allowed = now - spec.misfire.max_age
    first = last_missed
    is_cut = last_missed < oldest_allowed or spec.misfire.max_count < 1
    if not is_cut:
        for _ in range(spec.misfire.max_count - 1):
            before = trigger.previous_before(first)
            if before is None or before < fire_at or before < oldest_allowed:
                break
            first = before
    own = clock_trigger(trigger)
    dropped_through = last_missed if is_cut else own.previous_before(first)
    skips: tuple[tuple[datetime, str], ...] = ()
    ranges: tuple[PlannedRange, ...] = ()
    if dropped_through is not None and dropped_through >= fire_at:
        skips, ranges = _left_out(fire_at, dropped_through, REASON_MISFIRE_LIMIT)
    if not is_cut:
        ranges += (PlannedRange(FireRangeKind.CATCH_UP, first, last_missed, REASON_MISFIRE),)
    return Plan((), last_missed, own.next_after(last_missed), skips, ranges)


def _last_through(trigger: Trigger, fire_at: datetime, through: datetime) -> datetime:
    """Return the last fire time <= `through`, but none before `fire_at`, which is one."""
    last = trigger.previous_before(through + _TICK)
    return fire_at if last is None else max(last, fire_at)


def _left_out(
    from_at: datetime, to_at: datetime, reason: str
) -> tuple[tuple[tuple[datetime, str], ...], tuple[PlannedRange, ...]]:
    """Record fires that produce no run: one as a SKIPPED run, several as one gap."""
    if from_at == to_at:
        return ((from_at, reason),), ()
    return (), (PlannedRange(FireRangeKind.GAP, from_at, to_at, reason),)


def overdue_range(
    trigger: Trigger | None, fire_at: datetime | None, *, now: datetime, kind: FireRangeKind, reason: str
) -> PlannedRange | None:
    """Return the range of fires whose time has come but that are not yet made, for an edit or a delete at `now`."""
    if trigger is None or fire_at is None or fire_at > now:
        return None
    if isinstance(
        trigger, UnknownTrigger
    ):  # only a process that knows the type can tell which instants these are
        return PlannedRange(kind, fire_at, now, reason)
    return PlannedRange(kind, fire_at, _last_through(clock_trigger(trigger), fire_at, now), reason)


def settle_overdue(
    spec: JobSpec, job_id: JobId, fire_at: datetime | None, *, now: datetime, reason: str
) -> tuple[PlannedRange, ...]:
    """Account for every fire of the old definition whose time has come, when an edit at `now` replaces it.

    Fires that the misfire policy would have made are caught up (with the edit's `reason` if the fire was not late).
    That includes one which only its jitter holds back. Fires that it would have dropped become gaps, so an edit does
    not bring them back. If the trigger's type is unknown, this process cannot tell the fires apart, and all of them
    become one gap.
    """
    if isinstance(spec.trigger, UnknownTrigger):
        gap = overdue_range(
            spec.trigger, fire_at, now=now, kind=FireRangeKind.GAP, reason=REASON_UNKNOWN_TRIGGER
        )
        return () if gap is None else (gap,)
    settled, rest = settle_kept_out(spec.trigger, fire_at, now=now)
    clock = next_fire(spec, job_id, rest)
    if clock is None:
        return tuple(settled)
    plan_of_rest = plan_fires(spec, job_id, clock, now=now)
    if plan_of_rest is not None and clock.due_at < now - spec.misfire.grace:
        settled += _settled(plan_of_rest)
        rest = plan_of_rest.next_fire_at
    on_time = overdue_range(spec.trigger, rest, now=now, kind=FireRangeKind.CATCH_UP, reason=reason)
    return (*settled, on_time) if on_time is not None else tuple(settled)


def settle_kept_out(
    trigger: Trigger | None, fire_at: datetime | None, *, now: datetime
) -> tuple[list[PlannedRange], datetime | None]:
    """Account for the fires that calendars keep out, from the next one on up to `now`, when a change comes in between.

    Their record is made with the last of them in a row, which may be to come.

    Returns:
        The gaps, and where the clock stands after them.
    """
    if isinstance(trigger, SievedTrigger) and fire_at is not None and fire_at <= now:
        label = trigger.sieve.excluded_by(fire_at)
        if label is not None:
            plan = _leave_out(trigger, fire_at, label, now)
            return _settled(plan), plan.next_fire_at
    return [], fire_at


def _settled(plan: Plan) -> list[PlannedRange]:
    """Return a plan's fires as ranges: what it left out as gaps, what it made as catch-ups."""
    return [
        *(PlannedRange(FireRangeKind.GAP, at, at, why) for at, why in plan.skips),
        *plan.ranges,
        *(PlannedRange(FireRangeKind.CATCH_UP, at, at, REASON_MISFIRE) for at in plan.fires),
    ]


def first_fire_at(
    trigger: Trigger | None,
    *,
    now: datetime,
    fired_through: datetime | None = None,
    since: datetime | None = None,
) -> datetime | None:
    """Return the first fire time of a new or redefined job.

    A single instant that passed while the request was on its way still fires, but none at or before `since`. Nothing at
    or before `fired_through` can fire again, even if `now` comes from a clock that was set back.
    """
    if trigger is None:
        return None
    if after_end_of(trigger) is not None:
        return first_of_all(trigger, now=now)
    own = own_trigger(trigger)
    if isinstance(own, Once):
        moved = trigger.moved(own.at) if isinstance(trigger, RolledTrigger) else own.at
        bounds = [bound for bound in (fired_through, since) if bound is not None]
        return moved if moved is not None and all(moved > bound for bound in bounds) else None
    return coming_fire_at(trigger, now=now, fired_through=fired_through)


def coming_fire_at(trigger: Trigger, *, now: datetime, fired_through: datetime | None) -> datetime | None:
    """Return the first fire time after `now` at which a clock can stand.

    It is after `fired_through`, too, even if the store's clock was set back: an earlier fire could never be won.
    """
    return clock_trigger(trigger).next_after(now if fired_through is None else max(now, fired_through))


def next_fire(spec: JobSpec, job_id: JobId, fire_at: datetime | None) -> NextFire | None:
    """Return where the clock of a job stands whose next nominal time is `fire_at`; None if there is none.

    Fires that calendars keep out are due together, when the last of them in a row has passed. Where nothing gets
    through as far as is searched, the clock stands still at the first of them: another version of a calendar may let
    fires through again, and then what has passed is recorded.
    """
    trigger = spec.trigger
    if fire_at is None or trigger is None:
        return None
    if isinstance(trigger, SievedTrigger) and trigger.sieve.excluded_by(fire_at) is not None:
        last = last_excluded(trigger, fire_at)
        return NextFire(fire_at, fire_at + HORIZON if last is None else last)
    return NextFire(fire_at, _due_at(spec, job_id, fire_at))


def kept_fire(
    old: JobSpec, new: JobSpec, job_id: JobId, fire_at: datetime | None, *, now: datetime
) -> NextFire | None:
    """Return where a clock stands after an edit at `now` that keeps the next nominal time but may change the jitter.

    A fire that only the old jitter held back, and that the new one does not, is due now and not late.
    """
    before, after = next_fire(old, job_id, fire_at), next_fire(new, job_id, fire_at)
    if before is not None and after is not None and after.due_at < now <= before.due_at:
        return NextFire(after.fire_at, now)
    return after


def _due_at(spec: JobSpec, job_id: JobId, fire_at: datetime) -> datetime:
    """Return when a fire is committed: at its jittered instant, so that a herd is spread for the scheduler, too.

    But no later than the next nominal time. A job whose jitter is longer than its period would fall behind otherwise,
    because its fires are made one after the other; their runs then wait for their instants.
    """
    if not spec.jitter or spec.trigger is None or isinstance(spec.trigger, UnknownTrigger):
        return fire_at
    start = jittered(job_id, fire_at, spec.jitter)
    following = clock_trigger(spec.trigger).next_after(fire_at)
    return start if following is None else min(start, following)


def walk_range(
    trigger: Trigger, from_at: datetime, to_at: datetime, cursor_at: datetime | None
) -> Iterator[datetime]:
    """Yield the fire times of a fire range that lie after its cursor, in order."""
    instant = trigger.next_after(from_at - _TICK if cursor_at is None else cursor_at)
    while instant is not None and instant <= to_at:
        yield instant
        instant = trigger.next_after(instant)


def walk_missed(
    trigger: Trigger, from_at: datetime, to_at: datetime, cursor_at: datetime | None
) -> Iterator[datetime]:
    """Yield the fire times of a catch-up range that lie after its cursor, in order.

    Where no rule gives them, each is made alone, so such a range has one, which is its beginning.
    """
    if has_no_rule(trigger):
        yield from (from_at,) if cursor_at is None else ()
    else:
        yield from walk_range(trigger, from_at, to_at, cursor_at)


def jittered(job_id: JobId, fire_at: datetime, jitter: timedelta) -> datetime:
    """Return when a fire starts: 0 to `jitter` later, by a hash of job and fire time.

    The delay is derived, not random, so that every node plans the same. The fire time itself, which is the key, never
    moves.
    """
    if not jitter:
        return fire_at
    microseconds = (fire_at - EPOCH) // _TICK  # of the instant, however it is written
    digest = blake2b(job_id.bytes + microseconds.to_bytes(8, "big", signed=True), digest_size=8).digest()
    return fire_at + jitter * (int.from_bytes(digest, "big") / 2**64)
