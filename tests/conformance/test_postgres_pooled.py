"""The conformance suite's core on PostgreSQL through PgBouncer in transaction mode."""

from collections.abc import AsyncIterator, Iterator

import pytest

from mainspring.ports.store import Store
from mainspring.stores.postgres import ConnectionOptions
from mainspring.testing import conformance
from tests.postgres import temporary_database
from tests.postgres_databases import open_store, template_database

CONCERNS = {"cancelling", "claiming", "completion", "firing", "liveness", "submission"}
"""What runs move by. The other verbs are sent by the same two ways, and would only take time."""

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="session")
def pooled_template(postgres_server: str) -> Iterator[str]:
    with template_database(postgres_server) as name:
        yield name


@pytest.fixture
async def store(postgres_server: str, pooled_server: str, pooled_template: str) -> AsyncIterator[Store]:
    with temporary_database(postgres_server, template=pooled_template) as dsn:
        name = dsn.rpartition("/")[2]
        options = ConnectionOptions(f"{pooled_server}/{name}", is_pooled=True, statement_cache=0)
        async with open_store(options) as opened:
            yield opened


globals().update(
    (name, suite)
    for name, suite in conformance.collect(__name__).items()
    if suite.__base__ is not None and suite.__base__.__module__.rpartition(".")[2] in CONCERNS
)
