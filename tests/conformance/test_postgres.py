"""The conformance suite on PostgreSQL: a template is migrated once, every test gets a copy of it."""

from collections.abc import AsyncIterator, Iterator

import pytest

from mainspring.ports.store import Store
from mainspring.testing import conformance
from tests.postgres import temporary_database
from tests.postgres_databases import open_store, template_database

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> Iterator[str]:
    with template_database(postgres_server) as name:
        yield name


@pytest.fixture
async def store(postgres_server: str, postgres_template: str) -> AsyncIterator[Store]:
    with temporary_database(postgres_server, template=postgres_template) as dsn:
        async with open_store(dsn) as opened:
            yield opened


globals().update(conformance.collect(__name__))
