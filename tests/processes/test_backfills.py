"""Backfills by the command line and the SDK, against a real server: docs/howto/backfill.md, done."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from mainspring import App
from mainspring.errors import Conflict, InvalidInput, NotFound
from tests.processes.processes import run, server

APP = """
from mainspring import App

app = App()


@app.job(cron="0 3 * * *")
def report() -> None: ...


@app.job(cron="*/5 * * * *", queue="nobody")
def waits() -> None: ...
"""
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
RANGE = ((TODAY - timedelta(days=30)).isoformat(), TODAY.isoformat())
FROM_TO = ("--from", RANGE[0], "--to", RANGE[1])


@pytest.fixture(
    scope="module", params=[("--store", "memory://"), ("--data", "data")], ids=lambda given: given[1]
)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("backfills")
    (folder / "reports.py").write_text(APP)
    with server("reports:app", *request.param, cwd=folder) as (_, address):
        yield address


def test_range_is_planned_made_and_watched(url: str) -> None:
    planned = run("job", "backfill", "report", *FROM_TO, "--dry-run", "--server", url)
    assert "fires     30\n" in planned.stdout, planned.stderr
    assert "versions  30 by version 1\n" in planned.stdout
    assert "nothing was made" in planned.stderr
    made = run("job", "backfill", "report", *FROM_TO, "--rate", "100/s", "--wait", "--json", "--server", url)
    backfill = json.loads(made.stdout)["backfill"]
    assert (backfill["state"], backfill["made"], backfill["live"], backfill["left"]) == ("done", 30, 0, 0)
    again = run("job", "backfill", "report", *FROM_TO, "--dry-run", "--json", "--server", url)
    assert json.loads(again.stdout)["plan"]["done"] == 30
    shown = run("backfill", "show", backfill["backfill_id"], "--wait", "--server", url)
    assert "done: 30 of 30 fires, 30 made, 0 skipped, 0 live" in shown.stderr
    listed = run("backfill", "list", "--job", "report", "--json", "--server", url)
    assert [one["backfill_id"] for one in json.loads(listed.stdout)["items"]] == [backfill["backfill_id"]]
    runs = run("run", "list", "--kind", "backfill", "--json", "--limit", "100", "--server", url)
    assert len(json.loads(runs.stdout)["items"]) == 30


def test_backfill_is_paused_resumed_and_cancelled(url: str) -> None:
    made = run("job", "backfill", "waits", *FROM_TO, "--max-live", "5", "--json", "--server", url)
    key = json.loads(made.stdout)["backfill"]["backfill_id"]
    assert "state          paused" in run("backfill", "pause", key, "--server", url).stdout
    assert "state          open" in run("backfill", "resume", key, "--server", url).stdout
    refused = run("job", "backfill", "waits", *FROM_TO, "--server", url)
    assert f"{key} is under way in a part of this range" in refused.stderr
    cancelled = json.loads(run("backfill", "cancel", key, "--json", "--server", url).stdout)
    assert (cancelled["state"], cancelled["live"]) == ("cancelled", 0)
    over = run("backfill", "resume", key, "--server", url)
    assert "the backfill is cancelled already" in over.stderr


async def test_the_sdk_does_the_same(url: str) -> None:
    app = App(url)
    try:
        client = app.client
        [job] = (await client.list_jobs(name="report")).items
        ends = datetime.fromisoformat(RANGE[0]), datetime.fromisoformat(RANGE[1])
        answer = await client.backfill(job.job_id, *ends, dry_run=True, skip_done="none", rate="20/s")
        assert (answer.plan.fires, answer.plan.rate, answer.backfill) == (30, "20/s", None)
        with pytest.raises(InvalidInput, match="to: must have passed"):
            await client.backfill(job.job_id, ends[0], ends[1] + timedelta(days=2))
        made = await client.backfill(job.job_id, *ends, skip_done="none", max_live=1, priority="MEDIUM")
        assert made.backfill is not None
        key = made.backfill.backfill_id
        assert (await client.pause_backfill(key)).state == "paused"
        assert (await client.resume_backfill(key)).state == "open"
        with pytest.raises(Conflict):
            await client.backfill(job.job_id, *ends)
        made_runs = [run async for run in client.runs(backfill=key)]
        assert {(run.kind, run.job_id) for run in made_runs} <= {("backfill", job.job_id)}
        assert (await client.cancel_backfill(key)).state == "cancelled"
        assert (await client.get_backfill(key)).closed_at is not None
        page = await client.list_backfills(job_id=job.job_id, limit=1)
        assert ([one.backfill_id for one in page.items], page.next) == ([key], key)
        with pytest.raises(NotFound):
            await client.get_backfill("backfill_" + "0" * 26)
    finally:
        app.close()
