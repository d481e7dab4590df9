"""The conformance suite on PostgreSQL: databases are migrated once, and put back after each test."""

from collections.abc import AsyncIterator

import pytest

from mainspring.ports.store import Store
from mainspring.testing import conformance
from tests.support.postgres_databases import open_store

pytestmark = pytest.mark.postgres


@pytest.fixture
async def store(lent_database: str) -> AsyncIterator[Store]:
    async with open_store(lent_database) as opened:
        yield opened


globals().update(conformance.collect(__name__))
