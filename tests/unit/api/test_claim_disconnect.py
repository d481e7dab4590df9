"""A claim whose worker has gone waits no longer: nothing is leased to a closed connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import aiohttp
import msgspec
import pytest

from mainspring.core.states import RunState
from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.gateway import ClaimCall, Registration
from mainspring.testing.manual import TENANT, ManualRuntime
from mainspring.wire import protocol
from tests.unit.api.asgi import api_of
from tests.unit.api.serving import serving, until


@pytest.fixture
async def server(runtime: ManualRuntime) -> AsyncIterator[str]:
    """The runtime's own gateway: a claim waits until the test ticks the matcher."""
    async with serving(api_of(runtime)) as address:
        yield address


async def ready_run(runtime: ManualRuntime, **body: object) -> Callable[[], Awaitable[RunState]]:
    job = await runtime.client.jobs.create(TENANT, {"name": "a-job", "function": "work", **body})
    (result,) = await runtime.client.runs.submit_many(TENANT, [Submission(job_id=job.id)])
    assert result.run_id is not None
    run_id = result.run_id

    async def state() -> RunState:
        return (await runtime.client.runs.get(TENANT, run_id)).state

    return state


async def post_claim(server: str, call: ClaimCall) -> bytes:
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"{server}/api/v1/worker/claim",
            data=msgspec.json.encode(protocol.from_claim(call)),
            headers={"Content-Type": "application/json"},
        ) as answer,
    ):
        assert answer.status == 200
        return await answer.read()


async def test_claim_of_a_dead_worker_is_dropped_and_another_gets_the_run(
    runtime: ManualRuntime, server: str
) -> None:
    offer = Registration(name="dies", host="h", pid=1, functions=("work",), slots=5)
    dead = await runtime.gateway.register(offer)
    alive = await runtime.gateway.register(offer)
    call = ClaimCall(session_id=dead.id, number=1, limit=5, wait=timedelta(seconds=20), is_idle=True)
    asking = asyncio.create_task(post_claim(server, call))
    await until(lambda: runtime.matcher.waiting == 1)
    asking.cancel()  # closes the connection, as the death of the process does
    with contextlib.suppress(asyncio.CancelledError):
        await asking
    await until(lambda: runtime.matcher.waiting == 0)
    state = await ready_run(runtime, delivery="at_most_once")
    await runtime.tick("claims")
    assert await state() is RunState.PENDING
    mine = ClaimCall(session_id=alive.id, number=1, limit=5, wait=timedelta(0), is_idle=True)
    assert len((await runtime.ask(mine)).leases) == 1
    assert await state() is RunState.RUNNING


async def test_live_worker_whose_connection_broke_gets_what_its_number_was_given(
    runtime: ManualRuntime, server: str
) -> None:
    """Served in the moment in which the connection broke: a repeat brings the leases, so nothing is handed back."""
    session = await runtime.gateway.register(
        Registration(name="lives", host="h", pid=1, functions=("work",), slots=5)
    )
    state = await ready_run(runtime)
    call = ClaimCall(session_id=session.id, number=1, limit=5, wait=timedelta(seconds=20), is_idle=True)
    asking = asyncio.create_task(post_claim(server, call))
    await until(lambda: runtime.matcher.waiting == 1)
    asking.cancel()
    await runtime.tick("claims")
    assert await state() is RunState.RUNNING
    with contextlib.suppress(asyncio.CancelledError):
        await asking
    again = asyncio.create_task(post_claim(server, call))
    await until(lambda: runtime.matcher.waiting == 1)
    await runtime.tick("claims")
    assert len(msgspec.json.decode(await again)["leases"]) == 1


async def test_claim_that_is_dropped_while_the_desk_reads_takes_nothing(
    runtime: ManualRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await runtime.gateway.register(
        Registration(name="dies", host="h", pid=1, functions=("work",), slots=5)
    )
    state = await ready_run(runtime)
    call = ClaimCall(session_id=session.id, number=1, limit=5, wait=timedelta(seconds=20), is_idle=True)
    asking = asyncio.create_task(runtime.gateway.claim(call))
    await until(lambda: runtime.matcher.waiting == 1)
    read_lanes = runtime.store.read_lanes

    async def read_slowly(*given: Any, **named: Any) -> object:
        asking.cancel()
        await asyncio.sleep(0)
        return await read_lanes(*given, **named)

    monkeypatch.setattr(runtime.store, "read_lanes", read_slowly)
    await runtime.tick("claims")
    assert asking.cancelled()
    assert await state() is RunState.PENDING
