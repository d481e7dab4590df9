"""Planning accounts for every fire time: a brute-force model, and a simulated clock row under outages."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.core.clocks import NextFire
from mainspring.core.cron import Cron
from mainspring.core.model import FireRangeKind, JobSpec, Misfire, MisfireRule, Target
from mainspring.core.planning import (
    REASON_MISFIRE,
    REASON_MISFIRE_LIMIT,
    Plan,
    PlannedRange,
    first_fire_at,
    jittered,
    next_fire,
    overdue_range,
    plan_fires,
    settle_overdue,
    walk_range,
)
from mainspring.core.triggers import Interval, Once, Trigger
from mainspring.testing.factories import START, IdSequence, at

TICK = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
JOB = IdSequence(7).new_job_id()
SPRING = datetime(2026, 3, 28, 12, tzinfo=UTC)  # the day before Berlin's clocks change
AUTUMN = datetime(2026, 10, 24, 12, tzinfo=UTC)

# trigger, where the simulation starts, and the step by which time goes on
SETTINGS: list[tuple[Trigger, datetime, timedelta]] = [
    (Once(at(100)), START, timedelta(seconds=7)),
    (Interval(SECOND, START), START, SECOND),
    (Interval(timedelta(seconds=37, microseconds=5), START - DAY), START, timedelta(seconds=11)),
    (Interval(DAY, START + 3 * DAY), START, timedelta(hours=5)),
    (Cron("*/5 * * * * *"), START, timedelta(seconds=3)),
    (Cron("* * * * *"), START, timedelta(seconds=23)),
    (Cron("*/30 * * * *", tz="Europe/Berlin"), SPRING, timedelta(minutes=17)),
    (Cron("30 2 * * *", tz="Europe/Berlin"), SPRING, timedelta(hours=7)),
    (Cron("15 2 * * *", tz="Europe/Berlin", dst="skip/both"), AUTUMN, timedelta(hours=3)),
    (Cron("0 */2 * * *", tz="Europe/Berlin"), AUTUMN, timedelta(minutes=50)),
]

rules = st.builds(
    MisfireRule,
    policy=st.sampled_from(Misfire),
    grace=st.sampled_from([timedelta(0), SECOND, timedelta(seconds=10), MINUTE, timedelta(hours=1), DAY]),
    max_count=st.sampled_from([0, 1, 2, 3, 17, 1000]),
    max_age=st.sampled_from([timedelta(0), timedelta(seconds=30), timedelta(minutes=5), DAY, 7 * DAY]),
)
steps = st.one_of(st.integers(0, 3), st.integers(0, 30), st.integers(0, 300))


jitters = st.sampled_from([timedelta(0), TICK, timedelta(seconds=5), timedelta(minutes=2), DAY])


def make_job(
    trigger: Trigger | None, rule: MisfireRule | None = None, jitter: timedelta = timedelta(0)
) -> JobSpec:
    return JobSpec(
        name="job", target=Target("shell"), trigger=trigger, misfire=rule or MisfireRule(), jitter=jitter
    )


def plan_at(spec: JobSpec, fire_at: datetime, *, now: datetime) -> Plan | None:
    """Plan the next step of a clock that stands at this fire time."""
    clock = next_fire(spec, JOB, fire_at)
    return plan_fires(spec, JOB, clock, now=now) if clock is not None else None


def due_at(spec: JobSpec, fire_at: datetime) -> datetime:
    """Say when a fire is to be committed: when its run starts, or when the next one's time comes."""
    assert spec.trigger is not None
    following = spec.trigger.next_after(fire_at)
    start = jittered(JOB, fire_at, spec.jitter)
    return start if following is None or start < following else following


def fires_of(trigger: Trigger, start: datetime, through: datetime) -> list[datetime]:
    """Walk the trigger from (not including) `start` to `through`."""
    found = []
    instant = trigger.next_after(start)
    while instant is not None and instant <= through:
        found.append(instant)
        instant = trigger.next_after(instant)
    return found


def expand(trigger: Trigger, planned: PlannedRange) -> list[datetime]:
    return list(walk_range(trigger, planned.from_at, planned.to_at, None))


@dataclass
class Account:
    """What one plan makes of each fire time."""

    made: list[datetime] = field(default_factory=list)
    caught_up: list[datetime] = field(default_factory=list)
    left_out: list[tuple[datetime, str]] = field(default_factory=list)

    @classmethod
    def of(cls, trigger: Trigger, plan: Plan) -> "Account":
        account = cls(list(plan.fires), [], list(plan.skips))
        for planned in plan.ranges:
            if planned.kind is FireRangeKind.GAP:
                account.left_out += ((instant, planned.reason) for instant in expand(trigger, planned))
            else:
                account.caught_up += expand(trigger, planned)
        return account

    def instants(self) -> list[datetime]:
        return sorted(self.made + self.caught_up + [instant for instant, _ in self.left_out])


def model(spec: JobSpec, due: list[datetime], now: datetime) -> Account:
    """Say by brute force what the first plan must make of the fire times that have come."""
    rule = spec.misfire
    missed = [instant for instant in due if due_at(spec, instant) < now - rule.grace]
    if not missed:
        return Account(made=due[:1])
    if rule.policy is Misfire.FIRE_LATEST:
        return Account(made=due[-1:], left_out=[(instant, REASON_MISFIRE) for instant in due[:-1]])
    if rule.policy is Misfire.SKIP:
        return Account(left_out=[(instant, REASON_MISFIRE) for instant in missed])
    young = [instant for instant in missed if instant >= now - rule.max_age]
    kept = young[-rule.max_count :] if rule.max_count else []
    dropped = missed[: len(missed) - len(kept)]
    return Account(caught_up=kept, left_out=[(instant, REASON_MISFIRE_LIMIT) for instant in dropped])


@settings(max_examples=400)
@given(st.sampled_from(SETTINGS), rules, jitters, st.lists(steps, min_size=1, max_size=12))
def test_every_fire_time_is_accounted_for_exactly_once(
    setting: tuple[Trigger, datetime, timedelta], rule: MisfireRule, jitter: timedelta, delays: list[int]
) -> None:
    trigger, now, step = setting
    start = now
    spec = make_job(trigger, rule, jitter)
    clock, fired_through = trigger.next_after(now), datetime.min.replace(tzinfo=UTC)
    recorded: list[datetime] = []
    for delay in delays:
        now += delay * step
        while clock is not None and (plan := plan_at(spec, clock, now=now)) is not None:
            account = Account.of(trigger, plan)
            assert due_at(spec, clock) <= now
            assert account == model(spec, fires_of(trigger, clock - TICK, now), now)
            assert clock > fired_through  # or the conditional update would refuse it
            assert plan.fired_through == account.instants()[-1]
            assert plan.next_fire_at is None or plan.next_fire_at > plan.fired_through
            recorded += account.instants()
            clock, fired_through = plan.next_fire_at, plan.fired_through
        assert clock is None or due_at(spec, clock) > now
    come = fires_of(trigger, start, now)
    # Only the jitter of the newest can hold it back.
    assert recorded == come or (recorded == come[:-1] and due_at(spec, come[-1]) > now)


@given(st.sampled_from(SETTINGS), rules, st.lists(st.tuples(steps, st.integers(0, 3)), max_size=8))
def test_slow_planner_that_plans_a_few_at_a_time_loses_nothing(
    setting: tuple[Trigger, datetime, timedelta], rule: MisfireRule, turns: list[tuple[int, int]]
) -> None:
    trigger, start, step = setting
    now, clock = start, trigger.next_after(start)
    recorded: list[datetime] = []
    for delay, plans in turns:
        now += delay * step
        for _ in range(plans):
            plan = plan_at(make_job(trigger, rule), clock, now=now) if clock is not None else None
            if plan is None:
                break
            recorded += Account.of(trigger, plan).instants()
            clock = plan.next_fire_at
    expected = fires_of(trigger, start, now)
    assert recorded == expected[: len(recorded)]
    if len(recorded) < len(expected):
        assert clock == expected[len(recorded)]


@pytest.mark.parametrize("policy", list(Misfire))
@pytest.mark.parametrize(
    ("late", "is_misfire"), [(0.0, False), (59.999999, False), (60.0, False), (60.000001, True)]
)
def test_grace_includes_its_end(policy: Misfire, late: float, is_misfire: bool) -> None:
    plan = plan_at(make_job(Once(START), MisfireRule(policy=policy)), START, now=at(late))
    assert plan is not None
    assert plan.next_fire_at is None
    made_on_time = Plan((START,), START, None)
    made_late = {
        Misfire.SKIP: Plan((), START, None, skips=((START, REASON_MISFIRE),)),
        Misfire.FIRE_LATEST: made_on_time,
        Misfire.FIRE_ALL: Plan(
            (), START, None, ranges=(PlannedRange(FireRangeKind.CATCH_UP, START, START, REASON_MISFIRE),)
        ),
    }
    assert plan == (made_late[policy] if is_misfire else made_on_time)


def test_fire_that_is_ahead_is_not_planned() -> None:
    assert plan_at(make_job(Once(at(1))), at(1), now=START) is None
    assert plan_at(make_job(None), START, now=at(1)) is None


def test_fire_at_the_very_instant_is_planned() -> None:
    assert plan_at(make_job(Once(START)), START, now=START) == Plan((START,), START, None)


def test_fire_latest_after_an_outage_makes_one_run_even_of_fires_within_the_grace() -> None:
    plan = plan_at(make_job(Interval(10 * SECOND, START)), at(10), now=at(125))
    gap = PlannedRange(FireRangeKind.GAP, at(10), at(110), REASON_MISFIRE)
    assert plan == Plan((at(120),), at(120), at(130), ranges=(gap,))


def test_fire_latest_of_two_records_the_other_as_a_single_skip() -> None:
    plan = plan_at(make_job(Interval(MINUTE, START)), at(60), now=at(121))
    assert plan == Plan((at(120),), at(120), at(180), skips=((at(60), REASON_MISFIRE),))


def test_skip_after_an_outage_goes_on_with_the_first_fire_within_the_grace() -> None:
    spec = make_job(Interval(10 * SECOND, START), MisfireRule(policy=Misfire.SKIP))
    plan = plan_at(spec, at(10), now=at(125))
    gap = PlannedRange(FireRangeKind.GAP, at(10), at(60), REASON_MISFIRE)
    assert plan == Plan((), at(60), at(70), ranges=(gap,))


def test_fire_all_keeps_the_newest_and_records_the_rest() -> None:
    spec = make_job(Interval(MINUTE, START), MisfireRule(policy=Misfire.FIRE_ALL, max_count=3))
    plan = plan_at(spec, at(60), now=at(661))
    assert plan is not None
    assert plan.ranges == (
        PlannedRange(FireRangeKind.GAP, at(60), at(420), REASON_MISFIRE_LIMIT),
        PlannedRange(FireRangeKind.CATCH_UP, at(480), at(600), REASON_MISFIRE),
    )
    assert (plan.fires, plan.next_fire_at) == ((), at(660))


def test_fire_all_age_includes_its_end() -> None:
    rule = MisfireRule(policy=Misfire.FIRE_ALL, max_age=timedelta(minutes=5))
    spec = make_job(Interval(MINUTE, START), rule)
    plan = plan_at(spec, at(60), now=at(600))
    assert plan is not None
    assert plan.ranges[1].from_at == at(300)


def test_plan_after_a_year_of_seconds_takes_few_steps() -> None:
    trigger = CountingTrigger(Interval(SECOND, START))
    for policy in Misfire:
        spec = make_job(trigger, MisfireRule(policy=policy, max_count=100))
        assert plan_at(spec, at(1), now=START + 365 * DAY) is not None
    assert trigger.calls < 120


class CountingTrigger:
    def __init__(self, trigger: Trigger) -> None:
        self.trigger = trigger
        self.calls = 0

    def next_after(self, instant: datetime) -> datetime | None:
        self.calls += 1
        return self.trigger.next_after(instant)

    def previous_before(self, instant: datetime) -> datetime | None:
        self.calls += 1
        return self.trigger.previous_before(instant)


# -- ranges -------------------------------------------------------------------------------------------------


@given(st.sampled_from(SETTINGS), st.integers(1, 300), st.lists(st.integers(1, 9), max_size=60))
def test_walk_goes_on_from_its_cursor_as_if_never_interrupted(
    setting: tuple[Trigger, datetime, timedelta], length: int, chunks: list[int]
) -> None:
    trigger, start, step = setting
    end = start + length * step
    whole = fires_of(trigger, start - TICK, end)
    walked: list[datetime] = []
    cursor: datetime | None = None
    for chunk in chunks:
        walked += islice(walk_range(trigger, start, end, cursor), chunk)
        cursor = walked[-1] if walked else None
    walked += walk_range(trigger, start, end, cursor)
    assert walked == whole


def test_walk_includes_both_ends() -> None:
    trigger = Interval(MINUTE, START)
    assert list(walk_range(trigger, at(60), at(180), None)) == [at(60), at(120), at(180)]
    assert list(walk_range(trigger, at(60), at(180), at(180))) == []


def test_walk_is_lazy() -> None:
    walk: Iterator[datetime] = walk_range(Interval(TICK, START), START, START + 365 * DAY, None)
    assert next(walk) == START + TICK


@given(st.sampled_from(SETTINGS), st.integers(0, 300))
def test_overdue_range_holds_all_that_is_due(
    setting: tuple[Trigger, datetime, timedelta], length: int
) -> None:
    trigger, start, step = setting
    now = start + length * step
    planned = overdue_range(
        trigger, trigger.next_after(start), now=now, kind=FireRangeKind.GAP, reason="deleted"
    )
    due = fires_of(trigger, start, now)
    assert (expand(trigger, planned) if planned is not None else []) == due
    assert planned is None or (planned.from_at, planned.to_at) == (due[0], due[-1])


def test_ranges_end_where_they_say_to_the_microsecond() -> None:
    trigger = Interval(TICK, START)
    planned = overdue_range(
        trigger, START + TICK, now=START + 5 * TICK, kind=FireRangeKind.GAP, reason="deleted"
    )
    assert planned is not None
    assert (planned.from_at, planned.to_at) == (START + TICK, START + 5 * TICK)
    walked = list(walk_range(trigger, START + 2 * TICK, START + 4 * TICK, None))
    assert walked == [START + number * TICK for number in (2, 3, 4)]
    assert list(walk_range(trigger, START + 2 * TICK, START + 4 * TICK, START + 3 * TICK)) == walked[2:]


def test_overdue_range_of_nothing() -> None:
    assert overdue_range(None, START, now=at(9), kind=FireRangeKind.GAP, reason="deleted") is None
    assert overdue_range(Once(START), None, now=at(9), kind=FireRangeKind.GAP, reason="deleted") is None
    assert overdue_range(Once(at(10)), at(10), now=at(9), kind=FireRangeKind.GAP, reason="deleted") is None


@given(st.sampled_from(SETTINGS), rules, jitters, st.integers(0, 300))
def test_settling_an_edit_makes_what_the_policy_would_have_made(
    setting: tuple[Trigger, datetime, timedelta], rule: MisfireRule, jitter: timedelta, length: int
) -> None:
    trigger, start, step = setting
    spec, now = make_job(trigger, rule, jitter), start + length * step
    clock = trigger.next_after(start)
    made: list[datetime] = []
    while clock is not None and (plan := plan_at(spec, clock, now=now)) is not None:
        account = Account.of(trigger, plan)
        made += account.caught_up + account.made
        clock = plan.next_fire_at
    if clock is not None and clock <= now:  # held back by its jitter: it is made, too
        made.append(clock)
    ranges = settle_overdue(spec, JOB, trigger.next_after(start), now=now, reason="edited")
    expanded = [instant for planned in ranges for instant in expand(trigger, planned)]
    assert expanded == fires_of(trigger, start, now)
    caught_up = [planned for planned in ranges if planned.kind is FireRangeKind.CATCH_UP]
    assert [instant for planned in caught_up for instant in expand(trigger, planned)] == made


def test_settling_of_what_is_not_due_leaves_nothing() -> None:
    spec = make_job(Interval(MINUTE, START))
    assert settle_overdue(spec, JOB, None, now=at(9), reason="edited") == ()
    assert settle_overdue(spec, JOB, at(60), now=at(59), reason="edited") == ()
    assert settle_overdue(make_job(None), JOB, at(60), now=at(99), reason="edited") == ()


def test_settling_gives_the_edits_reason_to_what_was_not_late() -> None:
    spec = make_job(Interval(MINUTE, START), MisfireRule(policy=Misfire.FIRE_ALL, grace=MINUTE))

    def caught_up(first: float, last: float, reason: str) -> PlannedRange:
        return PlannedRange(FireRangeKind.CATCH_UP, at(first), at(last), reason)

    on_time = settle_overdue(spec, JOB, at(60), now=at(120), reason="edited")
    assert on_time == (caught_up(60, 120, "edited"),)
    late = settle_overdue(spec, JOB, at(60), now=at(121), reason="edited")
    assert late == (caught_up(60, 60, REASON_MISFIRE), caught_up(120, 120, "edited"))


def test_fire_all_leaves_no_gap_before_the_clock() -> None:
    spec = make_job(Interval(MINUTE, START), MisfireRule(policy=Misfire.FIRE_ALL))
    plan = plan_at(spec, at(300), now=at(421))
    assert plan is not None
    assert plan.ranges == (PlannedRange(FireRangeKind.CATCH_UP, at(300), at(360), REASON_MISFIRE),)


def test_words_for_what_was_left_out_stay_as_the_history_keeps_them() -> None:
    assert (REASON_MISFIRE, REASON_MISFIRE_LIMIT) == ("misfire", "misfire_limit")


# -- the first instant of a clock ----------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [-86_400.0, -0.001, 0.0, 0.001, 86_400.0])
def test_single_instant_is_owed_however_late_it_arrives(offset: float) -> None:
    assert first_fire_at(Once(at(offset)), now=START) == at(offset)


def test_single_instant_that_was_fired_is_not_owed_again() -> None:
    assert first_fire_at(Once(START), now=at(9), fired_through=START) is None
    assert first_fire_at(Once(at(1)), now=at(9), fired_through=START) == at(1)


def test_first_fire_of_a_rule_lies_ahead_of_now_and_of_what_was_fired() -> None:
    trigger = Interval(MINUTE, START)
    assert first_fire_at(trigger, now=at(60)) == at(120)
    assert first_fire_at(trigger, now=at(60), fired_through=at(0)) == at(120)
    assert first_fire_at(trigger, now=at(60), fired_through=at(180)) == at(
        240
    )  # the store's clock was set back
    assert first_fire_at(None, now=START) is None


def test_fire_that_its_jitter_holds_back_is_neither_early_nor_a_misfire() -> None:
    rule = MisfireRule(policy=Misfire.SKIP, grace=timedelta(0))
    spec = make_job(Interval(10 * MINUTE, START), rule, 5 * MINUTE)
    due = due_at(spec, at(600))
    assert at(600) < due < at(900)
    assert plan_at(spec, at(600), now=due - TICK) is None
    assert plan_at(spec, at(600), now=due) == Plan((at(600),), at(600), at(1200))
    assert plan_at(spec, at(600), now=due + TICK) == Plan(
        (), at(600), at(1200), skips=((at(600), REASON_MISFIRE),)
    )


def test_fires_whose_jitter_is_longer_than_their_period_are_committed_when_the_next_one_comes() -> None:
    """They are made one after the other, so a clock that waited for each jittered instant would fall behind."""
    spec = make_job(Interval(SECOND, START), jitter=timedelta(minutes=1))
    clock = next_fire(spec, JOB, at(1))
    assert clock == NextFire(at(1), min(at(2), jittered(JOB, at(1), spec.jitter)))


def test_clock_without_a_next_fire_or_a_trigger_stands_nowhere() -> None:
    assert next_fire(make_job(Once(START)), JOB, None) is None
    assert next_fire(make_job(None), JOB, START) is None
