"""The suite that every store passes, ours and those of third parties (style 3.6).

A store's test file defines a fixture `store`, which gives an open and empty store, and collects the classes::

    import pytest
    from mainspring.testing import conformance


    @pytest.fixture
    async def store():
        store = MyStore(...)
        await store.open()
        yield store
        await store.close()


    globals().update(conformance.collect(__name__))

It needs pytest-asyncio in mode `auto`. If a store's `capabilities` say that it cannot do something, the tests of that
are skipped with the reason. A class with a law's number in its name attacks that law of design 2.
"""

from pathlib import Path

import pytest

# Before the modules are imported, so that a failed assertion shows the values that it compared.
pytest.register_assert_rewrite(
    *(f"{__name__}.{path.stem}" for path in Path(__file__).parent.glob("*.py") if path.stem != "__init__")
)

from mainspring.testing.conformance.suite import SUITE, collect  # noqa: E402

__all__ = ["SUITE", "collect"]
