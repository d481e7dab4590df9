"""The SQLite store of a simulated process."""

import asyncio
from pathlib import Path

import apsw
import pytest

from mainspring.testing.factories import at
from tools.simulator.files import FileStore


@pytest.mark.parametrize("stops", [1, 2, 3])
async def test_a_store_is_closed_when_any_of_those_who_close_it_has_done_so(
    tmp_path: Path, stops: int
) -> None:
    """One that was asked to stop more than once ended with a write open, and none could start after it (seed 522)."""
    path = tmp_path / "mainspring.db"
    store = FileStore(path, time=lambda: at(0), delay=lambda: 0.05)
    await store.open()
    write = asyncio.create_task(store.note_token_uses({"nobody": at(0)}))
    await asyncio.sleep(0)
    closing = [asyncio.create_task(store.close()) for _ in range(stops)]
    await asyncio.wait(closing, return_when=asyncio.FIRST_COMPLETED)
    for each in closing:
        each.cancel()
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    other.close()
    await write
