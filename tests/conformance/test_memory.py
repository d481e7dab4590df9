"""The memory store passes the one suite, and so may stand for every other store in the engine's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mainspring.ports.store import Store
from mainspring.stores.memory import MemoryStore
from mainspring.testing import FakeClock, conformance


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = MemoryStore(time=FakeClock().now)
    await store.open()
    yield store
    await store.close()


globals().update(conformance.collect(__name__))
