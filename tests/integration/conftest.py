"""What the tests of the PostgreSQL store stand on: a migrated database, and a connection that looks at it."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest


@pytest.fixture
def dsn(migrated_database: str) -> str:
    """The way to a database of the test's own."""
    return migrated_database


@pytest.fixture
async def watch(dsn: str) -> AsyncIterator[Any]:
    """A connection that looks at what the others do, past any proxy."""
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()
