"""Who gives up a slot for more urgent work."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.ids import LaneId, RunId, SessionId
from mainspring.core.lane_caps import CapKey, CapScope
from mainspring.core.model import Delivery, LaneKey, Priority
from mainspring.core.preemption import (
    MOST_TIMES,
    PATIENCE,
    KeptWaiting,
    PreemptionMark,
    Seated,
    Seats,
    choose_victims,
    count_slots,
    is_asked,
    load_mark,
    may_be_preempted,
    may_preempt,
    next_look,
    store_mark,
)
from mainspring.core.unmet import NO_RESERVES, ReserveCounts
from mainspring.testing.factories import make_spec

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
HIGH, MEDIUM, LOW = Priority


def make_waiter(
    lane_id: int = 1,
    *,
    tenant: str = "default",
    tier: Priority = HIGH,
    runs: int = 1,
    waited: float = 10.0,
    reserved: int = 0,
    caps: tuple[CapKey, ...] = (),
) -> KeptWaiting:
    lane = LaneKey("mail", "http", tenant, tier)
    since = NOW - timedelta(seconds=waited)
    return KeptWaiting(LaneId(lane_id), lane, runs, since, reserved=reserved, caps=caps)


def make_seated(
    run_id: int,
    *,
    tenant: str = "default",
    tier: Priority = LOW,
    is_preemptible: bool = True,
    is_ending: bool = False,
    age: float = 100.0,
    mark: PreemptionMark | None = None,
) -> Seated:
    return Seated(
        run_id=RunId(run_id),
        token=1,
        tenant=tenant,
        tier=tier,
        is_preemptible=is_preemptible,
        is_ending=is_ending,
        started_at=NOW - timedelta(seconds=age),
        mark=mark,
    )


def make_mark(*, token: int = 1, age: float = 1.0, times: int = 1) -> PreemptionMark:
    return PreemptionMark(token=token, at=NOW - timedelta(seconds=age), by="HIGH work", times=times)


def make_seats(
    *runs: Seated,
    slots: int | None = None,
    taken: int | None = None,
    fits: tuple[int, ...] = (1,),
    is_closed: bool = False,
    session: int = 1,
) -> Seats:
    return Seats(
        session_id=SessionId(session),
        slots=len(runs) if slots is None else slots,
        taken=len(runs) if taken is None else taken,
        fits={LaneId(lane) for lane in fits},
        runs=runs,
        is_closed=is_closed,
    )


def chosen(
    waiters: list[KeptWaiting],
    seats: list[Seats],
    reserves: ReserveCounts = NO_RESERVES,
    room: dict[CapKey, int] | None = None,
) -> dict[int, list[int]]:
    return {
        one.waiter.lane_id: [victim.run_id for victim in one.victims]
        for one in choose_victims(waiters, seats, now=NOW, reserves=reserves, room=room)
    }


def test_the_youngest_of_the_lowest_tier_gives_way() -> None:
    seats = make_seats(
        make_seated(1, age=50),
        make_seated(2, age=10),
        make_seated(3, tier=MEDIUM, age=5),
        make_seated(4, tier=HIGH, age=1),
    )
    assert chosen([make_waiter()], [seats]) == {1: [2]}
    assert chosen([make_waiter(runs=9)], [seats]) == {1: [2, 1, 3]}


def test_only_lower_tiers_give_way() -> None:
    seats = make_seats(make_seated(1), make_seated(2, tier=MEDIUM))
    assert chosen([make_waiter(tier=MEDIUM, runs=2)], [seats]) == {1: [1]}


@pytest.mark.parametrize(
    "run",
    [
        make_seated(1, is_preemptible=False),
        make_seated(1, is_ending=True),
        make_seated(1, mark=make_mark()),
        make_seated(1, mark=make_mark(age=1000)),
        make_seated(1, mark=make_mark(token=0, times=MOST_TIMES)),
    ],
)
def test_a_run_that_may_not_be_asked_keeps_its_slot(run: Seated) -> None:
    assert chosen([make_waiter()], [make_seats(run)]) == {}


def test_a_run_is_asked_again_under_a_later_token() -> None:
    run = make_seated(1, mark=make_mark(token=0, times=MOST_TIMES - 1))
    [one] = choose_victims([make_waiter()], [make_seats(run)], now=NOW)
    [victim] = one.victims
    assert victim.old == run.mark
    assert victim.mark == PreemptionMark(token=1, at=NOW, by="HIGH work of queue mail", times=MOST_TIMES)


@pytest.mark.parametrize(
    ("seats", "is_asked"),
    [
        (make_seats(make_seated(1), slots=2), False),
        (make_seats(make_seated(1), fits=()), False),
        (make_seats(make_seated(1), is_closed=True), False),
        (make_seats(make_seated(1), taken=2), False),
        (make_seats(make_seated(1), make_seated(2, mark=make_mark())), False),
        (make_seats(make_seated(1), make_seated(2, is_ending=True, is_preemptible=False)), False),
        (make_seats(make_seated(1), make_seated(2, mark=make_mark(age=PATIENCE.total_seconds()))), True),
        (make_seats(make_seated(1)), True),
    ],
)
def test_nobody_is_asked_where_that_is_of_no_use(seats: Seats, *, is_asked: bool) -> None:
    """Free slots, slots about to become free, sessions that cannot use one, and askings that nobody heard."""
    assert bool(chosen([make_waiter()], [seats])) is is_asked


def test_free_slots_go_to_the_most_urgent() -> None:
    free = make_seats(make_seated(1), slots=2, fits=(1, 2))
    waiters = [make_waiter(2, tier=MEDIUM, waited=99), make_waiter(1)]
    assert chosen(waiters, [free]) == {2: [1]}


def test_each_run_is_asked_once_for_several_lanes() -> None:
    seats = [make_seats(make_seated(1), fits=(1, 2)), make_seats(make_seated(2), fits=(2,), session=2)]
    assert chosen([make_waiter(1), make_waiter(2)], seats) == {1: [1], 2: [2]}


def promised(lane_id: int = 1, *, tier: Priority = LOW, count: int = 1, runs: int = 0) -> KeptWaiting:
    """What waits of a tenant that is short of reserved slots."""
    return make_waiter(lane_id, tenant="acme", tier=tier, runs=runs, reserved=count)


def reserves_of(**tenants: tuple[int, int]) -> ReserveCounts:
    """How many slots each has, and how many are reserved for it."""
    slots = {name: reserved for name, (_, reserved) in tenants.items()}
    return ReserveCounts(slots, {name: has for name, (has, _) in tenants.items()})


def test_a_reserve_takes_slots_of_its_tier_and_lower_ones() -> None:
    seats = make_seats(
        make_seated(1, age=50),
        make_seated(2, age=10),
        make_seated(3, tier=MEDIUM, age=5),
        make_seated(4, tier=HIGH, age=1),
    )
    reserves = reserves_of(acme=(0, 9))
    assert chosen([promised(count=9)], [seats], reserves) == {1: [2, 1]}
    assert chosen([promised(count=9, tier=MEDIUM)], [seats], reserves) == {1: [2, 1, 3]}


def test_a_reserve_takes_no_more_than_is_missing() -> None:
    seats = [make_seats(*map(make_seated, range(1, 6)), fits=(1, 2))]
    assert chosen([promised(count=4)], seats, reserves_of(acme=(1, 3))) == {1: [5, 4]}
    assert chosen([promised(count=1)], seats, reserves_of(acme=(1, 3))) == {1: [5]}
    assert chosen([promised(count=4)], seats, reserves_of(acme=(3, 3))) == {}
    two = [promised(1, count=1), promised(2, count=4)]
    assert chosen(two, seats, reserves_of(acme=(0, 3))) == {1: [5], 2: [4, 3]}


def test_what_is_not_counted_counts_as_met() -> None:
    reserves = ReserveCounts({"acme": 3, "other": 3})
    seats = [make_seats(make_seated(1, tenant="other"))]
    assert chosen([promised()], seats, reserves) == {}
    assert chosen([make_waiter()], seats, reserves) == {}


def test_a_reserve_takes_nothing_of_its_own_tenant() -> None:
    seats = [make_seats(make_seated(1, tenant="acme"))]
    assert chosen([promised()], seats, reserves_of(acme=(1, 3))) == {}


@pytest.mark.parametrize("waiter", [promised(count=3), make_waiter(runs=3)])
def test_nobody_gives_what_is_reserved_for_it(waiter: KeptWaiting) -> None:
    """The next claim would give it back at once."""
    seats = [make_seats(*(make_seated(number, tenant="other") for number in (1, 2, 3)))]
    assert chosen([waiter], seats, reserves_of(acme=(0, 5), other=(3, 3))) == {}
    assert chosen([waiter], seats, reserves_of(acme=(0, 5), other=(3, 2))) == {1: [3]}
    asked = make_seats(make_seated(4, tenant="other", mark=make_mark()), fits=(2,), session=2)
    assert chosen([waiter], [*seats, asked], reserves_of(acme=(0, 5), other=(4, 3))) == {}


def test_urgent_work_may_take_the_slots_of_its_own_tenant() -> None:
    waiter = make_waiter(tenant="acme")
    assert chosen([waiter], [make_seats(make_seated(1, tenant="acme"))], reserves_of(acme=(1, 3))) == {1: [1]}


def test_free_slots_go_to_reserves_first() -> None:
    seats = [make_seats(make_seated(1, tenant="other"), slots=2, fits=(1, 2))]
    waiters = [promised(1), make_waiter(2)]
    assert chosen(waiters, seats, reserves_of(acme=(0, 1))) == {2: [1]}


def test_a_lane_with_both_causes_seeks_each_slot_once() -> None:
    runs = [make_seated(1, tier=HIGH, tenant="b"), *(make_seated(number, tenant="b") for number in (2, 3, 4))]
    both = promised(tier=HIGH, count=3, runs=3)
    [one] = choose_victims([both], [make_seats(*runs)], now=NOW, reserves=reserves_of(acme=(0, 1)))
    assert [(victim.run_id, victim.mark.by) for victim in one.victims] == [
        (4, "HIGH work of queue mail with reserved slots"),
        (3, "HIGH work of queue mail"),
        (2, "HIGH work of queue mail"),
    ]


def test_no_more_slots_are_sought_than_a_cap_has_room_for() -> None:
    mail, gpu = CapKey(CapScope.QUEUE, "mail"), CapKey(CapScope.LABEL, "gpu")
    seats = [make_seats(*map(make_seated, range(1, 9)), fits=(1, 2, 3))]
    both = [make_waiter(1, runs=3, caps=(mail,)), make_waiter(2, runs=3, caps=(gpu, mail))]
    assert chosen(both, seats, room={mail: 4, gpu: 9}) == {1: [8, 7, 6], 2: [5]}
    assert chosen(both, seats, room={mail: 9, gpu: 0}) == {1: [8, 7, 6]}
    one = promised(3, count=2)._replace(caps=(mail,))
    assert chosen([*both, one], seats, reserves_of(acme=(0, 2)), {mail: 3, gpu: 9}) == {1: [6], 3: [8, 7]}


def test_a_cap_without_a_waiters_lane_that_fits_keeps_its_room() -> None:
    mail = CapKey(CapScope.QUEUE, "mail")
    waiters = [make_waiter(1, caps=(mail,)), make_waiter(2, caps=(mail,))]
    assert chosen(waiters, [make_seats(make_seated(1), fits=(2,))], room={mail: 1}) == {2: [1]}


marks = st.none() | st.builds(
    make_mark, token=st.integers(0, 1), age=st.floats(0, 200), times=st.integers(1, 4)
)


@st.composite
def crowds(draw: st.DrawFn) -> tuple[list[KeptWaiting], list[Seats]]:
    waiters = [
        make_waiter(lane, tier=draw(st.sampled_from([HIGH, MEDIUM])), runs=draw(st.integers(1, 5)))
        for lane in range(1, draw(st.integers(1, 3)) + 1)
    ]
    numbers = iter(range(1, 100))
    seats = []
    for session in range(1, draw(st.integers(1, 3)) + 1):
        runs = [
            make_seated(
                next(numbers),
                tier=draw(st.sampled_from(Priority)),
                is_preemptible=draw(st.booleans()),
                is_ending=draw(st.booleans()),
                age=draw(st.floats(0, 100)),
                mark=draw(marks),
            )
            for _ in range(draw(st.integers(0, 4)))
        ]
        seats.append(
            make_seats(
                *runs,
                slots=draw(st.integers(1, 5)),
                fits=tuple(draw(st.sets(st.integers(1, 3)))),
                is_closed=draw(st.booleans()),
                session=session,
            )
        )
    return waiters, seats


@given(crowds())
def test_no_more_give_way_than_wait_and_only_those_who_may(
    crowd: tuple[list[KeptWaiting], list[Seats]],
) -> None:
    waiters, seats = crowd
    holders = {run.run_id: (run, one) for one in seats for run in one.runs}
    seen: set[RunId] = set()
    for one in choose_victims(waiters, seats, now=NOW):
        assert 0 < len(one.victims) <= one.waiter.runs
        for victim in one.victims:
            run, place = holders[victim.run_id]
            assert victim.run_id not in seen
            seen.add(victim.run_id)
            assert run.is_preemptible
            assert not run.is_ending
            assert run.tier > one.waiter.lane.priority
            assert one.waiter.lane_id in place.fits
            assert not place.is_closed
            assert place.taken <= place.slots
            assert victim.mark.times <= MOST_TIMES
            assert is_asked(victim.mark, run.token)
            assert not is_asked(victim.old, run.token)


@given(st.integers(0, 99), st.datetimes(timezones=st.just(UTC)), st.text(), st.integers(1, 3))
def test_a_mark_is_kept_as_it_is(token: int, at: datetime, by: str, times: int) -> None:
    mark = PreemptionMark(token=token, at=at, by=by, times=times)
    assert load_mark(store_mark(mark)) == mark
    assert store_mark(mark) == store_mark(load_mark(store_mark(mark)) or mark)


def test_what_may_preempt_goes_by_the_job_or_by_the_tier() -> None:
    assert may_preempt(make_spec(priority=HIGH), HIGH)
    assert not may_preempt(make_spec(priority=MEDIUM), MEDIUM)
    assert may_preempt(make_spec(priority=MEDIUM, preempts=True), MEDIUM)
    assert not may_preempt(make_spec(priority=HIGH, preempts=False), HIGH)
    assert may_preempt(make_spec(priority=LOW, preempts=False), HIGH)
    assert not may_preempt(make_spec(priority=HIGH, preempts=True), MEDIUM)


def test_what_may_be_preempted_is_never_delivered_at_most_once() -> None:
    assert may_be_preempted(make_spec(preemptible=True))
    assert not may_be_preempted(make_spec())
    assert not may_be_preempted(make_spec(preemptible=True, delivery=Delivery.AT_MOST_ONCE))


def test_batches_take_a_slot_for_each_call() -> None:
    assert count_slots({"a": (1, 10), "b": (11, 10), "c": (10, 10)}) == 4


def test_looks_follow_the_shortest_period() -> None:
    assert next_look({"a": timedelta(seconds=30), "b": timedelta(seconds=1)}) == 0.5
    assert next_look({"a": timedelta(days=1)}) == 1.0
