"""The one suite that every store passes, ours and those of third parties (style 3.6).

A backend's test file gives a fixture `store`, an opened and empty store, and takes the classes::

    import pytest
    from mainspring.testing import conformance


    @pytest.fixture
    async def store():
        store = MyStore(...)
        await store.open()
        yield store
        await store.close()


    globals().update(conformance.collect(__name__))

It needs pytest-asyncio in its mode `auto`. Where a store's `capabilities` say that it cannot do something, the tests
of it are skipped and say why. A class that bears a law's number attacks that law of design 2.
"""

import pytest

# Before the modules are imported, so that a failure shows the values that it compared.
_CONCERNS = (
    "cancelling claiming completion edges firing inspection jobs liveness model spans submission suite upkeep"
)
pytest.register_assert_rewrite(*(f"{__name__}.{concern}" for concern in _CONCERNS.split()))

from mainspring.testing.conformance.suite import SUITE, collect  # noqa: E402

__all__ = ["SUITE", "collect"]
