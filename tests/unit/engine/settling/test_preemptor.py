"""An urgent job need not wait behind hours of batch work: the whole engine, step by step."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.core.ids import JobId, RunId
from mainspring.core.model import Priority
from mainspring.core.pauses import PauseScope
from mainspring.core.preemption import MOST_TIMES
from mainspring.core.states import RunState
from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.executor import Success
from mainspring.ports.gateway import HandedBack, Lease, Report
from mainspring.testing.manual import TENANT, ManualWorker
from tests.unit.engine.conftest import Bench


def preempted(lease: Lease) -> Report:
    ending = HandedBack(was_started=True, is_preempted=True)
    return Report(run_id=lease.run_id, token=lease.token, ending=ending)


async def told(bench: Bench, worker: ManualWorker) -> list[RunId]:
    """The runs that the worker is asked to stop with its next heartbeat."""
    held = tuple((lease.run_id, lease.token) for lease in worker.held)
    reply = await bench.runtime.gateway.beat(worker.session_id, held)
    return [run_id for run_id, _ in reply.preempt]


async def submit(bench: Bench, job_id: JobId, count: int = 1, **fields: Any) -> list[RunId]:
    return [
        (await bench.runtime.client.runs.submit(TENANT, Submission(job_id=job_id, **fields))).run_id
        for _ in range(count)
    ]


async def fill(bench: Bench, *, slots: int = 2, **fields: Any) -> ManualWorker:
    """Set the queue, and give a worker as much batch work as it has slots."""
    await bench.runtime.client.queues.put("default", {"preempt_after": "10s"})
    worker = await bench.runtime.worker(slots=slots, labels=tuple(fields.get("labels", ())))
    batch = await bench.add(name="batch", **{"priority": "LOW", "preemptible": True, **fields})
    for run_id in await submit(bench, batch, slots):
        [lease] = await worker.claim(1)
        assert lease.run_id == run_id
        bench.runtime.clock.advance(1)
    return worker


async def test_the_youngest_run_gives_its_slot_to_urgent_work(bench: Bench) -> None:
    worker = await fill(bench)
    _, youngest = worker.held
    urgent = await bench.add(name="urgent", priority="HIGH")
    [waiting] = await submit(bench, urgent)
    await bench.runtime.advance(9)
    assert await told(bench, worker) == []
    await bench.runtime.advance(2)
    assert await told(bench, worker) == [youngest.run_id]
    await bench.runtime.advance(30)
    assert await told(bench, worker) == [youngest.run_id], "one is enough"
    await worker.report(preempted(youngest))
    run = await bench.run(youngest.run_id)
    assert (run.state, run.attempt, run.token, run.crashes) == (RunState.PENDING, 1, youngest.token + 1, 0)
    [attempt] = await bench.runtime.client.runs.attempts(TENANT, youngest.run_id)
    assert (attempt.outcome, attempt.error) == ("preempted", "preempted by HIGH work of queue default")
    [lease] = await worker.claim(1)
    assert lease.run_id == waiting, "the slot goes to who waited"
    why = await bench.runtime.client.runs.why(TENANT, youngest.run_id)
    assert "It was preempted by HIGH work of queue default at 20" in why.sentence
    assert bench.runtime.telemetry.figures()["attempts_preempted_total"] == 1


async def test_a_success_in_the_meantime_wins(bench: Bench) -> None:
    worker = await fill(bench, slots=1)
    [lease] = worker.held
    await submit(bench, await bench.add(name="urgent", priority="HIGH"))
    await bench.runtime.advance(11)
    assert await told(bench, worker) == [lease.run_id]
    await worker.report(Report(run_id=lease.run_id, token=lease.token, ending=Success()))
    assert (await bench.run(lease.run_id)).state is RunState.SUCCEEDED


async def test_a_run_is_preempted_three_times_at_most(bench: Bench) -> None:
    worker = await fill(bench, slots=1)
    urgent = await bench.add(name="urgent", priority="HIGH")
    for _ in range(MOST_TIMES):
        [lease] = worker.held
        await submit(bench, urgent)
        await bench.runtime.advance(12)
        assert await told(bench, worker) == [lease.run_id]
        await worker.report(preempted(lease))
        [first] = await worker.claim(1)
        await worker.report(Report(run_id=first.run_id, token=first.token, ending=Success()))
        [again] = await worker.claim(1)
        assert (again.run_id, again.attempt) == (lease.run_id, 1)
    await submit(bench, urgent)
    await bench.runtime.advance(60)
    assert await told(bench, worker) == []


@pytest.mark.parametrize(
    ("batch", "urgent"),
    [
        ({"preemptible": False}, {"priority": "HIGH"}),
        ({}, {"priority": "MEDIUM"}),
        ({}, {"priority": "HIGH", "preempts": False}),
        ({}, {"priority": "HIGH", "queue": "calm"}),
        ({}, {"priority": "HIGH", "labels": ["gpu"]}),
        ({"priority": "HIGH"}, {"priority": "HIGH"}),
        ({}, {"priority": "HIGH", "concurrency": 1}),
    ],
)
async def test_nobody_gives_way(bench: Bench, batch: dict[str, Any], urgent: dict[str, Any]) -> None:
    worker = await fill(bench, slots=1, **batch)
    await submit(bench, await bench.add(name="urgent", **urgent))
    await bench.runtime.advance(60)
    assert await told(bench, worker) == []


async def test_a_class_that_preempts_takes_slots_across_queues(bench: Bench) -> None:
    worker = await fill(bench, slots=1, queue="films")
    await bench.runtime.client.priority_classes.put("urgent", {"tier": "MEDIUM", "preempts": True})
    await submit(bench, await bench.add(name="urgent", priority="urgent"))
    await bench.runtime.advance(11)
    assert await told(bench, worker) == [worker.held[0].run_id]


async def test_a_run_with_a_tier_of_its_own_goes_by_it(bench: Bench) -> None:
    worker = await fill(bench, slots=1)
    job_id = await bench.add(name="usual", priority="MEDIUM")
    await submit(bench, job_id)
    await bench.runtime.advance(11)
    assert await told(bench, worker) == []
    await submit(bench, job_id, priority=Priority.HIGH)
    await bench.runtime.advance(11)
    assert await told(bench, worker) == [worker.held[0].run_id]


async def test_what_is_paused_takes_no_slots(bench: Bench) -> None:
    worker = await fill(bench, slots=1, queue="films")
    await submit(bench, await bench.add(name="urgent", priority="HIGH"))
    pauses = bench.runtime.client.pauses
    await pauses.pause(PauseScope.QUEUE, "default", {}, made_by="tester")
    await bench.runtime.advance(25)
    assert await told(bench, worker) == []
    await pauses.resume(PauseScope.QUEUE, "default")
    await bench.runtime.advance(2)
    assert await told(bench, worker) == [worker.held[0].run_id]


async def test_what_is_in_a_blackout_takes_no_slots(bench: Bench) -> None:
    worker = await fill(bench, slots=1, queue="films")
    await submit(bench, await bench.add(name="urgent", priority="HIGH"))
    client = bench.runtime.client
    await client.calendars.put(TENANT, "day", {"tz": "UTC", "rules": [{"date": "2026-01-05"}]})
    items = {"items": [{"calendar": "day", "note": "the books"}]}
    await client.blackouts.put(PauseScope.QUEUE, "default", items, tenant=TENANT, made_by="tester")
    await bench.runtime.advance(25)
    assert await told(bench, worker) == []
    await client.blackouts.put(PauseScope.QUEUE, "default", {"items": []}, tenant=TENANT, made_by="tester")
    await bench.runtime.advance(2)
    assert await told(bench, worker) == [worker.held[0].run_id]


@pytest.mark.parametrize("scope", ["queue", "tenant", "label"])
async def test_a_full_cap_takes_no_slots(bench: Bench, scope: str) -> None:
    """The cap would stop what waits in the slot of the stopped run as well, again and again."""
    client = bench.runtime.client
    labels = ["gpu"] if scope == "label" else []
    worker = await fill(bench, slots=2, queue="films", labels=labels)
    urgent = await bench.add(name="urgent", priority="HIGH", labels=labels)
    other = await bench.runtime.worker(slots=1)
    if scope == "queue":
        await submit(bench, urgent)
        await other.claim(1)
    else:
        await bench.runtime.gateway.leave(other.session_id)

    async def cap(most: int) -> None:
        if scope == "queue":
            await client.queues.put("default", {"preempt_after": "10s", "max_running": most})
        elif scope == "tenant":
            await client.tenants.put(TENANT, {"max_running": most})
        else:
            await client.labels.put("gpu", {"max_running": most})

    full = 1 if scope == "queue" else 2
    await cap(full)
    await submit(bench, urgent, 3)
    for _ in range(2):
        await bench.runtime.advance(15)
        assert await told(bench, worker) == []
        if other.held:
            await other.beat()
    await cap(full + 1)
    await bench.runtime.advance(2)
    assert await told(bench, worker) == [worker.held[-1].run_id], "there is room for one"


async def test_a_free_slot_is_enough(bench: Bench) -> None:
    worker = await fill(bench, slots=2)
    await bench.runtime.worker(slots=1)
    await submit(bench, await bench.add(name="urgent", priority="HIGH"))
    await bench.runtime.advance(30)
    assert await told(bench, worker) == []


async def test_a_mark_that_nobody_heard_is_made_up_for(bench: Bench) -> None:
    """A worker of an older release goes on with its run: after a minute, another one is asked."""
    worker = await fill(bench, slots=2)
    oldest, youngest = worker.held
    await submit(bench, await bench.add(name="urgent", priority="HIGH"))
    await bench.runtime.advance(11)
    assert await told(bench, worker) == [youngest.run_id]
    for _ in range(7):
        await bench.runtime.advance(9)
        await worker.beat()
    assert await told(bench, worker) == [oldest.run_id, youngest.run_id]


async def test_a_hand_back_for_another_reason_is_none(bench: Bench) -> None:
    worker = await fill(bench, slots=1)
    [lease] = worker.held
    await worker.report(preempted(lease))
    [attempt] = await bench.runtime.client.runs.attempts(TENANT, lease.run_id)
    assert attempt.outcome == "handed_back"


async def test_without_a_queue_that_asks_for_it_nothing_is_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.runtime.store, "read_kept_waiting", None)
    await bench.runtime.client.queues.put("default", {"aging": "10s"})
    await bench.runtime.advance(3)


async def test_a_worker_of_another_tenant_is_asked_for_nothing(bench: Bench) -> None:
    """Its slot would be of no use to what waits."""
    bank = await bench.runtime.worker(tenant="bank", slots=1)
    await bench.runtime.client.queues.put("default", {"preempt_after": "10s"})
    body = {"name": "batch", "function": "work", "priority": "LOW", "preemptible": True}
    job = await bench.runtime.client.jobs.create("bank", body)
    await bench.runtime.client.runs.submit("bank", Submission(job_id=job.id))
    [lease] = await bank.claim(1)
    await submit(bench, await bench.add(name="urgent", priority="HIGH"))
    await bench.runtime.advance(12)
    assert await told(bench, bank) == []
    everyone = await bench.runtime.worker(slots=1)
    [urgent] = await everyone.claim(1)
    assert urgent.run_id != lease.run_id
