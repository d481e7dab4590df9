"""What is counted of attempts: when they start, how long they take, and how they end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.states import RunState
from mainspring.engine.claiming.job_tally import JobTally
from mainspring.engine.claiming.tally import UNKNOWN
from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.gateway import ReportResult
from mainspring.ports.telemetry import LAGS, MOST_MEASURED_JOBS, MOST_SERIES, OTHER, Distribution, Spread
from mainspring.testing.factories import START
from mainspring.testing.manual import TENANT
from tests.unit.engine.conftest import Bench


def measured(bench: Bench, name: str) -> Mapping[tuple[str, ...], Any]:
    """Return the values of a metric, by labels."""
    return {one.labels: one.value for one in bench.runtime.telemetry.snapshot() if one.name == name}


async def submit(bench: Bench, job_id: Any, count: int) -> None:
    for _ in range(count):
        await bench.runtime.client.runs.submit(TENANT, Submission(job_id=job_id))


async def test_attempts_are_counted_by_their_labels(bench: Bench) -> None:
    mail = await bench.add(name="mail", queue="mail", priority="HIGH")
    other = await bench.add(name="other")
    await submit(bench, mail, 3)
    await submit(bench, other, 1)
    bench.runtime.clock.advance(7)
    worker = await bench.runtime.worker()
    leases = await worker.claim(100)
    bench.runtime.clock.advance(2)
    await worker.report(*[await worker.carry_out(lease) for lease in leases])
    lags = measured(bench, "run_start_lag_seconds")
    assert {labels: (lag.count, lag.total) for labels, lag in lags.items() if lag.count} == {
        ("default", "mail", "HIGH"): (3, pytest.approx(21)),
        ("default", "default", "MEDIUM"): (1, pytest.approx(7)),
    }
    times = measured(bench, "attempt_duration_seconds")
    assert {labels: (time.count, time.total) for labels, time in times.items() if time.count} == {
        ("default", "mail", "function"): (3, pytest.approx(6)),
        ("default", "default", "function"): (1, pytest.approx(2)),
    }
    assert measured(bench, "attempts_total") == {
        ("default", "mail", "function", "succeeded"): 3,
        ("default", "default", "function", "succeeded"): 1,
    }
    assert measured(bench, "runs_ended_total") == {
        ("default", "mail", "function", "SUCCEEDED"): 3,
        ("default", "default", "function", "SUCCEEDED"): 1,
    }


async def test_only_first_attempts_are_late_and_only_last_ones_end_a_run(bench: Bench) -> None:
    job_id = await bench.add(retry={"max_retries": 1, "delay": "1s", "jitter": 0})
    bench.failures += [ValueError("no")] * 2
    await submit(bench, job_id, 1)
    worker = await bench.runtime.worker()
    await worker.work()
    await bench.runtime.advance(5)
    await worker.work()
    [lag] = [lag for lag in measured(bench, "run_start_lag_seconds").values() if lag.count]
    assert (lag.count, lag.total) == (1, 0)
    labels = ("default", "default", "function")
    assert measured(bench, "attempts_total") == {(*labels, "failed"): 2}
    assert measured(bench, "runs_ended_total") == {(*labels, RunState.FAILED.value): 1}


async def test_a_mixed_batch_of_reports_is_counted_by_each_end(bench: Bench) -> None:
    job_id = await bench.add(retry={"max_retries": 0})
    await submit(bench, job_id, 4)
    worker = await bench.runtime.worker()
    leases = await worker.claim(4)
    bench.failures += [ValueError("no")]
    await worker.report(*[await worker.carry_out(lease) for lease in leases])
    labels = ("default", "default", "function")
    assert measured(bench, "runs_ended_total") == {(*labels, "FAILED"): 1, (*labels, "SUCCEEDED"): 3}


async def test_what_another_process_gave_out_has_no_labels(bench: Bench) -> None:
    job_id = await bench.add()
    await submit(bench, job_id, 1)
    worker = await bench.runtime.worker()
    [lease] = await worker.claim(1)
    bench.runtime.gateway._book.take([lease.run_id])
    await worker.report(await worker.carry_out(lease))
    unknown = (UNKNOWN, UNKNOWN, UNKNOWN)
    assert measured(bench, "attempts_total") == {(*unknown, "succeeded"): 1}
    assert measured(bench, "attempt_duration_seconds")[unknown].count == 0


async def test_a_report_that_was_refused_is_not_counted(bench: Bench) -> None:
    job_id = await bench.add()
    await submit(bench, job_id, 1)
    worker = await bench.runtime.worker()
    [lease] = await worker.claim(1)
    report = await worker.carry_out(lease)
    assert await worker.report(replace(report, token=report.token + 1)) == [ReportResult.STALE]
    assert measured(bench, "attempts_total") == {}
    await worker.report(report)
    assert list(measured(bench, "attempts_total").values()) == [1]


async def test_no_more_labels_than_may_be(bench: Bench) -> None:
    for number in range(MOST_SERIES + 2):
        job_id = await bench.add(name=f"job-{number}", queue=f"queue-{number}")
        await submit(bench, job_id, 1)
    worker = await bench.runtime.worker(slots=1000)
    while await worker.work():
        pass
    found = measured(bench, "attempts_total")
    assert len(found) == MOST_SERIES + 1
    assert found[OTHER, OTHER, OTHER, "succeeded"] == 2


async def test_jobs_that_ask_for_it_have_figures_of_their_own(bench: Bench) -> None:
    asks = await bench.add(name="asks", retry={"max_retries": 1, "delay": "1s", "jitter": 0}, metrics=True)
    await submit(bench, asks, 1)
    bench.failures += [ValueError("no")] * 2
    worker = await bench.runtime.worker()
    await worker.work()
    await bench.runtime.advance(5)
    await worker.work()
    labels = (TENANT, "asks")
    assert measured(bench, "job_runs_total") == {(*labels, "FAILED"): 1}
    assert measured(bench, "job_last_success_timestamp_seconds") == {}
    await submit(bench, await bench.add(name="silent"), 1)
    await submit(bench, asks, 2)
    await worker.work()
    assert measured(bench, "job_runs_total") == {(*labels, "FAILED"): 1, (*labels, "SUCCEEDED"): 2}
    seen = bench.runtime.clock.now().timestamp()
    assert measured(bench, "job_last_success_timestamp_seconds") == {labels: seen}
    bench.runtime.clock.advance(60)
    assert measured(bench, "job_last_success_timestamp_seconds") == {labels: seen}


async def test_runs_that_were_taken_back_count_for_their_job(bench: Bench) -> None:
    job_id = await bench.add(name="asks", timeout="10s", retry={"max_retries": 0}, metrics=True)
    await submit(bench, job_id, 1)
    worker = await bench.runtime.worker()
    await worker.claim()
    for _ in range(60):
        bench.runtime.clock.advance(1)
        await worker.beat()
        await bench.runtime.tick("reaper")
    assert measured(bench, "job_runs_total") == {(TENANT, "asks", "FAILED"): 1}


def test_no_more_jobs_have_figures_than_may() -> None:
    tally = JobTally()
    for number in range(MOST_MEASURED_JOBS + 2):
        tally.note("shop", f"job-{number}", RunState.SUCCEEDED, 1, START)
    tally.note("shop", "job-0", RunState.SUCCEEDED, 3, START)
    found = list(tally.measures())
    runs = {one.labels: one.value for one in found if one.name == "job_runs_total"}
    assert len(runs) == MOST_MEASURED_JOBS + 1
    assert runs[OTHER, OTHER, "SUCCEEDED"] == 2
    assert runs["shop", "job-0", "SUCCEEDED"] == 4
    assert len(found) - len(runs) == MOST_MEASURED_JOBS


@given(st.lists(st.floats(0, 10_000)))
def test_many_values_are_counted_as_one_by_one(values: list[float]) -> None:
    one_by_one, together = Distribution(LAGS), Distribution(LAGS)
    for value in values:
        one_by_one.add(value)
    together.add_all(list(values))
    found, expected = together.read(), one_by_one.read()
    assert found.counts == expected.counts
    assert found.total == pytest.approx(expected.total)


@given(st.floats(0, 10_000), st.integers(1, 50))
def test_a_value_counts_several_times(value: float, count: int) -> None:
    several = Distribution(LAGS)
    several.add(value, count)
    assert isinstance(several.read(), Spread)
    assert several.read().count == count
    assert several.read().total == pytest.approx(value * count)
