"""The conformance suite's core on PostgreSQL through PgBouncer in transaction mode."""

from collections.abc import AsyncIterator

import pytest

from mainspring.ports.store import Store
from mainspring.stores.postgres import ConnectionOptions
from mainspring.testing import conformance
from tests.support.postgres_databases import open_store

CONCERNS = {
    *("cancelling", "claim_repeats", "claiming", "claiming_quarantined", "claiming_together"),
    *("census", "completion", "fencing", "firing", "liveness", "nodes", "submission"),
}
"""What runs move by. The other verbs are sent by the same two ways, and would only take time."""

pytestmark = pytest.mark.postgres


@pytest.fixture
async def store(pooled_server: str, migrated_database: str) -> AsyncIterator[Store]:
    name = migrated_database.rpartition("/")[2]
    options = ConnectionOptions(f"{pooled_server}/{name}", is_pooled=True, statement_cache=0)
    async with open_store(options) as opened:
        yield opened


globals().update(
    (name, suite)
    for name, suite in conformance.collect(__name__).items()
    if suite.__base__ is not None and suite.__base__.__module__.rpartition(".")[2] in CONCERNS
)
