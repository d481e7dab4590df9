"""Calendars by the command line and the SDK, against a real server: docs/howto/skip-holidays.md, done."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


ICS = (Path(__file__).parents[1] / "unit" / "importers" / "ics" / "google.ics").read_text()


def page_imports() -> list[list[str]]:
    """The commands of the page that import a file."""
    lines = [line for line in PAGE.splitlines() if line.startswith("mainspring calendar import ")]
    return [line.split()[1:] for line in lines]


def test_what_is_wrong_is_named(url: str, tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[]")
    for arguments, said in (
        (("show", "nope"), "no calendar 'nope'\nTry: mainspring calendar list"),
        (("put", "a b", "--file", "list.json"), "file: must hold an object"),
        (("put", "off", "--file", "missing.json"), "file: missing.json: No such file or directory"),
    ):
        refused = run("calendar", *arguments, "--server", url, cwd=tmp_path)
        assert (refused.returncode, refused.stderr) == (2, f"error: {said}\n")


def test_the_jobs_of_the_page_name_calendars_that_it_writes() -> None:
    written = set(re.findall(r"calendar put (\w+)", PAGE))
    named = {
        name
        for names in re.findall(r'"(?:exclude|include)": \[([^]]*)\]', PAGE)
        for name in re.findall(r"\w+", names)
    }
    assert named <= written


def test_an_export_of_google_is_imported(url: str, tmp_path: Path) -> None:
    (tmp_path / "company.ics").write_text(ICS)
    dry, real = page_imports()
    shown = run(*dry, cwd=tmp_path)  # it needs no server
    assert shown.returncode == 0, shown.stderr
    assert "2026-12-25  " in shown.stdout
    assert "Erster Weihnachtstag" in shown.stdout
    assert shown.stderr == "6 events, 1 of them without any time; days begin in Europe/Berlin\n"
    assert run("calendar", "show", "holidays", "--server", url, cwd=tmp_path).stdout.count("Weihnacht") == 0
    answers = [json.loads(run(*real, "--json", "--server", url, cwd=tmp_path).stdout) for _ in range(2)]
    assert answers[0] == answers[1]  # no new version
    assert [answers[0][name] for name in ("tz", "rules", "left_out")] == ["Europe/Berlin", 5, 1]
    days = run(
        *("calendar", "days", "holidays", "--from", "2026-12-01", "--to", "2026-12-31", "--server", url),
        cwd=tmp_path,
    )
    assert "2026-12-04  14:00 to 22:00" in days.stdout
    assert "2026-12-26  all day" in days.stdout
    plain = run("calendar", "import", "other", "-", "--dry-run", "--json", text=ICS, cwd=tmp_path)
    (tmp_path / "other.json").write_text(plain.stdout)
    put = run("calendar", "put", "holidays", "--file", "other.json", "--server", url, cwd=tmp_path)
    assert re.search(rf"^version +{answers[0]['version']}$", put.stdout, re.MULTILINE), put.stderr
    text = run("calendar", "import", "other", "company.ics", "--server", url, cwd=tmp_path).stdout
    assert re.search(r"^rules +5$", text, re.MULTILINE)
    for name in ("holidays", "other"):
        run("calendar", "delete", name, "--server", url, cwd=tmp_path)


def test_the_pages_python_imports_a_file(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = re.search(r"```python\n(from pathlib.*?)```", PAGE, re.DOTALL)
    assert found is not None
    (tmp_path / "company.ics").write_text(ICS)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(found[1], "skip-holidays.md", "exec"), names)

    async def use() -> int:
        app = App(url)
        try:
            await names["import_holidays"](app)
            version = (await app.client.get_calendar("holidays")).version
            await app.client.delete_calendar("holidays")
            return version
        finally:
            app.close()

    assert asyncio.run(use()) >= 1


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_wrong_line_of_an_ics_file_is_named(url: str, tmp_path: Path, more: tuple[str, ...]) -> None:
    text = ICS.replace("FREQ=YEARLY;WKST=MO", "FREQ=HOURLY")
    (tmp_path / "bad.ics").write_text(text)
    line = text.splitlines().index(next(each for each in text.splitlines() if "HOURLY" in each)) + 1
    refused = run("calendar", "import", "bad", "bad.ics", "--server", url, *more, cwd=tmp_path)
    message = re.search(r"```text\nerror: line 12: (.*)\n```", PAGE)
    assert message is not None
    assert (refused.returncode, refused.stderr) == (2, f"error: line {line}: {message[1]}\n")
    missing = run("calendar", "import", "bad", "missing.ics", "--server", url, *more, cwd=tmp_path)
    assert missing.stderr == "error: file: missing.ics: No such file or directory\n"


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
    assert (refused.returncode, refused.stderr) == (2, "error: file: must hold an object\n")
    (tmp_path / "rule.json").write_text('{"rules": [{"date": "24.12."}]}')
    refused = run("calendar", "put", "bad", "--file", "rule.json", "--server", url, cwd=tmp_path)
    assert "rules[0].date: must be a date like '2026-12-24', not '24.12.'" in refused.stderr


def test_a_dry_run_shows_what_would_be_made_and_makes_nothing(url: str, tmp_path: Path) -> None:
    nightly = (
        "job",
        "add",
        "nightly",
        "--schedule",
        "every day at 2:30",
        "--tz",
        "Europe/Berlin",
        "--function",
        "payout",
    )
    shown = run(*nightly, "--jitter", "5m", "--dry-run", "--count", "2", "--server", url, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["name", "target", "trigger", "jitter_seconds"]
    assert lines[5:7] == ["at 02:30, every day (Europe/Berlin)", lines[6]]
    assert lines[6].split() == ["UTC", "LOCAL"]
    assert len(lines) == 9
    assert "there is no 02:30; it fires at 03:00 instead" in shown.stderr
    assert "each starts up to 300 s later" in shown.stderr
    assert shown.stderr.endswith("this is a dry run; nothing was changed\n")
    assert "nightly" not in run("job", "list", "--server", url, cwd=tmp_path).stdout
    again = run(
        "job",
        "add",
        "payout",
        "--every",
        "1h",
        "--function",
        "payout",
        "--dry-run",
        "--server",
        url,
        cwd=tmp_path,
    )
    assert "there is a job of that name" in again.stderr
    bare = run("job", "add", "x", "--every", "1h", "--dry-run", "--server", url, cwd=tmp_path)
    assert (bare.returncode, bare.stderr.startswith("error: target: is missing")) == (2, True)
    added = run(*nightly, "--server", url, cwd=tmp_path)
    assert added.stdout.rstrip().endswith("; at 02:30, every day (Europe/Berlin)")
    assert "there is no 02:30" in added.stderr
