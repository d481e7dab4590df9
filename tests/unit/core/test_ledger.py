from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.clocks import NextFire
from mainspring.core.ids import FireRangeId, JobId
from mainspring.core.ledger import Balance, Balancing, balance_fires
from mainspring.core.model import FireRange, FireRangeKind, JobSpec, Misfire, MisfireRule, Target
from mainspring.core.planning import plan_fires
from mainspring.core.triggers import Interval
from mainspring.testing.factories import START, at

JOB = JobId(UUID(int=1))
MINUTES = Interval(timedelta(minutes=1), START)


def make_fire_range(
    kind: FireRangeKind, from_at: datetime, to_at: datetime | None, cursor_at: datetime | None = None
) -> FireRange:
    return FireRange(
        id=FireRangeId(1),
        job_id=JOB,
        tenant="default",
        version=1,
        kind=kind,
        from_at=from_at,
        to_at=to_at,
        cursor_at=cursor_at,
        reason="misfire",
        is_open=True,
        created_at=START,
    )


def minutes(*numbers: int) -> tuple[datetime, ...]:
    return tuple(at(60 * number) for number in numbers)


def balance(
    recorded: tuple[datetime, ...], *fire_ranges: FireRange, first: int = 1, last: int = 5
) -> Balance:
    return balance_fires(MINUTES, *minutes(first, last), recorded=recorded, fire_ranges=fire_ranges)


def test_even_when_every_fire_has_its_record() -> None:
    result = balance(minutes(3, 1, 2, 5, 4))
    assert result == Balance(5, (), ())
    assert result.is_even


def test_fire_without_a_record_is_missing() -> None:
    result = balance(minutes(1, 2, 4))
    assert result == Balance(5, minutes(3, 5), ())
    assert not result.is_even


def test_second_record_and_stray_record_are_surplus() -> None:
    assert balance((*minutes(1, 2, 2, 3, 4, 5), at(61))).surplus == (at(61), at(120))
    assert not balance(minutes(1, 1, 2, 3, 4, 5)).is_even


def test_records_outside_the_period_are_of_no_account() -> None:
    assert balance(minutes(0, 1, 2, 3, 4, 5, 6)).is_even


GAP, CATCH_UP, BACKFILL = FireRangeKind.GAP, FireRangeKind.CATCH_UP, FireRangeKind.BACKFILL


@pytest.mark.parametrize(
    ("kind", "ends", "missing"),
    [
        (GAP, minutes(2, 4), (1, 5)),
        (CATCH_UP, minutes(2, 4), (1, 5)),  # not begun
        (CATCH_UP, minutes(2, 4, 3), (1, 2, 3, 5)),  # those up to the cursor must have runs
        (CATCH_UP, minutes(2, 4, 4), (1, 2, 3, 4, 5)),
        (BACKFILL, minutes(1, 5), (1, 2, 3, 4, 5)),
    ],
)
def test_fire_ranges_stand_for_their_fires(
    kind: FireRangeKind, ends: tuple[Any, ...], missing: tuple[int, ...]
) -> None:
    assert balance((), make_fire_range(kind, *ends)).missing == minutes(*missing)


def test_gap_stands_for_its_fires_after_it_was_closed() -> None:
    closed = replace(make_fire_range(GAP, *minutes(2, 4)), is_open=False)
    assert balance((), closed).missing == minutes(1, 5)


def test_catch_up_that_ended_stands_for_nothing_that_it_left() -> None:
    ended = replace(make_fire_range(CATCH_UP, *minutes(2, 4, 3)), is_open=False)
    assert balance(minutes(1, 2, 3, 5), ended).missing == minutes(4)
    drained = replace(ended, cursor_at=at(240))
    assert balance(minutes(1, 2, 3, 4, 5), drained).is_even


def test_open_gap_lasts() -> None:
    assert balance(minutes(1), make_fire_range(GAP, at(120), None)).is_even


@given(
    st.lists(st.integers(0, 600), max_size=8),
    st.sampled_from(Misfire),
    st.integers(0, 20),
    st.sampled_from([0, 1, 5, 1000]),
)
def test_what_the_planner_does_is_even_at_any_time(
    delays: list[int], policy: Misfire, caught_up: int, max_count: int
) -> None:
    """And without any one of its records it is not."""
    rule = MisfireRule(policy=policy, max_count=max_count)
    spec = JobSpec(name="job", target=Target("shell"), trigger=MINUTES, misfire=rule)
    clock, now = MINUTES.next_after(START), START
    recorded: list[datetime] = []
    fire_ranges: list[FireRange] = []
    for delay in delays:
        now += timedelta(seconds=delay)
        while (
            clock is not None and (plan := plan_fires(spec, JOB, NextFire(clock, clock), now=now)) is not None
        ):
            recorded += [*plan.fires, *(instant for instant, _ in plan.skips)]
            fire_ranges += (
                make_fire_range(planned.kind, planned.from_at, planned.to_at) for planned in plan.ranges
            )
            clock = plan.next_fire_at
    drained = [drain(fire_range, caught_up) for fire_range in fire_ranges]
    recorded += (instant for _, fires in drained for instant in fires)
    fire_ranges = [fire_range for fire_range, _ in drained]
    assert balance_fires(MINUTES, START, now, recorded=recorded, fire_ranges=fire_ranges).is_even
    for number, lost in enumerate(recorded):
        rest = recorded[:number] + recorded[number + 1 :]
        assert balance_fires(MINUTES, START, now, recorded=rest, fire_ranges=fire_ranges).missing == (lost,)


def drain(fire_range: FireRange, number: int) -> tuple[FireRange, list[datetime]]:
    """Make so many of a catch-up's fires."""
    fires: list[datetime] = []
    instant = fire_range.from_at
    while (
        fire_range.kind is CATCH_UP
        and fire_range.to_at is not None
        and instant <= fire_range.to_at
        and len(fires) < number
    ):
        fires.append(instant)
        instant += MINUTES.every
    cursor_at = fires[-1] if fires else None
    return make_fire_range(fire_range.kind, fire_range.from_at, fire_range.to_at, cursor_at), fires


@given(
    lost=st.sets(st.integers(0, 20), max_size=5),
    extra=st.sets(st.integers(0, 1200), max_size=5),
    together=st.integers(1, 25),
)
def test_steps_of_any_size_come_to_the_same(lost: set[int], extra: set[int], together: int) -> None:
    recorded = [START + timedelta(minutes=minute) for minute in range(21) if minute not in lost]
    recorded += [START + timedelta(seconds=second) for second in extra]
    bounds = START, START + timedelta(minutes=20)
    balancing = Balancing(MINUTES, *bounds, recorded=recorded)
    steps = 1
    while balancing.step(together):
        steps += 1
    assert balancing.balance() == balance_fires(MINUTES, *bounds, recorded=recorded)
    assert steps == balancing.balance().expected // together + 1
