from datetime import timedelta

import pytest

from mainspring.core.ids import FireRangeId
from mainspring.core.model import FireRangeKind, LaneKey, Priority, RunKind, Target
from mainspring.core.planning import PlannedRange, jittered
from mainspring.engine.scheduling.run_factory import (
    fire_range_of,
    lane_of,
    make_caught_up_run,
    make_fired_run,
)
from mainspring.testing.factories import START, IdSequence, at, make_spec

JOB = IdSequence().new_job_id()
HOUR = timedelta(hours=1)


def test_lane_is_queue_route_tenant_and_priority() -> None:
    spec = make_spec(
        target=Target("function", {"function": "send"}),
        labels=("eu", "gpu"),
        queue="mail",
        priority=Priority.HIGH,
    )
    assert lane_of(spec, "acme") == LaneKey("mail", "function:send+eu+gpu", "acme", Priority.HIGH)


def test_fired_run_keeps_its_nominal_time_and_starts_with_the_jitter() -> None:
    spec = make_spec(jitter=timedelta(seconds=30), expires_after=HOUR, timeout=timedelta(minutes=7))
    run = make_fired_run(spec, job_id=JOB, version=3, tenant="acme", fire_at=START, expiries={})
    due_at = jittered(JOB, START, spec.jitter)
    assert due_at > START
    assert (run.fire_at, run.due_at, run.expires_at) == (START, due_at, due_at + HOUR)
    assert (run.job_id, run.version, run.kind, run.timeout) == (
        JOB,
        3,
        RunKind.SCHEDULED,
        timedelta(minutes=7),
    )
    assert run.lane == lane_of(spec, "acme")
    assert (run.fire_range_id, run.skip_reason, run.payload, run.submit_key) == (None, None, None, None)


def test_fired_run_without_limits_starts_at_its_time_and_never_expires() -> None:
    run = make_fired_run(make_spec(), job_id=JOB, version=1, tenant="acme", fire_at=START, expiries={})
    assert (run.due_at, run.expires_at) == (START, None)


def test_skipped_fire_carries_its_reason() -> None:
    run = make_fired_run(
        make_spec(), job_id=JOB, version=1, tenant="acme", fire_at=START, expiries={}, skip_reason="misfire"
    )
    assert run.skip_reason == "misfire"


@pytest.mark.parametrize("kind", [RunKind.SCHEDULED, RunKind.BACKFILL])
def test_caught_up_run_is_due_now_and_expires_from_now(kind: RunKind) -> None:
    spec = make_spec(jitter=timedelta(seconds=30), expires_after=HOUR)
    run = make_caught_up_run(
        spec,
        job_id=JOB,
        version=2,
        tenant="acme",
        fire_at=START,
        kind=kind,
        fire_range_id=FireRangeId(9),
        expiries={},
        now=at(99_999),
    )
    assert (run.fire_at, run.due_at, run.expires_at) == (START, at(99_999), at(99_999) + HOUR)
    assert (run.kind, run.fire_range_id, run.version) == (kind, 9, 2)


def test_fire_range_takes_over_its_planned_range() -> None:
    fire_range = fire_range_of(
        PlannedRange(FireRangeKind.GAP, START, at(60), "misfire"), job_id=JOB, version=4, trigger=None
    )
    assert (fire_range.kind, fire_range.from_at, fire_range.to_at, fire_range.reason) == (
        FireRangeKind.GAP,
        START,
        at(60),
        "misfire",
    )
    assert (fire_range.job_id, fire_range.version) == (JOB, 4)
