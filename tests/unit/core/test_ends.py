"""After the end: what is read, said and refused, and where a clock stands once a run has ended."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.calendars.joined import has_no_rule, with_calendars
from mainspring.core.calendars.resolved import CalendarVersion, resolve
from mainspring.core.calendars.sieve import make_sieve
from mainspring.core.calendars.spec import read_calendar
from mainspring.core.clocks import NextFire
from mainspring.core.definition import read_definition
from mainspring.core.ends import (
    NEVER,
    FiredRun,
    LastFire,
    after_end_of,
    first_of_all,
    follow_edit,
    follow_end,
    follow_pause,
)
from mainspring.core.ids import RunId
from mainspring.core.ledger import balance_fires
from mainspring.core.model import FireRangeKind, JobSpec, Misfire, MisfireRule
from mainspring.core.planning import (
    PlannedRange,
    first_fire_at,
    next_fire,
    plan_fires,
    settle_overdue,
    walk_missed,
)
from mainspring.core.states import RunState
from mainspring.core.triggers import (
    AfterEnd,
    AtStart,
    Interval,
    Trigger,
    Windowed,
    load_trigger,
    store_trigger,
    tell_trigger,
)
from mainspring.core.triggers.words import explain_no_fires, explain_trigger, explain_wait
from mainspring.errors import InvalidInput
from mainspring.testing.factories import MINUTE, START, IdSequence, at, make_spec

JOB = IdSequence(7).new_job_id()
HOUR = timedelta(hours=1)
TICK = timedelta(microseconds=1)
EVERY_MINUTE = AfterEnd(MINUTE)


def read(**fields: Any) -> JobSpec:
    return read_definition({"name": "one", "function": "work", **fields}, now=START)


def fired(*, ended: float | None, fire: float = 0, state: RunState = RunState.SUCCEEDED) -> LastFire:
    """The last fire, whose run has ended so many seconds after START; None: it is live."""
    if ended is None:
        run = FiredRun(run_id=RunId(256), state=RunState.RUNNING, finished_at=None)
    else:
        run = FiredRun(run_id=RunId(256), state=state, finished_at=at(ended))
    return LastFire(fire_at=at(fire), run=run)


LIVE = fired(ended=None)
GONE = LastFire(fire_at=START, run=None)


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"after_end": "10m"}, 600),
        ({"after_end": 90}, 90),
        ({"trigger": {"type": "after_end", "delay": "1s"}}, 1),
        ({"trigger": {"type": "after_end", "delay_seconds": 1.5}}, 1.5),
        ({"schedule": "10 minutes after the end"}, 600),
        ({"schedule": "1h30m After The End of the run before."}, 5400),
        ({"schedule": "an hour after the last run ends"}, 3600),
        ({"schedule": "10m after the end of the previous run"}, 600),
    ],
)
def test_delay_is_read(fields: dict[str, Any], seconds: float) -> None:
    assert read(**fields).trigger == AfterEnd(timedelta(seconds=seconds))


@pytest.mark.parametrize(
    "window", [{}, {"starts_at": "2026-02-01T00:00:00Z", "ends_at": "2026-03-01T00:00:00Z"}]
)
def test_full_form_is_kept(window: dict[str, str]) -> None:
    trigger = read(after_end="10m", **window).trigger
    plain = store_trigger(trigger)
    assert plain is not None
    assert (plain["type"], plain["delay_seconds"]) == ("after_end", 600)
    assert load_trigger(plain) == trigger
    assert isinstance(trigger, Windowed) == bool(window)


def test_it_is_told_in_words() -> None:
    plain = {"type": "after_end", "delay_seconds": 600}
    assert tell_trigger(plain) == "10m after the end"
    assert explain_trigger(AfterEnd(10 * MINUTE)) == "10m after the end of the run before"
    assert read(schedule=explain_trigger(AfterEnd(10 * MINUTE))).trigger == AfterEnd(10 * MINUTE)
    assert explain_wait(plain, "run_1", "RUNNING") == "next: 10m after the end of run_1, which is RUNNING"
    assert explain_no_fires(plain, "never").startswith("at once when the job is made")
    assert explain_no_fires(None, "never") == "it has no trigger, and runs only when it is submitted"


@pytest.mark.parametrize(
    ("fields", "field", "part"),
    [
        ({"after_end": "0.5s"}, "after_end", "between 1s and"),
        ({"after_end": "0s"}, "after_end", "between 1s and"),
        ({"trigger": {"type": "after_end"}}, "trigger.delay_seconds", "missing"),
        ({"after_end": "5m", "every": "5m"}, "after_end", "give one of them"),
        ({"trigger": {"type": "after_end", "delay": "5m", "anchor": "x"}}, "trigger.anchor", "no such"),
        ({"after_end": "5m", "ends_at": "2026-01-01T00:00:00Z"}, "ends_at", "leaves no fire"),
        ({"any_of": ["5m after the end", "every 2 hours"]}, "any_of[0]", "job of its own"),
        (
            {"after_end": "5m", "calendars": {"exclude": ["off"], "roll": "next"}},
            "calendars.roll",
            "after_end",
        ),
        ({"schedule": "0 minutes after the end"}, "schedule", ""),
        ({"schedule": "soon after the end"}, "schedule", "cannot be read"),
    ],
)
def test_what_is_wrong_is_refused(fields: dict[str, Any], field: str, part: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(**fields)
    assert refused.value.field == field
    assert part in refused.value.message


def test_a_delay_of_nothing_is_a_fault() -> None:
    with pytest.raises(ValueError, match="longer than nothing"):
        AfterEnd(timedelta(0))


def test_no_rule_gives_its_instants() -> None:
    assert EVERY_MINUTE.next_after(START) is None
    assert EVERY_MINUTE.previous_before(START) is None


@pytest.mark.parametrize(
    ("trigger", "delay"),
    [
        (EVERY_MINUTE, MINUTE),
        (Windowed(EVERY_MINUTE, at(0), None), MINUTE),
        (Interval(MINUTE, START), None),
        (Windowed(Interval(MINUTE, START), at(0), None), None),
        (AtStart(), None),
        (None, None),
    ],
)
def test_delay_is_found_within_a_window(trigger: Trigger | None, delay: timedelta | None) -> None:
    after = after_end_of(trigger)
    assert (None if after is None else after.delay) == delay
    if trigger is not None:
        assert has_no_rule(trigger) == (after is not None or isinstance(trigger, AtStart))


@pytest.mark.parametrize(
    ("trigger", "first"),
    [
        (EVERY_MINUTE, START),
        (Windowed(EVERY_MINUTE, starts_at=at(-60)), START),
        (Windowed(EVERY_MINUTE, starts_at=at(90)), at(90)),
        (Windowed(EVERY_MINUTE, starts_at=at(90), ends_at=at(80)), None),
    ],
)
def test_first_fire_is_at_once_or_at_the_beginning(trigger: Trigger, first: datetime | None) -> None:
    assert first_of_all(trigger, now=START) == first
    assert first_fire_at(trigger, now=START) == first


@pytest.mark.parametrize("state", [RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.SKIPPED])
def test_next_fire_comes_after_the_end_whatever_it_was(state: RunState) -> None:
    assert follow_end(EVERY_MINUTE, fired(ended=30, state=state), now=at(31)) == at(90)


@pytest.mark.parametrize(
    ("trigger", "last", "expected"),
    [
        (EVERY_MINUTE, LIVE, None),
        (EVERY_MINUTE, NEVER, at(1000)),
        (EVERY_MINUTE, GONE, at(1060)),  # as if it ended now
        (EVERY_MINUTE, fired(ended=30), at(90)),  # nobody was there to see it: the misfire policy decides
        (EVERY_MINUTE, fired(ended=-100), START + TICK),  # a clock that was set back
        (Windowed(EVERY_MINUTE, ends_at=at(90)), fired(ended=30), at(90)),
        (Windowed(EVERY_MINUTE, ends_at=at(90)), fired(ended=31), None),
        (Windowed(EVERY_MINUTE, starts_at=at(2000)), fired(ended=30), at(2000)),
    ],
)
def test_what_follows_an_end(trigger: Trigger, last: LastFire, expected: datetime | None) -> None:
    assert follow_end(trigger, last, now=at(1000)) == expected


@pytest.mark.parametrize(
    ("trigger", "last", "expected"),
    [
        (EVERY_MINUTE, LIVE, None),
        (EVERY_MINUTE, NEVER, at(1000) + TICK),
        (EVERY_MINUTE, GONE, at(1060)),
        (EVERY_MINUTE, fired(ended=970), at(1030)),  # its fire is to come
        (EVERY_MINUTE, fired(ended=30), at(1050)),  # 16 delays have passed
        (EVERY_MINUTE, fired(ended=40), at(1060)),  # the one that is due now was in the pause
        (EVERY_MINUTE, fired(ended=2000), at(2060)),
        (Windowed(EVERY_MINUTE, ends_at=at(1049)), fired(ended=30), None),
        (Windowed(EVERY_MINUTE, starts_at=at(5000)), NEVER, at(5000)),
    ],
)
def test_count_goes_on_during_a_pause(trigger: Trigger, last: LastFire, expected: datetime | None) -> None:
    assert follow_pause(trigger, last, now=at(1000)) == expected


@pytest.mark.parametrize(
    ("trigger", "last", "expected"),
    [
        (EVERY_MINUTE, LIVE, None),
        (EVERY_MINUTE, NEVER, at(1000)),
        (EVERY_MINUTE, GONE, at(1000)),
        (EVERY_MINUTE, fired(ended=970), at(1030)),
        (EVERY_MINUTE, fired(ended=30), at(1000)),
        (EVERY_MINUTE, fired(ended=30, fire=1000), at(1000) + TICK),
        (Windowed(EVERY_MINUTE, ends_at=at(999)), fired(ended=30), None),
    ],
)
def test_edit_counts_from_the_end_or_fires_at_once(
    trigger: Trigger, last: LastFire, expected: datetime | None
) -> None:
    assert follow_edit(trigger, last, now=at(1000)) == expected


@given(
    st.lists(
        st.tuples(
            st.integers(-5, 100),  # seconds that pass: a clock may be set back
            st.sampled_from(["end", "resume", "edit"]),
            st.integers(1, 100),  # the delay
            st.sampled_from(["ends", "gone", "lives"]),
        ),
        max_size=20,
    )
)
def test_each_fire_is_later_than_all_before_and_none_comes_while_a_run_lives(
    steps: list[tuple[int, str, int, str]],
) -> None:
    now, last = START, NEVER
    choose = {"end": follow_end, "resume": follow_pause, "edit": follow_edit}
    for seconds, event, delay, outcome in steps:
        now += timedelta(seconds=seconds)
        fire_at = choose[event](AfterEnd(timedelta(seconds=delay)), last, now=now)
        if last.is_live:
            assert fire_at is None
            run = FiredRun(run_id=RunId(256), state=RunState.SUCCEEDED, finished_at=now)
            last = LastFire(fire_at=last.fire_at, run=run)
            continue
        assert fire_at is not None
        assert last.fire_at is None or fire_at > last.fire_at
        if last.ended_at is not None:
            assert fire_at >= last.ended_at
        live = FiredRun(run_id=RunId(256), state=RunState.RUNNING, finished_at=None)
        ended = FiredRun(run_id=RunId(256), state=RunState.SUCCEEDED, finished_at=max(now, fire_at))
        last = LastFire(fire_at=fire_at, run={"ends": ended, "gone": None, "lives": live}[outcome])


@pytest.mark.parametrize("policy", Misfire)
@pytest.mark.parametrize("trigger", [EVERY_MINUTE, Windowed(EVERY_MINUTE, starts_at=START)])
def test_fire_that_is_late_goes_by_the_misfire_policy(policy: Misfire, trigger: Trigger) -> None:
    spec = make_spec(trigger=trigger, misfire=MisfireRule(policy=policy))
    plan = plan_fires(spec, JOB, NextFire(START, START), now=START + HOUR)
    assert plan is not None
    assert (plan.next_fire_at, plan.fired_through, plan.ranges) == (None, START, ())
    is_skipped = policy is Misfire.SKIP
    assert plan.fires == (() if is_skipped else (START,))
    assert [instant for instant, _ in plan.skips] == ([START] if is_skipped else [])


def test_fire_that_a_calendar_keeps_out_is_a_record_of_its_own() -> None:
    rules = [{"from": "2026-01-05T12:00:00", "to": "2026-01-05T12:01:00"}]
    kept_out = CalendarVersion("default", "off", 1, read_calendar({"rules": rules}), {}, START)
    off = resolve(kept_out, lambda key: pytest.fail(str(key)))
    sieved = with_calendars(EVERY_MINUTE, make_sieve(EVERY_MINUTE, (), (off,), None))
    assert after_end_of(sieved) == EVERY_MINUTE
    spec = make_spec(trigger=sieved)
    assert next_fire(spec, JOB, at(30)) == NextFire(at(30), at(30))
    plan = plan_fires(spec, JOB, NextFire(at(30), at(30)), now=at(30))
    assert plan is not None
    assert (plan.fires, plan.skips, plan.ranges) == ((), ((at(30), "calendar"),), ())
    assert (plan.next_fire_at, plan.fired_through) == (None, at(30))


def test_fire_that_another_trigger_overtakes_is_caught_up() -> None:
    spec = make_spec(trigger=Windowed(EVERY_MINUTE, starts_at=START))
    (owed,) = settle_overdue(spec, JOB, START, now=at(1), reason="edited")
    assert owed == PlannedRange(FireRangeKind.CATCH_UP, START, START, "edited")
    assert list(walk_missed(spec.trigger, owed.from_at, owed.to_at, None)) == [START]  # type: ignore[arg-type]


def test_ledger_holds_fires_to_their_records() -> None:
    trigger = Windowed(EVERY_MINUTE, starts_at=START)
    balance = balance_fires(trigger, START, at(60), recorded=[at(5), at(9)], skipped={at(9): "blackout"})
    assert (balance.expected, balance.missing, balance.surplus) == (2, (), ())
    assert balance.without_work == (("blackout", at(9)),)
    assert balance_fires(trigger, START, at(60), recorded=[at(5), at(5)]).surplus == (at(5),)
