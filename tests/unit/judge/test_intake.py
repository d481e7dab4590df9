"""S16: no submission passes its tenant's rate; and what was refused leaves nothing behind (S3, S4)."""

from __future__ import annotations

import pytest

from mainspring.testing.factories import at
from tests.unit.judge.histories import Story, seconds
from tools.judge import Permit, judge


def permit(when: float, count: int = 1) -> Permit:
    return Permit(at=at(when), tenant="default", count=count)


def limited(*permits: Permit, rate: str = "2/s") -> Story:
    story = Story()
    story.history.rates = {"default": rate}
    story.history.permits += permits
    return story


def test_submissions_with_permits_are_good() -> None:
    story = limited(permit(10), permit(10), permit(10.5))
    job = story.job()
    for when in (10, 10, 10.5):
        story.submit(job, when)
    assert story.broken == set()


def test_a_submission_without_a_permit() -> None:
    story = limited(permit(10))
    job = story.job()
    story.submit(job, 10)
    story.submit(job, 10)
    assert story.broken == {"S16"}


def test_a_permit_that_is_not_used_is_lost() -> None:
    story = limited(permit(10), permit(11))
    story.submit(story.job(), 10)
    assert story.broken == set()


@pytest.mark.parametrize(("step", "is_good"), [(0.5, True), (0.25, False)])
def test_more_permits_than_the_rate_gives(step: float, is_good: bool) -> None:
    story = limited(*(permit(10 + number * step) for number in range(20)))
    assert story.broken == (set() if is_good else {"S16"})


def test_one_request_may_leave_a_debt() -> None:
    assert limited(permit(10, 40), permit(30.5), rate="2/s").broken == set()
    assert limited(permit(10, 40), permit(15, 40), permit(20, 1), rate="2/s").broken == {"S16"}


def test_a_tenant_without_a_rate_needs_no_permits() -> None:
    story = Story()
    story.submit(story.job(), 10)
    assert story.broken == set()


@pytest.mark.parametrize("key", [None, "a"])
def test_a_refused_submission_whose_run_is_stored(key: str | None) -> None:
    story = Story()
    job = story.job()
    story.submit(job, 10, key=key)
    story.history.operations.clear()
    story.ask("submit", job, 10, "refused", key=key)
    assert story.broken == {"S3"}
    assert judge(story.history).counts["submissions_refused"] == 1


@pytest.mark.parametrize(("queue", "rules"), [("default", set()), ("other", {"S1"})])
def test_a_run_expires_as_its_queue_says(queue: str, rules: set[str]) -> None:
    story = Story()
    story.fault(9, 20)
    story.history.expiries = {queue: seconds(5)}
    story.expire(story.submit(story.job(), 10, "waiting"), 15.2)
    assert story.broken == rules


def test_a_job_that_says_when_its_runs_expire_is_believed() -> None:
    story = Story()
    story.fault(9, 20)
    story.history.expiries = {"default": seconds(5)}
    story.expire(story.submit(story.job(expires_after=seconds(9)), 10, "waiting"), 15.2)
    assert story.broken == {"S1"}
