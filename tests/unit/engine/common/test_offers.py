"""Answers that arrive together share one look at what live workers offer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from mainspring.engine.common.serving import OfferReader
from mainspring.ports.store.sessions import SessionFacts
from tests.unit.engine.conftest import Bench


async def test_while_no_worker_lives_answers_that_wait_share_a_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, reads = bench.runtime.store, 0
    list_sessions = store.list_sessions

    async def read() -> Sequence[SessionFacts]:
        nonlocal reads
        reads += 1
        await asyncio.sleep(0)
        return await list_sessions()

    monkeypatch.setattr(store, "list_sessions", read)
    reader = OfferReader(store, clock=bench.runtime.clock)
    found = await asyncio.gather(*(reader.read() for _ in range(50)))
    assert not any(found)
    assert reads == 1
    await bench.runtime.worker()
    assert await reader.read(), "the first worker counts at once"
