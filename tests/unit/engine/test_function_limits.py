"""Claims that can take fewer leases of some functions than of others."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.gateway import ClaimCall, FunctionLimit, Lease
from mainspring.registry import FunctionRegistry
from mainspring.testing.manual import TENANT, ManualRuntime, ManualWorker


async def light() -> None: ...


def heavy() -> None: ...


def heavier() -> None: ...


@pytest.fixture
async def runtime() -> AsyncIterator[ManualRuntime]:
    registry = FunctionRegistry()
    for call in (light, heavy, heavier):
        registry.add(call.__name__, call)
    async with ManualRuntime(registry) as runtime:
        yield runtime


async def submit(runtime: ManualRuntime, function: str, count: int) -> None:
    job = await runtime.client.jobs.create(TENANT, {"name": function, "function": function})
    await runtime.client.runs.submit_many(TENANT, [Submission(job_id=job.id)] * count)


def make_call(worker: ManualWorker, number: int, *, limit: int, heavy: int) -> ClaimCall:
    return ClaimCall(
        session_id=worker.session_id,
        number=number,
        limit=limit,
        wait=timedelta(0),
        is_idle=False,
        function_limit=FunctionLimit(functions=frozenset({"heavy", "heavier"}), limit=heavy),
    )


def functions(leases: tuple[Lease, ...]) -> Counter[str]:
    return Counter(lease.spec.name for lease in leases)


async def test_no_lease_is_given_of_functions_without_room(runtime: ManualRuntime) -> None:
    await submit(runtime, "heavy", 5)
    await submit(runtime, "light", 5)
    worker = await runtime.worker()
    reply = await runtime.ask(make_call(worker, 1, limit=20, heavy=0))
    assert functions(reply.leases) == {"light": 5}
    reply = await runtime.ask(make_call(worker, 2, limit=20, heavy=0))
    assert reply.leases == ()


async def test_bound_holds_for_all_its_functions_together(runtime: ManualRuntime) -> None:
    await submit(runtime, "heavy", 2)
    await submit(runtime, "heavier", 5)
    await submit(runtime, "light", 5)
    worker = await runtime.worker()
    got: Counter[str] = Counter()
    room = 3
    for number in range(1, 5):
        reply = await runtime.ask(make_call(worker, number, limit=20 - got.total(), heavy=room))
        taken = functions(reply.leases)
        got += taken
        room -= taken["heavy"] + taken["heavier"]
        assert room >= 0
    assert got["light"] == 5
    assert got["heavy"] + got["heavier"] == 3


async def test_call_without_room_keeps_no_other_worker_from_getting_work(runtime: ManualRuntime) -> None:
    """Both offer the same; the one that waits longest has no room for what becomes ready."""
    full, free = await runtime.worker(), await runtime.worker()
    patient = make_call(full, 1, limit=5, heavy=0)
    waiting = asyncio.create_task(runtime.matcher.claim(replace(patient, wait=timedelta(hours=1))))
    await asyncio.sleep(0)
    await runtime.tick("claims")
    await submit(runtime, "heavy", 2)
    assert len(await free.claim()) == 2
    assert not waiting.done()
    waiting.cancel()
