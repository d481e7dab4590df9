"""SQLite, on a real file, passes the one suite."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mainspring.ports.store import Store
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing import conformance


@pytest.fixture
async def store(migrated_file: Path, tmp_path: Path) -> AsyncIterator[Store]:
    shutil.copy(migrated_file, tmp_path / "mainspring.db")
    store = SqliteStore(tmp_path / "mainspring.db")
    await store.open()
    yield store
    await store.close()


globals().update(conformance.collect(__name__))
