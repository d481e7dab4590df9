"""S15: one holder per key and scope, and the newest payload in the one that waits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.ids import JobId, RunId
from mainspring.core.once import (
    DebounceRule,
    OnceRule,
    OnConflict,
    ThrottleRule,
    UniqueRule,
    UniqueScope,
)
from mainspring.testing.factories import at
from tests.unit.judge.histories import Story
from tools.judge import Replacement

KEY = "$.key"
LIVE = UniqueRule(key=KEY)
QUEUED = UniqueRule(key=KEY, scope=UniqueScope.QUEUED)
REPLACE = UniqueRule(key=KEY, scope=UniqueScope.QUEUED, on_conflict=OnConflict.REPLACE)
PERIOD = UniqueRule(key=KEY, scope=UniqueScope.PERIOD, period=timedelta(seconds=10))
DEBOUNCE = DebounceRule(key=KEY, wait=timedelta(seconds=1))
THROTTLE = ThrottleRule(key=KEY, limit=2, per=timedelta(seconds=10))
A, B = b'{"key":"a"}', b'{"key":"b"}'
NEWER = b'{"key":"a","number":2}'


def job_of(story: Story, rule: OnceRule, **spec: Any) -> JobId:
    name = {UniqueRule: "unique", DebounceRule: "debounce", ThrottleRule: "throttle"}[type(rule)]
    rules: dict[str, Any] = {name: rule}
    return story.job(**rules, **spec)


def broken(story: Story) -> set[str]:
    story.history.events.sort(key=lambda event: event.at)
    return story.broken


def replace(story: Story, run_id: RunId, when: float, payload: bytes = NEWER) -> None:
    """Note a committed submission that gave its payload to a run."""
    story.history.events.sort(key=lambda event: event.at)
    place = sum(event.at <= at(when) for event in story.history.events)
    replacement = Replacement(at=at(when), run_id=run_id, payload=payload, place=place)
    story.history.replacements.append(replacement)


@pytest.mark.parametrize(
    ("rule", "second", "is_good"),
    [
        # The first is made at 10, claimed at 10.1, and has succeeded at 10.6.
        (LIVE, 10.05, False),
        (LIVE, 10.3, False),
        (LIVE, 10.7, True),
        (QUEUED, 10.05, False),
        (QUEUED, 10.3, True),
        (DEBOUNCE, 10.05, False),
        (DEBOUNCE, 10.3, True),
        (PERIOD, 19.9, False),
        (PERIOD, 20.0, True),
    ],
)
def test_second_run_of_a_key_waits_until_the_first_has_ceased_to_count(
    rule: OnceRule, second: float, is_good: bool
) -> None:
    story = Story()
    job_id = job_of(story, rule)
    for when in (10.0, second):
        story.submit(job_id, when, payload=A)
    assert broken(story) == (set() if is_good else {"S15"})


@pytest.mark.parametrize("rule", [LIVE, QUEUED, PERIOD, DEBOUNCE])
def test_other_keys_and_jobs_are_free(rule: OnceRule) -> None:
    story = Story()
    job_id = job_of(story, rule)
    story.submit(job_id, 10, payload=A)
    story.submit(job_id, 10, payload=B)
    story.submit(job_of(story, rule), 10, payload=A)
    assert broken(story) == set()


def test_run_that_is_retried_still_counts_as_live() -> None:
    story = Story()
    job_id = job_of(story, LIVE)
    story.submit(job_id, 10, "failed", "done", payload=A)
    story.submit(job_id, 11, payload=A)  # the first waits for its second attempt
    assert broken(story) == {"S15"}


def test_run_that_waits_again_does_not_get_back_what_a_later_one_has() -> None:
    story = Story()
    job_id = job_of(story, QUEUED)
    story.submit(job_id, 10, "failed", "done", payload=A)
    story.submit(job_id, 10.3, payload=A)
    story.submit(job_id, 10.9, payload=A)  # the first waits again; the second has been claimed at 10.4
    assert broken(story) == set()


def test_run_that_has_expired_does_not_count() -> None:
    for second, rules in ((11.9, {"S15"}), (12.0, set())):
        story = Story()
        job_id = job_of(story, LIVE, expires_after=timedelta(seconds=2))
        story.submit(job_id, 10, "waiting", payload=A)
        story.submit(job_id, second, payload=A)
        assert "S15" in broken(story) if rules else "S15" not in broken(story)


@pytest.mark.parametrize(
    ("whens", "is_good"),
    [
        ((10, 10, 15, 20), True),
        ((10, 10, 14.9), False),
        ((10, 12, 15), True),
        ((10, 12, 14), False),
        ((10, 30, 30, 35), True),
        ((10, 30, 30, 30), False),
    ],
)
def test_throttle_lets_through_its_limit_and_what_came_back(whens: tuple[float, ...], is_good: bool) -> None:
    story = Story()
    job_id = job_of(story, THROTTLE)
    for when in whens:
        story.submit(job_id, when, payload=A)
    assert broken(story) == (set() if is_good else {"S15"})


@pytest.mark.parametrize(("last", "rules"), [(15.9, {"S15"}), (16.2, set())])
def test_throttle_counts_a_late_submission_by_the_time_that_it_brought(last: float, rules: set[str]) -> None:
    """Its key may be over when it comes, and count from its own time on (seed 301530)."""
    story = Story()
    job_id = job_of(story, ThrottleRule(key=KEY, limit=1, per=timedelta(seconds=5)))
    story.submit(job_id, 10, payload=A)
    late = story.submit(job_id, 11, payload=A)
    story.submit(job_id, last, payload=A)
    for index, event in enumerate(story.history.events):
        if event.run_id == late and event.what == "inserted":
            story.alter_event(index, committed_at=at(15.5))
    assert story.broken == rules


def test_waiting_run_gets_the_newest_payload() -> None:
    story = Story()
    run_id = story.submit(job_of(story, REPLACE), 10, payload=NEWER)
    replace(story, run_id, 10.05)
    assert broken(story) == set()


def test_payload_that_is_not_the_newest_is_noticed() -> None:
    story = Story()
    run_id = story.submit(job_of(story, REPLACE), 10, payload=A)
    replace(story, run_id, 10.05)
    assert broken(story) == {"S15"}


def test_payload_of_a_run_under_way_must_not_change() -> None:
    for when in (10.3, 10.7):
        story = Story()
        run_id = story.submit(job_of(story, REPLACE), 10, payload=NEWER)
        replace(story, run_id, when)
        assert broken(story) == {"S15"}


@pytest.mark.parametrize(("whens", "is_good"), [((10.8, 11.05), True), ((11.05,), False)])
def test_debounced_retry_may_expire_later_than_its_job_says(whens: tuple[float, ...], is_good: bool) -> None:
    story = Story()
    job_id = job_of(story, DEBOUNCE, expires_after=timedelta(seconds=1))
    run_id = story.submit(job_id, 10, "failed", "done", payload=NEWER)
    for when in whens:
        replace(story, run_id, when)
    assert ("S15" not in broken(story)) is is_good


def test_joined_run_may_be_the_answer_to_many() -> None:
    story = Story()
    job_id = job_of(story, LIVE)
    run_id = story.submit(job_id, 10, payload=A)
    for status in ("existing", "replaced", "debounced", "throttled"):
        story.ask("submit", job_id, 10.1, run_id=run_id, status=status)
    assert broken(story) == set()
    story.ask("submit", job_id, 10.1, run_id=run_id)
    assert broken(story) == {"S3"}


@pytest.mark.parametrize(("committed", "is_good"), [(19.9, False), (20.1, True)])
def test_a_key_that_is_over_may_be_gone_for_a_late_submission(committed: float, is_good: bool) -> None:
    """It brought an earlier time, by which the key was not over yet (seed 2229)."""
    story = Story()
    job_id = job_of(story, PERIOD)
    story.submit(job_id, 10, payload=A)
    late = story.submit(job_id, 12, payload=A)
    for index, event in enumerate(story.history.events):
        if event.run_id == late and event.what == "inserted":
            story.alter_event(index, committed_at=at(committed))
    assert ("S15" not in story.broken) is is_good


def test_a_key_is_over_by_the_time_that_the_submission_brought() -> None:
    """Its server's clock was ahead when it made each of the two, and they are committed before that (seed 7196)."""
    story = Story()
    job_id = job_of(story, PERIOD)
    for when in (10.1, 20.1):
        ahead = story.submit(job_id, when, payload=A)
        for index, event in enumerate(story.history.events):
            if event.run_id == ahead and event.what == "inserted":
                story.alter_event(index, committed_at=at(when - 0.05))
    assert broken(story) == set()
