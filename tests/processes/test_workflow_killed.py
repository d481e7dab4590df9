"""Workflows go on after a server was killed in the midst of them, and each step is carried out once."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from pathlib import Path

import pytest

from mainspring.core.ids import JobId, RunId
from mainspring.core.model import Target
from mainspring.core.states import RunState
from mainspring.core.workflows.model import WorkflowStep
from mainspring.ports.store import Store
from mainspring.testing.factories import add_job, make_new_run
from tests.processes.processes import await_that, running, server
from tests.support.postgres_databases import open_store
from tests.support.workflows import workflow_of

FLOWS = 40
_APP = """
import time
from pathlib import Path

from mainspring import App, current_attempt

app = App()


@app.job()
def act(step: str) -> None:
    time.sleep(0.02)
    with Path("effects").open("a") as file:
        file.write(f"{current_attempt().run_id} {step}\\n")
"""


def act(name: str, after: str = "") -> WorkflowStep:
    target = Target("function", {"function": "act"})
    payload = f'{{"step": "{name}"}}'.encode()
    return WorkflowStep(name=name, target=target, after=tuple(after.split()), payload=payload)


STEPS = (
    act("split"),
    *(act(f"part_{place}", "split") for place in range(4)),
    act("join", "part_0 part_1 part_2"),
)


async def submit(store: Store) -> tuple[JobId, list[RunId]]:
    """Store a workflow, and submit runs of it."""
    now = await store.read_time()
    job = await add_job(store, workflow_of(*STEPS), now=now)
    runs = [make_new_run(job, due_at=now) for _ in range(FLOWS)]
    results = await store.submit_runs(runs, now=now)
    return job.id, [result.run_id for result in results if result.run_id is not None]


@pytest.mark.postgres
def test_flows_outlive_their_server(tmp_path: Path, postgres_database: str) -> None:
    (tmp_path / "app.py").write_text(_APP)
    effects = tmp_path / "effects"

    async def begin() -> list[RunId]:
        async with open_store(postgres_database) as store:
            return (await submit(store))[1]

    async def states(run_ids: list[RunId]) -> Counter[RunState]:
        async with open_store(postgres_database) as store:
            return Counter(run.state for run in await store.get_runs(run_ids) if run is not None)

    async def children(run_ids: list[RunId]) -> list[tuple[int, RunState]]:
        async with open_store(postgres_database) as store:
            assert await store.read_mail(range(256), lows={}, limit=10) == []
            assert await store.read_flows(run_ids) == [None] * len(run_ids)
            found = [run for run_id in run_ids for run in await store.list_flow_runs(run_id)]
        return [(run.place.step, run.state) for run in found if run.place is not None]

    def count() -> int:
        return len(effects.read_text().splitlines()) if effects.exists() else 0

    where = ("--store", postgres_database)
    with (
        running("server", *where, "--port", 0, cwd=tmp_path) as first,
        running("server", *where, "--port", 0, cwd=tmp_path) as second,
        running("worker", "app:app", *where, "--slots", 4, cwd=tmp_path),
    ):
        for one in (first, second):
            one.wait_for("listening on ")
        run_ids = asyncio.run(begin())
        await_that("begun", lambda: count() > 2 * FLOWS)
        first.stop(signal.SIGKILL)
        await_that("ended", lambda: asyncio.run(states(run_ids)) == {RunState.SUCCEEDED: FLOWS})
    assert Counter(asyncio.run(children(run_ids))) == {
        (place, RunState.SUCCEEDED): FLOWS for place in range(len(STEPS))
    }
    assert count() == FLOWS * len(STEPS), "no worker died, so nothing is carried out twice"


def test_flows_outlive_a_server_on_sqlite(tmp_path: Path) -> None:
    from mainspring.stores.sqlite import SqliteStore

    (tmp_path / "app.py").write_text(_APP)
    (tmp_path / "data").mkdir()
    effects = tmp_path / "effects"

    async def begin() -> list[RunId]:
        store = SqliteStore(tmp_path / "data" / "mainspring.db")
        await store.open()
        try:
            return (await submit(store))[1]
        finally:
            await store.close()

    async def look(run_ids: list[RunId]) -> tuple[Counter[RunState], int]:
        store = SqliteStore(tmp_path / "data" / "mainspring.db")
        await store.open()
        try:
            found = Counter(run.state for run in await store.get_runs(run_ids) if run is not None)
            return found, len(await store.read_mail(range(256), lows={}, limit=10))
        finally:
            await store.close()

    def count() -> int:
        return len(effects.read_text().splitlines()) if effects.exists() else 0

    run_ids = asyncio.run(begin())
    with server("app:app", "--data", "data", cwd=tmp_path) as (process, _):
        await_that("begun", lambda: count() > 2 * FLOWS)
        process.stop(signal.SIGKILL)
    killed_at = count()
    assert killed_at < FLOWS * len(STEPS)
    with server("app:app", "--data", "data", cwd=tmp_path) as (process, _):
        await_that("done", lambda: len(set(effects.read_text().splitlines())) == FLOWS * len(STEPS))
        await_that("no more", lambda: _is_at_rest(effects))
        process.stop()
    states, mail = asyncio.run(look(run_ids))
    assert (states, mail) == ({RunState.SUCCEEDED: FLOWS}, 0)


def _is_at_rest(effects: Path) -> bool:
    """Say whether the joins, which are last, have all been carried out."""
    return sum(line.endswith(" join") for line in effects.read_text().splitlines()) >= FLOWS
