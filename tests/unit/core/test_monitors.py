from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.monitors import (
    MOST_RECENT,
    Monitor,
    MonitorState,
    Ping,
    PingKind,
    explain_monitor,
    judge_monitor,
    make_monitor,
    ping_of_exit,
    read_exit_code,
    take_ping,
)
from mainspring.errors import InvalidInput

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
START, SUCCESS, FAIL, EXTEND = PingKind.START, PingKind.SUCCESS, PingKind.FAIL, PingKind.EXTEND
NEW, UP, RUNNING, LATE, FAILED = MonitorState


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def make(**changes: Any) -> Monitor:
    """Make a monitor of a job that begins at each full hour; 10 minutes of start, 30 of run."""
    body = {"cron": "0 * * * *", "start_grace": "10m", "run_grace": "30m", **changes}
    return make_monitor("shop", "dump", body, now=NOON)


def tell(monitor: Monitor, *pings: tuple[float, PingKind]) -> Monitor:
    for minutes, kind in pings:
        monitor = take_ping(monitor, Ping(kind, at(minutes)))
    return monitor


def state(monitor: Monitor, minutes: float) -> MonitorState:
    return judge_monitor(monitor, at(minutes)).facts.state


def test_job_that_never_pings_is_late_after_its_first_time_and_the_grace() -> None:
    monitor = make()
    assert monitor.due_at == at(70)
    assert [state(monitor, minutes) for minutes in (0, 60, 70, 70.01, 10_000)] == [NEW, NEW, NEW, LATE, LATE]
    late = judge_monitor(monitor, at(10_000))
    assert (late.facts.failures, late.facts.failed_at, late.due_at) == (1, at(70), at(70))
    assert explain_monitor(late, at(10_000)) == "dump is late: it has never pinged"


def test_ping_in_time_answers_one_fire_and_the_next_is_expected() -> None:
    for minutes in (50, 55, 60, 69, 70):
        monitor = tell(make(), (minutes, SUCCESS))
        assert monitor.facts.state is UP, minutes
        assert monitor.facts.expected_at == at(120), minutes
        assert (state(monitor, 130), state(monitor, 131)) == (UP, LATE)


def test_ping_that_is_too_early_says_that_it_lives_and_answers_nothing() -> None:
    monitor = tell(make(), (49, SUCCESS))
    assert monitor.facts.expected_at == at(60)
    assert (state(monitor, 70), state(monitor, 71)) == (UP, LATE)


def test_early_pings_cannot_answer_more_than_the_next_fire() -> None:
    monitor = tell(make(start_grace="12h"), (1, SUCCESS), (2, SUCCESS), (3, SUCCESS))
    assert monitor.facts.expected_at == at(120)


def test_run_has_a_grace_of_its_own_and_may_ask_for_more() -> None:
    monitor = tell(make(), (61, START))
    assert monitor.facts.state is RUNNING
    assert (state(monitor, 91), state(monitor, 91.1)) == (RUNNING, LATE)
    extended = tell(monitor, (90, EXTEND))
    assert extended.facts.started_at == at(61)
    assert (state(extended, 120), state(extended, 120.1)) == (RUNNING, LATE)
    done = tell(extended, (115, SUCCESS))
    assert (done.facts.state, done.facts.expected_at) == (UP, at(120))


def test_end_of_a_run_answers_no_fire_that_is_to_come() -> None:
    monitor = tell(make(), (61, START), (85, SUCCESS))
    assert monitor.facts.expected_at == at(120)
    monitor = tell(make(run_grace="2h"), (61, START), (115, SUCCESS))
    assert monitor.facts.expected_at == at(120)  # though 115 is early by less than the grace


def test_fires_during_a_run_that_is_in_time_are_not_missing() -> None:
    monitor = tell(make(run_grace="5h"), (61, START))
    assert state(monitor, 300) is RUNNING
    done = tell(monitor, (300, SUCCESS))
    assert (done.facts.state, done.facts.failures, done.facts.expected_at) == (UP, 0, at(360))


def test_run_that_does_not_end_in_time_is_late_and_its_late_success_mends_it() -> None:
    monitor = tell(make(), (61, START))
    late = judge_monitor(monitor, at(100))
    assert (late.facts.state, late.facts.failures, late.facts.failed_at) == (LATE, 1, at(91))
    assert explain_monitor(late, at(100)) == "dump is late: its last ping was 39m ago"
    mended = tell(monitor, (100, SUCCESS))
    assert (mended.facts.state, mended.facts.failures, mended.is_broken) == (UP, 0, False)


def test_failure_is_told_and_a_run_that_begins_again_is_broken_until_it_succeeds() -> None:
    failed = take_ping(make(), ping_of_exit(3, at(61)))
    assert (failed.facts.state, failed.due_at) == (FAILED, at(61))
    assert explain_monitor(failed, at(62)) == "dump failed with exit code 3"
    again = tell(failed, (62, START))
    assert (again.facts.state, again.is_broken, again.due_at) == (RUNNING, True, at(61))
    assert explain_monitor(again, at(62)) == "dump runs again after a failure, and has not succeeded yet"
    assert judge_monitor(again, at(95)).facts.state is LATE
    assert tell(again, (63, SUCCESS)).is_broken is False


def test_tolerance_counts_missing_pings_and_failures_in_a_row() -> None:
    monitor = make(tolerance=3)
    assert [state(monitor, minutes) for minutes in (71, 131, 190, 191)] == [UP, UP, UP, LATE]
    monitor = tell(monitor, (61, FAIL))
    assert (monitor.facts.state, monitor.facts.failures, monitor.due_at) == (UP, 1, at(130))
    assert [state(monitor, minutes) for minutes in (131, 191)] == [UP, LATE]
    late = judge_monitor(monitor, at(191))
    assert (
        explain_monitor(late, at(191)) == "dump is late: its last ping was 2h10m ago, the 3. failure in a row"
    )
    assert tell(monitor, (120, SUCCESS), (180, FAIL)).facts.failures == 1


def test_extend_without_a_start_begins_a_run() -> None:
    monitor = tell(make(), (60, EXTEND))
    assert (monitor.facts.state, monitor.facts.started_at) == (RUNNING, at(60))
    assert monitor.facts.expected_at == at(120)


def test_trigger_without_a_further_fire_expects_nothing() -> None:
    monitor = make_monitor("shop", "once", {"run_at": "2026-11-27T13:00:00Z"}, now=NOON)
    assert state(monitor, 66) is LATE
    done = tell(monitor, (60, SUCCESS))
    assert (done.facts.expected_at, done.due_at) == (None, None)
    assert state(done, 1_000_000) is UP


def test_change_of_a_monitor_remembers_pings_and_expects_by_the_new_trigger() -> None:
    old = tell(make(), (61, FAIL))
    new = make_monitor("shop", "dump", {"every": "1d"}, now=at(62), old=old)
    assert (new.facts.state, new.facts.failures, new.facts.recent) == (UP, 0, old.facts.recent)
    assert new.facts.expected_at is not None
    assert new.facts.expected_at > at(62)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([], "body: must be an object"),
        ({}, "trigger: is missing; give one of "),
        ({"cron": "0 * * *"}, "cron: "),
        ({"every": "1h", "cron": "0 * * * *"}, "every: says the same as 'cron'"),
        ({"every": "1h", "start_grace": "0s"}, "start_grace: must be between 1s and 30d"),
        ({"every": "1h", "tolerance": 0}, "tolerance: 0 is not between 1 and 100"),
        ({"every": "1h", "grace": "1m"}, "grace: there is no such field"),
        ({"every": "1h", "payload": 1}, "payload: there is no such field"),
        ({"trigger": {"type": "after_end", "delay": "1m"}}, "trigger: a monitor needs instants"),
        ({"trigger": {"type": "at_start"}}, "trigger: a monitor needs instants"),
    ],
)
def test_wrong_monitors_are_refused(body: object, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        make_monitor("shop", "dump", body, now=NOON)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    ("text", "code"),
    [("0", 0), ("255", 255), ("256", None), ("-1", None), ("", None), ("1x", None), ("²", None)],
)
def test_exit_codes(text: str, code: int | None) -> None:
    assert read_exit_code(text) == code


PINGS = st.lists(st.tuples(st.floats(0.1, 400), st.sampled_from(PingKind)), max_size=30).map(sorted)
MONITORS = st.builds(
    make,
    start_grace=st.sampled_from(["1s", "10m", "3h"]),
    run_grace=st.sampled_from(["1s", "30m", "5h"]),
    tolerance=st.integers(1, 4),
    cron=st.sampled_from(["0 * * * *", "*/7 * * * *"]),
)


@given(MONITORS, PINGS, st.floats(0, 500))
def test_what_holds_for_all_stories(
    monitor: Monitor, pings: list[tuple[float, PingKind]], later: float
) -> None:
    for minutes, kind in pings:
        monitor = tell(monitor, (minutes, kind))
        facts = monitor.facts
        assert facts.pinged_at == at(minutes)
        assert len(facts.recent) <= MOST_RECENT
        assert (facts.state is RUNNING) == (kind in {START, EXTEND})
        if kind is SUCCESS:
            assert (facts.state, facts.failures, monitor.is_broken) == (UP, 0, False)
        if kind is FAIL:
            assert facts.state is (FAILED if monitor.is_broken else UP)
        assert facts.expected_at is None or facts.answered_at is None or facts.answered_at < facts.expected_at
        # Nothing that a ping has answered is missing at the moment of the ping.
        assert judge_monitor(monitor, at(minutes)) == monitor
    now = at(400 + later)
    judged = judge_monitor(monitor, now)
    assert judge_monitor(judged, now) == judged
    # Whether it was judged in between makes no difference.
    assert judge_monitor(judge_monitor(monitor, at(400 + later / 2)), now) == judged
    # The instant by which the store finds it is right: before it, there is nothing to find.
    due_at = monitor.due_at
    if due_at is None or (now <= due_at and not monitor.is_broken):
        assert judged == monitor
    if judged.is_broken:
        assert judged.due_at is not None
        assert judged.due_at <= now
        assert judged.facts.state in {LATE, FAILED, RUNNING}
