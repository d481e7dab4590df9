"""A run that is the next one of its lane says what else goes before it."""

from __future__ import annotations

from typing import Any

from mainspring.core.ids import RunId
from mainspring.engine.usecases.submissions import Submission
from mainspring.testing.manual import ManualRuntime
from tests.unit.engine.conftest import Bench

NEXT = "It is the next one, and starts as soon as a worker has a free slot."
HIGHER = f"{NEXT} Before it comes work with a higher priority."


async def submit(runtime: ManualRuntime, tenant: str, name: str = "job", **body: Any) -> RunId:
    job = await runtime.client.jobs.create(tenant, {"name": name, "function": "work"} | body)
    return (await runtime.client.runs.submit(tenant, Submission(job_id=job.id))).run_id


async def ask(runtime: ManualRuntime, run_id: RunId) -> str:
    return (await runtime.client.runs.why("acme", run_id)).sentence


async def test_work_with_a_higher_priority_is_told_of(bench: Bench) -> None:
    runtime = bench.runtime
    await runtime.worker(queues=("default", "alerts"))
    mine = await submit(runtime, "acme", priority="LOW")
    await submit(runtime, "shop", "away", priority="HIGH", queue="away")
    assert await ask(runtime, mine) == NEXT, "its workers do not serve that queue"
    await submit(runtime, "shop", "alert", priority="HIGH", queue="alerts")
    assert await ask(runtime, mine) == HIGHER


async def test_what_cannot_start_goes_before_nobody(bench: Bench) -> None:
    runtime = bench.runtime
    worker = await runtime.worker()
    await runtime.client.queues.put("alerts", {"max_running": 1})
    await runtime.tick("policies")
    mine = await submit(runtime, "acme", priority="LOW")
    for name in ("first", "second"):
        await submit(runtime, "shop", name, priority="HIGH", queue="alerts")
    assert await ask(runtime, mine) == HIGHER
    assert [lease.spec.name for lease in await worker.claim(1)] == ["first"]
    assert await ask(runtime, mine) == NEXT


async def test_the_order_of_the_queue_decides_who_else_is_told_of(bench: Bench) -> None:
    runtime = bench.runtime
    await runtime.worker()
    older = await submit(runtime, "acme")
    runtime.clock.advance(1)
    await submit(runtime, "shop")
    runtime.clock.advance(1)
    younger = await submit(runtime, "acme", "other")
    assert (await ask(runtime, younger)).startswith("1 waits before it")
    assert (await ask(runtime, younger)).endswith("share the slots with it by weight.")
    await runtime.client.queues.put("default", {"order": "fifo"})
    assert await ask(runtime, older) == NEXT
    assert (await ask(runtime, younger)).endswith("runs of other tenants that have waited for longer.")
