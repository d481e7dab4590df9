"""A file of output that is damaged stops no server, and harms nothing but the output."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mainspring.core.run_logs import LogPart, RunProgress, deflate
from mainspring.ports.store.claims import HeldRun
from mainspring.ports.store.run_logs import LogEntry, LogPlace
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.factories import running_run

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
PAGE = 4096


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(folder / "store.db")
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def entry_of(held: HeldRun, start: int = 0) -> LogEntry:
    data = bytes(range(256)) * 16
    part = LogPart(start, len(data), deflate(data))
    return LogEntry(held.run_id, held.token, held.session_id, (part,), progress=RunProgress(1.0))


async def parts_of(store: SqliteStore, held: HeldRun) -> list[LogPart]:
    [found] = await store.list_log_parts([LogPlace(held.run_id, held.token)], limit=1000)
    return found


def damage(file: Path, first_page: int) -> None:
    size = file.stat().st_size
    with file.open("r+b") as opened:
        opened.seek(first_page * PAGE)
        opened.write(b"\xa5" * (size - first_page * PAGE))


@pytest.mark.parametrize("first_page", [0, 1])
async def test_a_file_that_is_no_database_is_set_aside(tmp_path: Path, first_page: int) -> None:
    async with opened(tmp_path) as store:
        held = await running_run(store)
        assert await store.add_run_logs([entry_of(held)], now=NOW) == [True]
    damage(tmp_path / "store-logs.db", first_page)
    with capture_logs() as logs:
        async with opened(tmp_path) as store:
            assert await parts_of(store, held) == []
            assert await store.add_run_logs([entry_of(held)], now=NOW) == [True]
            assert len(await parts_of(store, held)) == 1
    [line] = [line for line in logs if line["event"] == "run_logs_set_aside"]
    assert line["file"] == str(tmp_path / "store-logs.db.damaged")
    assert (tmp_path / "store-logs.db.damaged").stat().st_size > PAGE
    (tmp_path / "store-logs.db").write_bytes(b"damaged once more" * 1000)
    async with opened(tmp_path) as store:
        assert await parts_of(store, held) == []
    assert (tmp_path / "store-logs.db.damaged1").exists()


async def test_damage_that_is_found_later_costs_only_the_output(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        held = await running_run(store)
        await store.add_run_logs([entry_of(held)], now=NOW)
    async with opened(tmp_path) as store:
        damage(tmp_path / "store-logs.db", 1)
        with capture_logs() as logs:
            assert await parts_of(store, held) == []
            assert len(await store.get_progress([held.run_id])) == 1
            assert await store.prune_run_logs(before=NOW.replace(year=2027), limit=1000) == 0
        assert {line["event"] for line in logs} == {"run_logs_damaged"}
        [run] = await store.get_runs([held.run_id])
        assert run is not None
