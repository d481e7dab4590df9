"""A process without keys does not go on once its store is encrypted."""

from __future__ import annotations

import asyncio
import inspect
import re

import pytest
from structlog.testing import capture_logs

from mainspring.clock import LoopWaiter
from mainspring.core.ciphertexts import EncryptionKey
from mainspring.core.outcomes import succeeded
from mainspring.core.states import RunState
from mainspring.encryption import checkpoints, flows, jobs, run_logs, runs
from mainspring.encryption import store as store_module
from mainspring.encryption.store import WRITING
from mainspring.errors import InvalidInput, StoreUnavailable
from mainspring.ports.store.claims import ClaimRequest
from mainspring.runtime.key_watch import PERIOD, KeyWatch
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.factories import START, add_job, add_session, at, make_new_job, submit

KEY = EncryptionKey("2026-11", b"check", START)


def make() -> tuple[MemoryStore, KeyWatch]:
    bare = MemoryStore(time=FakeClock(START).now)
    return bare, KeyWatch(bare, waiter=LoopWaiter())


async def go_on(watch: KeyWatch) -> None:
    """Look once, and then go on until the block is broken off."""
    async with watch.breaking_off():
        await watch.tick(at(1))
        await asyncio.Event().wait()


async def test_nothing_happens_while_nothing_is_encrypted() -> None:
    _, watch = make()
    async with watch.breaking_off():
        assert await watch.tick(at(0)) == PERIOD
        await watch.store.add_jobs([make_new_job()], now=at(0))


async def test_the_process_is_broken_off_with_a_clear_error() -> None:
    bare, watch = make()
    await bare.add_encryption_key(KEY)
    said = r"keys_file: is not set, but this store is encrypted .* '2026-11'"
    with capture_logs() as logs, pytest.raises(InvalidInput, match=said):
        await go_on(watch)
    assert [(one["event"], one["key"]) for one in logs] == [("encryption_began_elsewhere", "2026-11")]
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_what_was_found_before_the_block_began_is_not_forgotten() -> None:
    bare, watch = make()
    await bare.add_encryption_key(KEY)
    await watch.tick(at(1))
    with pytest.raises(InvalidInput, match="keys_file"):
        async with watch.breaking_off():
            raise AssertionError("the block does not begin")


async def test_nothing_plain_is_written_from_then_on() -> None:
    bare, watch = make()
    store = watch.store
    job, session = await add_job(store), await add_session(store)
    [run_id] = await submit(store, job)
    lanes = tuple(lane.id for lane in await store.read_lanes([]))
    [claimed] = await store.claim_runs(
        [ClaimRequest(session_id=session, number=0, lanes=lanes, limit=1)], now=at(0)
    )
    await bare.add_encryption_key(KEY)
    await watch.tick(at(1))
    end = succeeded(run_id, claimed.runs[0].token, session, b"[1]")
    refused = "the store is encrypted, and this process has no keys_file"
    with pytest.raises(StoreUnavailable, match=refused):
        await store.apply([end], now=at(1))
    with pytest.raises(StoreUnavailable, match=refused):
        await store.add_jobs([make_new_job()], now=at(1))
    with pytest.raises(StoreUnavailable, match=refused):
        await submit(store, job, payload=b"[1]")
    [run] = await store.get_runs([run_id])
    assert run is not None
    assert (run.state, run.result) == (RunState.RUNNING, None)
    assert await store.read_time() == START, "what writes nothing goes on, so that the process can leave"


def test_every_verb_that_writes_what_users_put_in_is_barred() -> None:
    """Those are the verbs that encrypt what they are given."""
    source = "".join(
        inspect.getsource(module) for module in (checkpoints, flows, jobs, runs, run_logs, store_module)
    )
    written = set(re.findall(r"self\._store\.(\w+)\(\s*\[?(?:self\._encrypt_|encrypted\b)", source))
    assert written == WRITING


async def test_one_who_cancels_the_process_gets_that() -> None:
    _, watch = make()

    async def work() -> None:
        async with watch.breaking_off():
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
