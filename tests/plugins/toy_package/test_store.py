"""The store keeps every promise that Mainspring's own stores keep."""

from collections.abc import AsyncIterator

import pytest
from toy.store import ToyStore

from mainspring.testing import FakeClock, conformance


@pytest.fixture
async def store() -> AsyncIterator[ToyStore]:
    store = ToyStore(time=FakeClock().now)
    await store.open()
    yield store
    await store.close()


globals().update(conformance.collect(__name__))
