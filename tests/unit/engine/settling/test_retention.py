"""How long finished runs are kept where nobody said how long."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from mainspring.config.settings import Settings, StoreLocation
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import NotFound
from mainspring.runtime import open_engine
from mainspring.testing.manual import TENANT
from tests.unit.engine.conftest import Bench


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
