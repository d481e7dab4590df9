"""How long finished runs are kept where nobody said how long."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mainspring.config.settings import Settings, StoreLocation
from mainspring.core.actors import Actor, ActorKind
from mainspring.core.audit import AuditFilter, Subject, entries
from mainspring.core.queues import Queue
from mainspring.core.triggers import EPOCH
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import NotFound
from mainspring.runtime import open_engine
from mainspring.testing.manual import TENANT
from tests.unit.engine.conftest import Bench

ANN = Actor(name="ann", kind=ActorKind.LOCAL, action="upsert_queue")


@pytest.mark.parametrize("scheme", ["memory", "sqlite"])
async def test_run_that_ended_29_days_ago_is_kept_and_one_of_31_days_goes(
    scheme: str, tmp_path: Path
) -> None:
    settings = Settings(store=StoreLocation(scheme, str(tmp_path)))
    async with open_engine(settings) as engine:
        jobs, runs = engine.client.jobs, engine.client.runs
        job = await jobs.create(TENANT, {"name": "job", "callback_url": "https://example.com/hook"})
        run_id = (await runs.submit(TENANT, Submission(job_id=job.id, delay=timedelta(days=1)))).run_id
        await runs.cancel(TENANT, run_id)
        ended = (await runs.get(TENANT, run_id)).finished_at
        assert ended is not None
        janitor = engine.services["janitor"]
        await janitor.tick(ended + timedelta(days=29))
        assert (await runs.get(TENANT, run_id)).finished_at == ended
        await janitor.tick(ended + timedelta(days=31))
        with pytest.raises(NotFound):
            await runs.get(TENANT, run_id)


async def test_engine_put_together_in_code_keeps_runs_as_long(bench: Bench) -> None:
    job_id = await bench.add()
    [run_id] = [(await bench.runtime.client.runs.submit(TENANT, Submission(job_id=job_id))).run_id]
    await (await bench.runtime.worker()).work()
    for days, is_kept in ((29, True), (2, False)):
        bench.runtime.clock.advance(days * 86_400)
        await bench.runtime.tick("janitor")
        assert (await bench.runtime.store.get_runs([run_id]) != [None]) is is_kept


@pytest.mark.parametrize(("keep", "days"), [(None, 400), (timedelta(days=7), 7)])
@pytest.mark.parametrize("scheme", ["memory", "sqlite"])
async def test_who_changed_what_is_kept_so_long(
    scheme: str, keep: timedelta | None, days: int, tmp_path: Path
) -> None:
    settings = Settings(store=StoreLocation(scheme, str(tmp_path)))
    if keep is not None:
        settings = replace(settings, keep_audit=keep)
    async with open_engine(settings) as engine:
        # A database lets nothing go that is younger than a day by its own clock.
        subject = Subject(kind="queue", id="mail", tenant="*")
        audit = entries(ANN, subject, at=datetime.now(UTC) - timedelta(days=days - 2))
        await engine.store.write_queues([Queue(name="mail")], audit=audit)
        [entry] = await engine.client.audit.list_page(AuditFilter())
        check = await engine.client.audit.verify(now=EPOCH + timedelta(days=days))
        assert check.checked_from == EPOCH + timedelta(days=min(1, days / 10))
        janitor = engine.services["janitor"]
        for later, is_kept in ((-1, True), (1, False)):
            await janitor.tick(entry.entry.at + timedelta(days=days, seconds=later))
            left = await engine.client.audit.list_page(AuditFilter())
            assert [one.id for one in left] == ([entry.id] if is_kept else [])
