"""What jobs tell of themselves, and what of it may be hidden."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.alerts import Channel
from mainspring.core.channel_settings import WebhookChannel
from mainspring.core.definition import read_definition
from mainspring.core.ids import RunId
from mainspring.core.model import JobSpec
from mainspring.core.notify import (
    JobsSeen,
    NotifyEvent,
    NotifyingJob,
    NotifyRule,
    UnnoticedFailure,
    find_failed,
    split_summary,
)
from mainspring.errors import InvalidInput
from mainspring.testing.factories import IdSequence, at

OPS = Channel(tenant="*", name="ops", config=WebhookChannel(url="https://hooks.example.com/x"))
FAILED, LATE, RECOVERED = NotifyEvent.FAILED, NotifyEvent.LATE, NotifyEvent.RECOVERED


def read(notify: Any) -> NotifyRule | None:
    spec: JobSpec = read_definition({"name": "report", "function": "work", "notify": notify}, now=at(0))
    return spec.notify


def test_what_is_left_out_is_as_one_would_expect() -> None:
    assert read(None) is None
    assert read({"to": ["ops"]}) == NotifyRule(to=("ops",), on=(FAILED, RECOVERED))
    late = read({"to": ["ops"], "late_after": "15m"})
    assert late == NotifyRule(to=("ops",), on=(FAILED, LATE, RECOVERED), late_after=timedelta(minutes=15))
    assert read({"to": ["b", "a"], "on": ["recovered", "failed"], "failures": 3}) == NotifyRule(
        to=("a", "b"), on=(FAILED, RECOVERED), failures=3
    )


@pytest.mark.parametrize(
    ("notify", "field", "said"),
    [
        ({}, "notify.to", "is missing"),
        ({"to": []}, "notify.to", "must name at least one channel"),
        ({"to": "ops"}, "notify.to", "must be a list of at most 20 channels"),
        ({"to": ["ops"], "on": []}, "notify.on", "must be a list of some of failed, late, recovered"),
        ({"to": ["ops"], "on": ["broken"]}, "notify.on[0]", "must be one of failed, late, recovered"),
        ({"to": ["ops"], "on": ["recovered"]}, "notify.on", "name one of them, too"),
        ({"to": ["ops"], "on": ["late"]}, "notify.late_after", "is missing; 'late' needs it"),
        ({"to": ["ops"], "on": ["failed"], "late_after": 5}, "notify.late_after", "goes with 'late' in 'on'"),
        ({"to": ["ops"], "failures": 0}, "notify.failures", "0 is not between 1 and 100"),
        ({"to": ["ops"], "failure": 1}, "notify.failure", "did you mean 'failures'?"),
    ],
)
def test_what_is_wrong_is_named(notify: Any, field: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(notify)
    assert caught.value.field == field
    assert said in caught.value.message


@pytest.mark.parametrize("name", ["report", "a: b", "job failed: x"])
@pytest.mark.parametrize("failures", [1, 3])
def test_an_error_is_one_line_and_can_be_told_from_the_rest(name: str, failures: int) -> None:
    job = NotifyingJob(
        id=IdSequence().new_job_id(),
        tenant="shop",
        name=name,
        rule=NotifyRule(to=("ops",), failures=failures),
    )
    failure = UnnoticedFailure(run_id=RunId(7), job_id=job.id, error="ValueError: a\n  b\0c " + "x" * 999)
    seen = JobsSeen(jobs=[job], unnoticed=[failure], failing={job.id: failure}, late={})
    [fact] = find_failed(seen, {OPS.key: OPS})
    assert (fact.channels, fact.run_id, fact.is_owed) == ((OPS.key,), RunId(7), True)
    times = "" if failures == 1 else " 3 times in a row"
    summary, error = split_summary("job_failed", fact.subject, fact.summary)
    assert summary == f"job {name} failed{times}"
    assert error is not None
    assert error.startswith("ValueError: a b\N{REPLACEMENT CHARACTER}c xxx")
    assert len(error) == 200
    assert split_summary("other", fact.subject, fact.summary) == (fact.summary, None)
