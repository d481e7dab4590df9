"""The cache of definitions never loses what was asked for, however full it is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from mainspring.core.ids import JobId
from mainspring.core.model import JobSpec
from mainspring.engine.common import definitions as module
from mainspring.engine.common.definitions import Definitions
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.factories import add_job

Key = tuple[JobId, int]
CAPACITY = 4


class SlowStore(MemoryStore):
    """Answers a read of definitions when `gate` is open; notes what was read."""

    def __init__(self) -> None:
        super().__init__(time=FakeClock().now)
        self.gate = asyncio.Event()
        self.gate.set()
        self.reads: list[Sequence[Key]] = []

    async def read_versions(self, keys: Sequence[Key]) -> list[JobSpec | None]:
        self.reads.append(keys)
        await self.gate.wait()
        return await super().read_versions(keys)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CAPACITY", CAPACITY)


async def make(count: int) -> tuple[SlowStore, Definitions, list[Key]]:
    store = SlowStore()
    return store, Definitions(store), [((await add_job(store)).id, 1) for _ in range(count)]


async def test_known_definitions_stay_in_the_answer_when_the_cache_makes_room() -> None:
    _, definitions, keys = await make(CAPACITY + 1)
    await definitions.load(keys[:CAPACITY])
    assert list(await definitions.load(keys)) == keys


async def test_known_definitions_stay_in_the_answer_when_another_load_makes_room() -> None:
    store, definitions, keys = await make(2 * CAPACITY)
    await definitions.load(keys[:2])
    store.gate.clear()
    first = asyncio.create_task(definitions.load([*keys[:2], keys[2]]))
    second = asyncio.create_task(definitions.load(keys[3:]))
    await asyncio.sleep(0)
    store.gate.set()
    assert list(await first) == [*keys[:2], keys[2]]
    assert list(await second) == keys[3:]


async def test_more_definitions_than_the_cache_holds_are_answered() -> None:
    _, definitions, keys = await make(3 * CAPACITY)
    assert list(await definitions.load(keys)) == keys


async def test_room_is_made_by_dropping_the_oldest() -> None:
    store, definitions, keys = await make(CAPACITY + 1)
    await definitions.load(keys[:CAPACITY])
    await definitions.load(keys[CAPACITY:])
    store.reads.clear()
    await definitions.load(keys[CAPACITY - 1 :])
    assert store.reads == []


async def test_unknown_definition_is_left_out() -> None:
    _, definitions, keys = await make(1)
    assert list(await definitions.load([*keys, (keys[0][0], 2)])) == keys
