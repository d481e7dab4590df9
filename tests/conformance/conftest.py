"""What the suite's stores stand on: databases that were migrated once."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring.stores.sqlite import SqliteStore
from tests.support.postgres_lending import Lender, lending


@pytest.fixture(scope="session")
def lender(postgres_server: str, postgres_template: str) -> Iterator[Lender]:
    """Lends migrated databases."""
    with lending(postgres_server, postgres_template) as lender:
        yield lender


@pytest.fixture
def lent_database(lender: Lender) -> Iterator[str]:
    """The DSN of a migrated database that holds nothing; other tests have had it before."""
    with lender.lend() as dsn:
        yield dsn


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file of SQLite, for copies; to migrate one takes longer than most tests."""

    async def migrate(path: Path) -> None:
        store = SqliteStore(path)
        await store.open()
        await store.close()

    path = tmp_path_factory.mktemp("migrated") / "mainspring.db"
    asyncio.run(migrate(path))
    return path
