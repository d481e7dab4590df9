"""Answers share a look at what live workers offer, until a worker registers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import pytest

from mainspring.ports.store.sessions import SessionFacts
from tests.unit.engine.conftest import Bench


@dataclass
class Reads:
    """Counts the looks at the sessions. If there is a worker to come, it registers while the next one is under way."""

    count: int = 0
    comes: Callable[[], Awaitable[object]] | None = None


@pytest.fixture
def reads(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Reads:
    reads, list_sessions = Reads(), bench.runtime.store.list_sessions

    async def read() -> Sequence[SessionFacts]:
        reads.count += 1
        found = await list_sessions()
        await asyncio.sleep(0)
        if reads.comes is not None:
            comes, reads.comes = reads.comes, None
            await comes()
        return found

    monkeypatch.setattr(bench.runtime.store, "list_sessions", read)
    return reads


async def test_answers_of_a_second_share_a_read_also_while_no_worker_lives(
    bench: Bench, reads: Reads
) -> None:
    client = bench.runtime.client
    found = await asyncio.gather(*(client.offers() for _ in range(50)))
    assert not any(found)
    assert not await client.offers()
    assert reads.count <= 2, "those that come while the first is under way share the second"


async def test_a_worker_that_registers_here_counts_at_once(bench: Bench, reads: Reads) -> None:
    client = bench.runtime.client
    assert not await client.offers()
    await bench.runtime.worker()
    assert await client.offers()


async def test_a_worker_that_registers_during_a_read_counts_for_the_next(bench: Bench, reads: Reads) -> None:
    client = bench.runtime.client
    reads.comes = bench.runtime.worker
    assert not await client.offers()
    assert await client.offers()
