"""The conformance suite of whichever code PYTHONPATH names, on a store that another version has migrated.

Not collected by itself: `test_schema.py` runs it in a process of its own, and says in the environment which store.
"""

import os
import random
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import mainspring
from mainspring.ports.store import Store
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing import conformance
from tests.support.postgres import temporary_database

CODE = "MAINSPRING_UPGRADE_CODE"
FILE = "MAINSPRING_UPGRADE_FILE"
TEMPLATE = "MAINSPRING_UPGRADE_TEMPLATE"
SERVER = "MAINSPRING_UPGRADE_SERVER"


@pytest.fixture(scope="session", autouse=True)
def _is_the_code_meant() -> None:
    assert Path(mainspring.__file__).is_relative_to(os.environ[CODE])


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """An open store on a copy of what was migrated."""
    if FILE in os.environ:
        shutil.copy(os.environ[FILE], tmp_path / "mainspring.db")
        sqlite = SqliteStore(tmp_path / "mainspring.db")
        await sqlite.open()
        yield sqlite
        await sqlite.close()
        return
    with temporary_database(os.environ[SERVER], template=os.environ[TEMPLATE]) as dsn:
        postgres = PostgresStore(dsn, random=random.Random(1))
        await postgres.open()
        yield postgres
        await postgres.close()


globals().update(conformance.collect(__name__))
