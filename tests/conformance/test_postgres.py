"""The conformance suite on PostgreSQL: a template is migrated once, every test gets a copy of it."""

from collections.abc import AsyncIterator

import pytest

from mainspring.ports.store import Store
from mainspring.testing import conformance
from tests.support.postgres_databases import open_store

pytestmark = pytest.mark.postgres


@pytest.fixture
async def store(migrated_database: str) -> AsyncIterator[Store]:
    async with open_store(migrated_database) as opened:
        yield opened


globals().update(conformance.collect(__name__))
