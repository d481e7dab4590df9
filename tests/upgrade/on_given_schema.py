"""The conformance suite of whichever code PYTHONPATH names, on a store that another version has migrated.

Not collected by itself: `test_schema.py` runs it in a process of its own, and says in the environment which store.
"""

import os
import random
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import mainspring
from mainspring.ports.store import Store
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing import conformance
from tests.support.postgres_lending import Lender, lending

CODE = "MAINSPRING_UPGRADE_CODE"
FILE = "MAINSPRING_UPGRADE_FILE"
TEMPLATE = "MAINSPRING_UPGRADE_TEMPLATE"
SERVER = "MAINSPRING_UPGRADE_SERVER"


@pytest.fixture(scope="session", autouse=True)
def _is_the_code_meant() -> None:
    assert Path(mainspring.__file__).is_relative_to(os.environ[CODE])


@pytest.fixture(scope="session")
def lender() -> Iterator[Lender | None]:
    """Lends copies of the database that was migrated; None where it is a file."""
    if FILE in os.environ:
        yield None
        return
    with lending(os.environ[SERVER], os.environ[TEMPLATE]) as lender:
        yield lender


@pytest.fixture
async def store(lender: Lender | None, tmp_path: Path) -> AsyncIterator[Store]:
    """An open store on a copy of what was migrated."""
    if lender is None:
        shutil.copy(os.environ[FILE], tmp_path / "mainspring.db")
        sqlite = SqliteStore(tmp_path / "mainspring.db")
        await sqlite.open()
        yield sqlite
        await sqlite.close()
        return
    with lender.lend() as dsn:
        postgres = PostgresStore(dsn, random=random.Random(1))
        await postgres.open()
        yield postgres
        await postgres.close()


globals().update(conformance.collect(__name__))
