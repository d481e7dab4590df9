"""At start: what is read, said and refused, and what a start writes to a clock."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.clocks import NextFire
from mainspring.core.definition import read_definition
from mainspring.core.ledger import balance_fires
from mainspring.core.model import FireRangeKind, JobSpec, Misfire, MisfireRule
from mainspring.core.planning import PlannedRange, plan_fires, settle_overdue, walk_missed
from mainspring.core.starts import start_clock
from mainspring.core.triggers import AtStart, load_trigger, store_trigger, tell_trigger
from mainspring.core.triggers.words import explain_trigger
from mainspring.errors import InvalidInput
from mainspring.testing.factories import START, IdSequence, at, make_spec

JOB = IdSequence(7).new_job_id()
HOUR = timedelta(hours=1)


def read(**fields: Any) -> JobSpec:
    return read_definition({"name": "one", "function": "work", **fields}, now=START)


@pytest.mark.parametrize("text", ["@reboot", "@REBOOT", " at start ", "At startup", "on start"])
def test_schedule_at_start_is_read(text: str) -> None:
    assert read(schedule=text).trigger == AtStart()


def test_full_form_is_read_and_kept() -> None:
    trigger = read(trigger={"type": "at_start"}).trigger
    assert trigger == AtStart()
    assert store_trigger(trigger) == {"type": "at_start"}
    assert load_trigger({"type": "at_start"}) == trigger


def test_trigger_at_start_is_told_in_words() -> None:
    assert tell_trigger({"type": "at_start"}) == "at each start"
    assert explain_trigger(AtStart()) == "once at each start of the scheduler"


@pytest.mark.parametrize(
    ("fields", "field", "part"),
    [
        ({"cron": "@reboot"}, "cron", "schedule"),
        ({"trigger": {"type": "at_start", "every": 5}}, "trigger.every", ""),
        ({"schedule": "@reboot", "starts_at": "2027-01-01T00:00:00Z"}, "starts_at", "recurs"),
        ({"schedule": "@reboot", "calendars": {"exclude": ["holidays"]}}, "calendars", "at start"),
        ({"any_of": ["@reboot", "every 2 hours"]}, "any_of[0]", "job of its own"),
    ],
)
def test_what_does_not_go_with_a_start_is_refused(fields: dict[str, Any], field: str, part: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(**fields)
    assert refused.value.field == field
    assert part in refused.value.message


def test_start_makes_a_fire_that_is_due_at_once() -> None:
    clock = start_clock(next_fire_at=None, fired_through=None, is_paused=False, pause_note=None, now=at(5))
    assert (clock.next_fire, clock.fired_through, clock.gaps) == (NextFire(at(5), at(5)), None, ())


@given(
    st.lists(
        st.tuples(
            st.integers(-5, 5), st.booleans(), st.booleans()
        ),  # seconds on, paused, fired before the next
        max_size=20,
    )
)
def test_each_start_has_one_record_or_one_fire_at_an_instant_of_its_own(
    starts: list[tuple[int, bool, bool]],
) -> None:
    now = START
    pending: datetime | None = None
    fired_through: datetime | None = None
    records: list[datetime] = []
    for seconds, is_paused, is_fired in starts:
        now += timedelta(seconds=seconds)
        clock = start_clock(
            next_fire_at=pending,
            fired_through=fired_through,
            is_paused=is_paused,
            pause_note=None,
            now=now,
        )
        records += [instant for instant, _ in clock.gaps]
        pending = None if clock.next_fire is None else clock.next_fire.fire_at
        fired_through = clock.fired_through
        assert pending is None or fired_through is None or pending > fired_through
        if is_fired and pending is not None:
            records.append(pending)
            pending, fired_through = None, pending
    owed = records + ([] if pending is None else [pending])
    assert len(owed) == len(starts)
    assert owed == sorted(set(owed))


@pytest.mark.parametrize("policy", Misfire)
def test_fire_at_start_that_is_late_goes_by_the_misfire_policy(policy: Misfire) -> None:
    spec = make_spec(trigger=AtStart(), misfire=MisfireRule(policy=policy))
    plan = plan_fires(spec, JOB, NextFire(START, START), now=START + HOUR)
    assert plan is not None
    assert (plan.next_fire_at, plan.fired_through, plan.ranges) == (None, START, ())
    is_skipped = policy is Misfire.SKIP
    assert plan.fires == (() if is_skipped else (START,))
    assert [instant for instant, _ in plan.skips] == ([START] if is_skipped else [])


def test_fire_at_start_that_an_edit_overtakes_is_caught_up() -> None:
    spec = make_spec(trigger=AtStart())
    (owed,) = settle_overdue(spec, JOB, START, now=at(1), reason="edited")
    assert owed == PlannedRange(FireRangeKind.CATCH_UP, START, START, "edited")
    assert list(walk_missed(AtStart(), owed.from_at, owed.to_at, None)) == [START]
    assert list(walk_missed(AtStart(), owed.from_at, owed.to_at, START)) == []


def test_ledger_of_a_trigger_at_start_holds_starts_to_their_records() -> None:
    balance = balance_fires(AtStart(), START, at(60), recorded=[at(5), at(9)], skipped={at(9): "blackout"})
    assert (balance.expected, balance.missing, balance.surplus) == (2, (), ())
    assert balance.without_work == (("blackout", at(9)),)
    assert balance_fires(AtStart(), START, at(60), recorded=[at(5), at(5)]).surplus == (at(5),)
