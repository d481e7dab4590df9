"""What a Job and its pod tell of an attempt. Whole Jobs are in tests/integration/test_kubernetes.py."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.core.causes import Cause
from mainspring.core.outcomes import Failure
from mainspring.executors._kubernetes.states import JobState, newest


def failed(why: str = "BackoffLimitExceeded", **pod: Any) -> Failure:
    condition = {"type": "Failed", "status": "True", "reason": why, "message": "of the Job"}
    state = JobState(
        {"status": {"conditions": [condition]}}, {"metadata": {}, "status": pod} if pod else None
    )
    outcome = state.outcome
    assert isinstance(outcome, Failure)
    return outcome


def ended(code: int, reason: str = "Error", message: str = "") -> list[dict[str, Any]]:
    return [{"state": {"terminated": {"exitCode": code, "reason": reason, "message": message}}}]


def test_condition_that_is_not_true_is_none() -> None:
    condition = {"type": "Failed", "status": "False"}
    assert JobState({"status": {"conditions": [condition]}}, None).outcome is None
    assert JobState({}, None).outcome is None


@pytest.mark.parametrize(
    ("pod", "error", "cause"),
    [
        ({"containerStatuses": ended(3)}, "exit status 3", Cause(exit_code=3)),
        (
            {"containerStatuses": ended(137)},
            "exit status 137: killed, perhaps because it needs more memory",
            Cause(exit_code=137),
        ),
        (
            {"containerStatuses": ended(0, "Completed")},
            "the Job failed: BackoffLimitExceeded: of the Job",
            None,
        ),
        (
            {"containerStatuses": ended(128, "ContainerCannotRun", "exec format error")},
            "the program could not be started: ContainerCannotRun: exec format error",
            None,
        ),
        (
            {"reason": "NodeShutdown", "message": "bye", "containerStatuses": ended(143)},
            "the pod was evicted: NodeShutdown: bye",
            None,
        ),
        ({"reason": "OutOfcpu", "message": "full"}, "the pod failed: OutOfcpu: full", None),
        ({}, "its pod is gone: somebody deleted it, or its node was lost", None),
    ],
)
def test_failures(pod: dict[str, Any], error: str, cause: Cause | None) -> None:
    failure = failed(**pod)
    assert (failure.error, failure.cause) == (error, cause)
    assert failure.is_retryable


def test_preempted_pod_is_told_whatever_its_status() -> None:
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    failure = failed(conditions=[target], containerStatuses=ended(143))
    assert failure.error == "the pod was evicted: PreemptionByScheduler"


def test_deadline_of_the_job_is_a_time_limit() -> None:
    assert failed("DeadlineExceeded").is_timeout


def test_newest_pod() -> None:
    pods = [{"metadata": {"creationTimestamp": f"2026-01-0{day}T00:00:00Z"}} for day in (2, 3, 1)]
    assert newest(pods) is pods[1]
    assert newest([]) is None
