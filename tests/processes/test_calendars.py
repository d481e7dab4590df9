"""Calendars by the command line and the SDK, against a real server: docs/howto/skip-holidays.md, done."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring import App
from mainspring.errors import Conflict, InvalidInput
from tests.processes.processes import run, server

APP = """
from mainspring import App

app = App()


@app.job(cron="0 9 * * *", tz="Europe/Berlin")
def payout() -> None: ...
"""
PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "skip-holidays.md").read_text()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("calendars")
    (folder / "paying.py").write_text(APP)
    with server("paying:app", "--store", "memory://", cwd=folder) as (_, address):
        yield address


def page_calendar() -> str:
    found = re.search(r"```json\n(\{\n  \"tz\".*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_a_calendar_is_written_shown_and_deleted(url: str, tmp_path: Path) -> None:
    (tmp_path / "holidays.json").write_text(page_calendar())
    written = run("calendar", "put", "holidays", "--file", "holidays.json", "--server", url, cwd=tmp_path)
    assert re.search(r"^version +1$", written.stdout, re.MULTILINE), written.stderr
    shown = run("calendar", "show", "holidays", "--server", url, cwd=tmp_path)
    assert "Good Friday" in shown.stdout
    days = run(
        *("calendar", "days", "holidays", "--from", "2026-12-20", "--to", "2027-01-05"),
        *("--json", "--server", url),
        cwd=tmp_path,
    )
    dates = [day["date"] for day in json.loads(days.stdout)["items"]]
    assert dates == ["2026-12-25", "2026-12-26", *(f"2026-12-{day}" for day in range(28, 32))]
    (tmp_path / "weekend.json").write_text(
        '{"rules": [{"weekly": ["SAT", "SUN"], "from": "08:00", "to": "20:00"}]}'
    )
    run("calendar", "put", "weekend", "--file", "weekend.json", "--server", url, cwd=tmp_path)
    hours = run(
        "calendar",
        "days",
        "weekend",
        "--from",
        "2026-12-19",
        "--to",
        "2026-12-19",
        "--server",
        url,
        cwd=tmp_path,
    )
    assert "2026-12-19  08:00 to 20:00" in hours.stdout
    listed = run("calendar", "list", "--json", "--server", url, cwd=tmp_path)
    assert [one["name"] for one in json.loads(listed.stdout)["items"]] == ["holidays", "weekend"]
    versions = run("calendar", "versions", "weekend", "--json", "--server", url, cwd=tmp_path)
    assert [one["version"] for one in json.loads(versions.stdout)["items"]] == [1]
    assert run("calendar", "delete", "weekend", "--server", url, cwd=tmp_path).stdout == "deleted weekend\n"


async def test_jobs_keep_to_it_and_say_so(url: str, tmp_path: Path) -> None:
    app = App(url)
    try:
        await app.client.put_calendar("closed", {"tz": "Europe/Berlin", "rules": [{"date": "2026-12-24"}]})
        [job] = (await app.client.list_jobs(name="payout")).items
        patch = {"calendars": {"exclude": ["closed"]}}
        edited = await app.client.edit_job(job.job_id, patch)
        assert edited.calendars == {"include": [], "exclude": ["closed"], "roll": None}
        fires = await app.client.list_job_fires(job.job_id, from_time="2026-12-23T12:00:00Z", count=2)
        assert [fire.excluded_by for fire in fires.items] == ["closed@1", None]
        await app.client.edit_job(job.job_id, {"calendars": {"roll": "next"}})
        shown = run("job", "fires", "payout", "--from", "2026-12-23T12:00:00Z", "--server", url, cwd=tmp_path)
        assert "2026-12-25 09:00:00+01:00  moved from 2026-12-24 08:00:00+00:00" in shown.stdout
        with pytest.raises(Conflict, match="used by the job 'payout'"):
            await app.client.delete_calendar("closed")
        with pytest.raises(InvalidInput, match="there is no calendar 'open'"):
            await app.client.edit_job(job.job_id, {"calendars": {"include": ["open"]}})
        body = {
            "cron": "0 9 24 12 *",
            "tz": "Europe/Berlin",
            "calendars": {"exclude": ["closed"], "roll": "next"},
        }
        preview = await app.client.preview_trigger(body, from_time="2026-12-01T00:00:00Z", count=1)
        assert preview.fires[0].local.isoformat() == "2026-12-25T09:00:00+01:00"
        assert preview.fires[0].rolled_from is not None
        assert preview.fires[0].rolled_from.isoformat() == "2026-12-24T08:00:00+00:00"
        page = await app.client.list_calendars()
        assert "closed" in [one.name for one in page.items]
        assert (await app.client.get_calendar("closed", version=1)).rules == [{"date": "2026-12-24"}]
        days = await app.client.list_calendar_days("closed", from_date="2026-12-01")
        assert [day.date for day in days.items] == ["2026-12-24"]
        assert [one.version for one in (await app.client.list_calendar_versions("closed")).items] == [1]
    finally:
        app.close()


def test_a_wrong_file_is_refused(url: str, tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[]")
    refused = run("calendar", "put", "bad", "--file", "list.json", "--server", url, cwd=tmp_path)
    assert (refused.returncode, refused.stderr) == (2, "error: body: must be an object\n")
    (tmp_path / "rule.json").write_text('{"rules": [{"date": "24.12."}]}')
    refused = run("calendar", "put", "bad", "--file", "rule.json", "--server", url, cwd=tmp_path)
    assert "rules[0].date: must be a date like '2026-12-24', not '24.12.'" in refused.stderr
