"""What a process counts: each figure against what causes it."""

from __future__ import annotations

import asyncio
import random
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from mainspring.clock import LoopWaiter
from mainspring.config.settings import Settings, StoreLocation
from mainspring.core.ids import SHARDS
from mainspring.engine.common.service import ServiceRunner
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import StoreUnavailable
from mainspring.ports.executor import Success
from mainspring.ports.gateway import ClaimCall, Report
from mainspring.ports.hints import Hint
from mainspring.ports.store import FailoverFacts
from mainspring.ports.telemetry import METRICS, SIZES, Distribution, Measure, MetricKind, Spread, Telemetry
from mainspring.registry import FunctionRegistry
from mainspring.runtime import open_engine, run_embedded_worker
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock, ManualWaiter
from mainspring.testing.factories import START
from mainspring.testing.manual import TENANT, ManualRuntime
from tests.unit.engine.common.test_hints import Network, Process
from tests.unit.engine.common.test_service import Counting, settle
from tests.unit.engine.conftest import Bench
from tests.unit.engine.scheduling.test_shards import Cluster
from tests.unit.engine.test_attempts import lose_worker, submit


def figures(*sources: object) -> dict[str, float]:
    telemetry = Telemetry()
    for source in sources:
        telemetry.watch(source)  # type: ignore[arg-type]
    return telemetry.figures()


async def test_lost_sessions_their_attempts_and_late_reports_are_counted(bench: Bench) -> None:
    await submit(bench)
    dead = await bench.runtime.worker()
    (lease,) = await dead.claim()
    await lose_worker(bench)
    await dead.report(Report(run_id=lease.run_id, token=lease.token, ending=Success(result=b"1")))
    found = bench.runtime.telemetry.figures()
    assert found["sessions_lost_total"] == 1
    assert found["attempts_taken_back_total.lost"] == 1
    assert found["attempts_taken_back_total.deadline"] == 0
    assert found["reports_stale_total"] == 1


async def test_attempts_past_their_deadline_are_counted(bench: Bench) -> None:
    await submit(bench, timeout="10s")
    worker = await bench.runtime.worker()
    await worker.claim()
    for _ in range(60):
        bench.runtime.clock.advance(1)
        await worker.beat()
        await bench.runtime.tick("reaper")
    found = bench.runtime.telemetry.figures()
    assert (found["attempts_taken_back_total.deadline"], found["sessions_lost_total"]) == (1, 0)


def ended(bench: Bench) -> dict[tuple[str, ...], float]:
    """Return how many runs ended, by tenant, queue, type and state."""
    return {
        measure.labels: measure.value
        for measure in bench.runtime.telemetry.snapshot()
        if measure.name == "runs_ended_total" and not isinstance(measure.value, Spread)
    }


async def test_runs_that_end_with_an_attempt_that_was_taken_back_are_counted_once(bench: Bench) -> None:
    await submit(bench, timeout="10s", retry={"max_retries": 0})
    worker = await bench.runtime.worker()
    (lease,) = await worker.claim()
    for _ in range(60):
        bench.runtime.clock.advance(1)
        await worker.beat()
        await bench.runtime.tick("reaper")
    await worker.report(Report(run_id=lease.run_id, token=lease.token, ending=Success(result=b"1")))
    assert ended(bench) == {(TENANT, "default", "function", "FAILED"): 1}


async def test_runs_that_are_taken_back_to_run_again_have_not_ended(bench: Bench) -> None:
    await submit(bench)
    dead = await bench.runtime.worker()
    await dead.claim()
    await lose_worker(bench)
    assert bench.runtime.telemetry.figures()["attempts_taken_back_total.lost"] == 1
    assert ended(bench) == {}


async def test_runs_that_another_process_gave_out_are_counted_by_their_queue_when_their_worker_is_lost(
    bench: Bench,
) -> None:
    await submit(bench, queue="mail", delivery="at_most_once")
    dead = await bench.runtime.worker()
    (lease,) = await dead.claim()
    bench.runtime.gateway._book.take([lease.run_id])  # as after a start of this process
    await lose_worker(bench)
    assert ended(bench) == {(TENANT, "mail", "function", "FAILED"): 1}


async def test_leases_that_no_worker_knows_are_counted(bench: Bench) -> None:
    await submit(bench)
    worker = await bench.runtime.worker()
    await worker.claim()
    worker.held.clear()
    for _ in range(3):
        await worker.beat()
    assert bench.runtime.telemetry.figures()["leases_released_total"] == 1


async def test_waiting_claims_are_shown(bench: Bench) -> None:
    worker = await bench.runtime.worker()
    wait = timedelta(seconds=20)
    call = ClaimCall(session_id=worker.session_id, number=1, limit=1, wait=wait, is_idle=True)
    claim = asyncio.ensure_future(bench.runtime.gateway.claim(call))
    await asyncio.sleep(0)
    assert bench.runtime.telemetry.figures()["claims_waiting"] == 1
    bench.runtime.matcher.close()
    await claim
    assert bench.runtime.telemetry.figures()["claims_waiting"] == 0


class FailedOver(MemoryStore):
    """Knows of one failover."""

    @property
    def failovers(self) -> tuple[FailoverFacts, ...]:
        return (
            FailoverFacts(
                noticed_at=START, from_timeline=1, to_timeline=2, last_position=0, shared_position=0,
                missing_wal=0, runs_checked=0, are_all_checked=True, runs_lost=0, lost_run_ids=(),
            ),
        )  # fmt: skip


async def test_failovers_of_the_database_are_counted() -> None:
    clock = FakeClock()
    async with ManualRuntime(clock=clock, store=FailedOver(time=clock.now)) as runtime:
        assert runtime.telemetry.figures()["store_failovers_total"] == 1


async def test_calls_that_go_together_are_counted_by_their_size(bench: Bench) -> None:
    job_id = await bench.add()
    submission = Submission(job_id=job_id)
    await bench.runtime.client.runs.submit(TENANT, submission)
    await asyncio.gather(*(bench.runtime.client.runs.submit(TENANT, submission) for _ in range(9)))
    found = bench.runtime.telemetry.figures()
    assert found["group_commit_items_sum.submit"] == 10
    assert found["group_commit_items_count.submit"] < 10


async def test_shards_are_shown_as_they_are_taken_given_up_and_fenced() -> None:
    cluster = Cluster()
    first, second = await cluster.add("a"), await cluster.add("b")
    await cluster.advance(30)
    found = figures(first.shards)
    assert found["shards_owned"] + figures(second.shards)["shards_owned"] == SHARDS
    assert found["shards_taken_total"] - found["shards_released_total"] == found["shards_owned"]
    assert found["shards_released_total"] > 0
    assert (found["servers_alive"], found["clock_skew_seconds"]) == (2, 0.0)
    used = first.ownership.epochs
    first.ownership.fence(list(used)[:3], used=used)
    assert figures(first.shards)["shards_fenced_total"] == 3
    second.skew = 60.0
    await cluster.advance(3)
    assert figures(second.shards)["clock_skew_seconds"] == 60.0


async def test_hints_are_counted_where_they_go_out_and_come_in() -> None:
    network, clock = Network(), FakeClock()
    a, b = Process(network, "a", clock), Process(network, "b", clock)
    for process in (a, b):
        await process.tick()
    clock.advance(1.0)
    for _ in range(2):
        a.wakeups.clocks_changed()
        await a.tick()
        clock.advance(1.0)
    network.is_down = True
    a.wakeups.cancel_requested()
    with pytest.raises(StoreUnavailable):
        await a.tick()
    sent, heard = figures(a.exchange), figures(b.exchange)
    assert sent["hints_sent_total.clocks"] == heard["hints_heard_total.clocks"] == 2
    assert sent["hints_sent_total.cancels"] == 0
    network.is_down = False
    await a.tick()
    a.wakeups.shards_left()
    await a.exchange.close()
    assert figures(a.exchange)["hints_sent_total.shards"] == 1
    assert {name.rpartition(".")[2] for name in sent} == set(Hint)


async def test_ticks_of_services_are_timed_and_their_failures_counted() -> None:
    waiter, clock = ManualWaiter(), FakeClock()

    async def act(number: int) -> float:
        clock.advance(0.25)
        if number == 2:
            raise StoreUnavailable("away")
        return 60.0

    runner = ServiceRunner(Counting(waiter, act), clock=clock, random=random.Random(1))
    runner.start()
    for _ in range(3):
        await waiter.until_waiting()
        waiter.signal()
        await settle()
    found = figures(runner)
    await runner.stop()
    assert found["service_tick_seconds_count.counting"] == 4
    assert found["service_tick_seconds_sum.counting"] == 1.0
    assert found["service_failures_total.counting"] == 1


OF_CENSUS = {
    *("queue_runs", "queue_oldest_seconds", "dead_runs", "clocks_overdue", "census_age_seconds"),
    *("ledger_missing", "ledger_surplus", "alerts_firing", "monitor_up"),
}
"""Known only when a census has met some, a check of all ledgers was made, an alert has fired, or there is a monitor."""


async def test_a_process_with_a_worker_shows_everything_in_one_place(tmp_path: Path) -> None:
    """Also what only a job can cause: a loop that it blocks, a function that outlives its time."""
    registry, release = FunctionRegistry(), threading.Event()

    async def blocks() -> None:
        release.wait(20)

    def hangs() -> None:
        release.wait(20)

    registry.add("blocks", blocks)
    registry.add("hangs", hangs)
    registry.add("quick", _nothing)
    settings = Settings(store=StoreLocation("sqlite", str(tmp_path)), slots=7, drain=timedelta(0))
    async with open_engine(settings, registry=registry) as engine:
        client = engine.client
        async with run_embedded_worker(engine, settings, registry):
            for count, (name, timeout) in enumerate(
                (("quick", 30), ("blocks", 0.2), ("hangs", 0.2)), start=1
            ):
                body = {"name": name, "function": name, "timeout": timeout, "retry": {"max_retries": 0}}
                body["metrics"] = True
                job = await client.jobs.create(TENANT, body)
                await client.runs.submit(TENANT, Submission(job_id=job.id))
                async with asyncio.timeout(30):
                    while engine.telemetry.figures()["worker_reports_total.applied"] < count:
                        await LoopWaiter().wait(0.02)
            found = engine.telemetry.figures()
            release.set()
        assert (found["worker_slots"], found["worker_slots_used"], found["worker_held"]) == (7, 0, 0)
        assert (found["worker_active"], found["worker_unreported"]) == (0, 0)
        assert (found["worker_reports_total.applied"], found["worker_reports_total.stale"]) == (3, 0)
        assert (found["loops_stalled_total"], found["functions_abandoned_total"]) == (1, 2)
        assert found["group_commit_items_sum.sqlite"] >= found["group_commit_items_count.sqlite"] > 0
        assert found["service_tick_seconds_count.claims"] > 0
        names = {measure.name for measure in engine.telemetry.snapshot()}
        assert METRICS.keys() - names - OF_CENSUS == {
            *("hints_sent_total", "hints_heard_total"),  # one process: no exchange
            *("http_request_seconds", "requests_denied_total", "build_info"),  # of what serves the API
            "traces_broken_total",  # likewise
            "spans_total",  # with a collector
            "watchdog_pings_total",  # with a monitor elsewhere
            "vault_failures_total",  # with a secret in Vault
            *(
                f"archive_{name}"
                for name in ("rows_total", "bytes_total", "failures_total", "waiting_seconds")
            ),
            "loop_lag_seconds",  # likewise
        }
        for measure in engine.telemetry.snapshot():
            metric = METRICS[measure.name]
            assert len(measure.labels) == len(metric.labels)
            assert isinstance(measure.value, Spread) == (metric.kind is MetricKind.DISTRIBUTION)
    assert not any(name.startswith("service_") for name in engine.telemetry.figures())


async def _nothing() -> None:
    """Ends at once."""


def test_values_are_counted_by_bounds() -> None:
    sizes = Distribution(SIZES)
    for value in (1, 2, 2, 3, 1000, 1001):
        sizes.add(value)
    spread = sizes.read()
    assert spread.counts == (1, 2, 1, 0, 0, 0, 0, 0, 0, 1, 1)
    assert (spread.count, spread.total) == (6, 2009)
    assert spread.cumulated == (1, 3, 4, 4, 4, 4, 4, 4, 4, 5, 6)


def test_the_same_of_two_sources_is_added_up() -> None:
    class Two:
        def __init__(self, number: int) -> None:
            self.number = number
            self.sizes = Distribution((1.0,))

        def measures(self) -> list[Measure]:
            self.sizes.add(self.number)
            return [
                Measure("worker_slots", self.number),
                Measure("group_commit_items", self.sizes.read(), ("beat",)),
            ]

    telemetry, first, second = Telemetry(), Two(1), Two(2)
    telemetry.watch(first)
    telemetry.watch(second)
    assert telemetry.snapshot() == (
        Measure("group_commit_items", Spread((1.0,), (1, 1), 3.0), ("beat",)),
        Measure("worker_slots", 3),
    )
    telemetry.forget(first)
    assert telemetry.figures() == {
        "group_commit_items_count.beat": 2, "group_commit_items_sum.beat": 4.0, "worker_slots": 2,
    }  # fmt: skip
