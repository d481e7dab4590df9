"""Runs are counted by where they wait, and skipped ones by why."""

from __future__ import annotations

from datetime import timedelta

from mainspring.engine.common.run_counts import RunCounts
from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.telemetry import MOST_SERIES, Measure
from mainspring.testing.manual import TENANT
from tests.unit.engine.conftest import Bench

MADE = "runs_submitted_total"
SKIPPED = "runs_skipped_total"


def counted(bench: Bench) -> dict[tuple[str, ...], float]:
    """Return what was counted, by name and labels."""
    return {
        (measure.name, *measure.labels): measure.value
        for measure in bench.runtime.telemetry.snapshot()
        if measure.name in (MADE, SKIPPED) and isinstance(measure.value, int | float) and measure.value
    }


async def fire(bench: Bench, seconds: float) -> None:
    """Let time pass, and what is due fire."""
    bench.runtime.clock.advance(seconds)
    await bench.runtime.tick("planner")


async def test_submissions_are_counted_by_queue_and_kind_if_they_make_a_run(bench: Bench) -> None:
    job_id, mail = await bench.add(), await bench.add(name="mail", queue="mail")
    keyed = Submission(job_id=job_id, idempotency_key="once")
    runs = bench.runtime.client.runs
    for _ in range(2):
        await runs.submit(TENANT, keyed)
    await runs.submit_many(TENANT, [keyed, *(Submission(job_id=one) for one in (job_id, mail, mail))])
    assert counted(bench) == {(MADE, TENANT, "default", "manual"): 2, (MADE, TENANT, "mail", "manual"): 2}


async def test_a_run_that_goes_straight_to_a_worker_is_counted(bench: Bench) -> None:
    job_id = await bench.add()
    worker = await bench.runtime.worker()
    del worker
    await bench.runtime.client.runs.submit(TENANT, Submission(job_id=job_id))
    assert counted(bench) == {(MADE, TENANT, "default", "manual"): 1}


async def test_fires_are_counted_alone_and_in_sets(bench: Bench) -> None:
    await bench.add(name="again", every="1m", queue="again")
    at = bench.runtime.clock.now() + timedelta(seconds=30)
    for number in range(3):
        await bench.add(name=f"once-{number}", run_at=at.isoformat(), queue="once")
    await fire(bench, 30)
    await fire(bench, 30)
    assert counted(bench) == {
        (MADE, TENANT, "once", "scheduled"): 3,
        (MADE, TENANT, "again", "scheduled"): 1,
    }


async def test_fires_during_a_run_are_skipped_for_the_overlap(bench: Bench) -> None:
    await bench.add(every="1m", overlap="skip")
    for _ in range(3):
        await fire(bench, 60)
    assert counted(bench) == {(MADE, TENANT, "default", "scheduled"): 1, (SKIPPED, "overlap"): 2}


async def test_a_fire_that_was_missed_is_skipped_for_that(bench: Bench) -> None:
    await bench.add(every="1h", misfire={"policy": "skip", "grace": "10s"})
    await fire(bench, 3700)
    assert counted(bench) == {(SKIPPED, "misfire"): 1}


async def test_fires_in_a_row_that_were_missed_count_as_one(bench: Bench) -> None:
    await bench.add(every="1h", misfire={"policy": "skip", "grace": "10s"})
    await fire(bench, 5 * 3600 + 100)
    assert counted(bench) == {(SKIPPED, "misfire"): 1}
    await bench.add(name="other", every="1h", misfire={"policy": "fire_latest"})
    await fire(bench, 2 * 3600)
    assert counted(bench)[SKIPPED, "misfire"] == 3


async def test_fires_that_are_caught_up_are_counted(bench: Bench) -> None:
    await bench.add(every="1m", misfire={"policy": "fire_all"})
    await fire(bench, 600)
    await bench.runtime.tick("catch-up")
    assert sum(counted(bench).values()) == counted(bench)[MADE, TENANT, "default", "scheduled"] == 10


async def test_runs_that_expire_are_skipped_for_that(bench: Bench) -> None:
    job_id = await bench.add(expires_after="10s")
    await bench.runtime.client.runs.submit(TENANT, Submission(job_id=job_id))
    bench.runtime.clock.advance(11)
    await bench.runtime.tick("reaper")
    assert counted(bench)[SKIPPED, "expired"] == 1


def test_what_a_reason_names_is_no_label() -> None:
    counts = RunCounts()
    counts.note_skipped("calendar:holidays@7", 2)
    counts.note_skipped("overlap", 0)
    assert Measure(SKIPPED, 2, ("calendar",)) in list(counts.measures())
    assert len(list(counts.measures())) == len(list(RunCounts().measures())) > 5


def test_no_more_queues_have_series_of_their_own_than_fit() -> None:
    counts = RunCounts()
    for number in range(MOST_SERIES + 5):
        counts.note_fires([("default", f"queue-{number}")] * 2)
    counts.note_fires([("default", "queue-0")])
    found = {measure.labels: measure.value for measure in counts.measures() if measure.name == MADE}
    assert len(found) == MOST_SERIES + 1
    assert found["_other", "_other", "_other"] == 10
    assert found["default", "queue-0", "scheduled"] == 3
