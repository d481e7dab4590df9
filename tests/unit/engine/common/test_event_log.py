"""What the log says of attempts that did not succeed."""

from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from mainspring.core.line_budget import PERIOD
from mainspring.core.outcomes import AttemptFacts, Failure, cancelled, failed, handed_back, lost
from mainspring.core.retry import RetryPolicy
from mainspring.engine.common.event_log import EventLog
from mainspring.ports.clock import Clock
from mainspring.testing.clock import FakeClock, ManualWaiter
from mainspring.testing.factories import START, make_spec

SPEC = make_spec(name="sync", retry=RetryPolicy(max_retries=1, delay=timedelta(seconds=5), jitter=0.0))


def facts(attempt: int) -> AttemptFacts:
    return AttemptFacts(
        run_id=256,  # type: ignore[arg-type]
        token=1,
        session_id=1,  # type: ignore[arg-type]
        attempt=attempt,
        is_quarantined=False,
        quarantined_crashes=0,
        is_cancel_requested=False,
    )


def make_log(clock: Clock) -> EventLog:
    return EventLog(clock=clock, waiter=ManualWaiter())


_TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: boom \n'


def failure(attempt: int, error: str = _TRACEBACK) -> object:
    return failed(facts(attempt), SPEC, Failure(error=error), now=START, random=lambda: 0.5)


async def test_failure_names_the_next_retry_and_the_last_one_how_to_repeat_it() -> None:
    log = make_log(FakeClock())
    with capture_logs() as lines:
        log.note_end(failure(1), SPEC, 1)  # type: ignore[arg-type]
        log.note_end(failure(2), SPEC, 2)  # type: ignore[arg-type]
    assert [(line["log_level"], line["event"], line["error"], line["next"]) for line in lines] == [
        ("warning", "attempt_failed", "ValueError: boom", "retry 1 of 1 at 2026-01-05T12:00:05.000Z"),
        (
            "error",
            "run_failed",
            "ValueError: boom",
            f"kept as a dead letter (retries_exhausted); `mainspring run retry {lines[1]['run']}` runs it again",
        ),
    ]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("ValueError: boom", "ValueError: boom"),
        ("ValueError: one\ntwo", "ValueError: one two"),
        (
            "ValidationError: 1 error for Order\nid\n  is no number\n    Read on at https://errors.example/",
            "ValidationError: 1 error for Order … Read on at https://errors.example/",
        ),
        (f"{'x' * 500}\n\n{'y' * 500}", f"{'x' * 240} {'y' * 240}"),
        (" \n", ""),
    ],
)
async def test_a_long_error_is_told_by_its_ends(error: str, told: str) -> None:
    log = make_log(FakeClock())
    with capture_logs() as lines:
        log.note_end(failure(1, error), SPEC, 1)  # type: ignore[arg-type]
    assert lines[0]["error"] == told


async def test_loss_is_told_and_hand_backs_and_cancels_are_not() -> None:
    log = make_log(FakeClock())
    with capture_logs() as lines:
        log.note_end(lost(facts(1), SPEC, now=START), SPEC, 1)
        log.note_end(handed_back(facts(1), SPEC, now=START, was_started=True), SPEC, 1)
        log.note_end(cancelled(facts(1)), SPEC, 1)
    assert [line["event"] for line in lines] == ["attempt_lost"]


async def test_masses_of_failures_and_missed_fires_are_few_lines_and_a_number() -> None:
    clock = FakeClock()
    log = make_log(clock)
    with capture_logs() as lines:
        for number in range(10_000):
            log.note_end(failure(1), SPEC, 1)  # type: ignore[arg-type]
            log.note_missed(make_spec(name=f"job {number}"), START, through=START)
        assert len(lines) == 10
        assert await log.tick(START) > 0
        clock.advance(PERIOD)
        await log.tick(START)
    told = [
        {key: line[key] for key in line if key not in {"event", "log_level", "seconds"}}
        for line in lines[10:]
    ]
    assert told == [{"job": "sync", "attempt_failed": 9995}, {"fires_missed": 9995}]
