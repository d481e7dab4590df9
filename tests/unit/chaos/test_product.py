"""The fuse in the real store: it burns right at the commit."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from mainspring.core.outcomes import succeeded
from mainspring.ports.store.claims import ApplyResult
from mainspring.testing.factories import at, make_claim, make_new_job, make_new_run, make_session
from tests.chaos.failpoints import NOTES_VARIABLE, Failpoint, Fuse, read_notes
from tests.chaos.fused_sqlite import FusedStore, FusedTransactions
from tests.chaos.fuses import STALE
from tests.chaos.product import halt_if_told


@pytest.mark.parametrize(("moment", "is_there"), [("before", 0), ("after", 1)])
async def test_fuse_burns_on_its_side_of_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, is_there: int
) -> None:
    path = tmp_path / "mainspring.db"
    seen: list[int] = []

    def burn() -> None:
        # By the library that the store uses: a second copy of SQLite in one process breaks the first one's locks.
        others = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        seen.append(others.execute("SELECT count(*) FROM job").get)
        others.close()

    monkeypatch.setattr(FusedTransactions, "fuse", Fuse(Failpoint(moment, "add_jobs", 1), burn))
    store = FusedStore(path)
    await store.open()
    await store.add_jobs([make_new_job()], now=at(0))
    await store.close()
    assert seen[0] == is_there


async def test_stale_write_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NOTES_VARIABLE, str(tmp_path))
    store = FusedStore(tmp_path / "mainspring.db")
    await store.open()
    job = make_new_job()
    await store.add_jobs([job], now=at(0))
    await store.submit_runs([make_new_run(job)], now=at(0))
    (session_id,) = await store.add_sessions([make_session()], now=at(0))
    lanes = [lane.id for lane in await store.read_lanes([])]
    ((run,),) = [result.runs for result in await store.claim_runs([make_claim(session_id, lanes)], now=at(1))]
    results = await store.apply([succeeded(run.run_id, run.token - 1, session_id)], now=at(2))
    await store.close()
    assert results == [ApplyResult.STALE]
    assert [what for _, what in read_notes(tmp_path)] == [STALE]


def test_process_stops_itself_at_the_point_in_its_file_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[int] = []
    monkeypatch.setattr("os.kill", lambda pid, number: stopped.append(number))
    monkeypatch.setenv(NOTES_VARIABLE, str(tmp_path))
    monkeypatch.setenv("MAINSPRING_CHAOS_HALT", str(tmp_path / "halt"))
    (tmp_path / "halt").write_text("report")
    for point in ("claim", "report", "report"):
        halt_if_told(point)
    assert len(stopped) == 1
    assert [what for _, what in read_notes(tmp_path)] == ["halted report"]
