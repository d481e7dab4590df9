"""`mainspring diff`, `apply` and `export` on a real server, as the page "Keep jobs in files" has them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.processes import run_here, server

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "jobs-in-files.md"
EXAMPLES = ROOT / "examples" / "jobs"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server(cwd=tmp_path_factory.mktemp("server")) as (process, url):
        yield url
        process.stop()


@pytest.fixture(autouse=True)
def _empty(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_SERVER", url)
    for job in jobs():
        run_here("job", "rm", job)


def jobs() -> dict[str, int]:
    listed = json.loads(run_here("job", "list", "--json").stdout)["items"]
    return {job["name"]: job["version"] for job in listed}


def test_commands_of_the_page_do_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (example,) = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert (EXAMPLES / "reports.toml").read_text().endswith(example)
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    done = [run_here(*line.removeprefix("mainspring ").partition(" > ")[0].split()) for line in lines]
    assert [(line, one.stderr) for line, one in zip(lines, done, strict=True) if one.returncode] == []
    assert done[0].stdout.splitlines() == [
        "+ daily-report  examples/jobs/reports.toml",
        "+ month-end  examples/jobs/reports.toml",
        "would be: 2 created; nothing was changed",
    ]
    assert done[1].stdout.splitlines()[-1] == "2 created"
    assert done[3].stdout == "2 unchanged\n"


def test_files_are_applied_pruned_and_exported(tmp_path: Path) -> None:
    file = tmp_path / "jobs.toml"
    run_here("job", "add", "by hand", "--every", "1h", "--callback-url", "https://example.com/")
    assert run_here("apply", EXAMPLES).returncode == 0
    before = jobs()
    assert before == {"by hand": 1, "daily-report": 1, "month-end": 1, "ping": 1}
    exported = run_here("export", "--owner", "reporting")
    file.write_text(exported.stdout)
    same = run_here("diff", file, "--prune", "--check")
    assert (same.returncode, same.stdout) == (0, "would be: 3 unchanged; nothing was changed\n"), (
        exported.stdout
    )
    assert run_here("apply", file, "--prune").stdout == "3 unchanged\n"
    assert jobs() == before

    bodies = json.loads(
        run_here("export", "daily-report", "month-end", "--owner", "reporting", "--json").stdout
    )
    bodies["jobs"][0]["timeout"] = "25m"
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps(bodies))
    kept = run_here("diff", file, "--check")
    assert kept.returncode == 3
    assert "! ping  no longer in the files of reporting; it is kept, --prune deletes it" in kept.stdout
    assert "    timeout_seconds: 1200 -> 1500" in kept.stdout
    pruned = run_here("apply", file, "--prune", "--json")
    told = json.loads(pruned.stdout)
    assert told["gone"] == [{"name": "ping", "owner": "reporting", "deleted": True}]
    assert told["changes"] is True
    assert jobs() == {"by hand": 1, "daily-report": 2, "month-end": 1}


def test_mistakes_name_file_job_and_field_and_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    good = '[[jobs]]\nname = "good"\ncallback_url = "https://example.com/"\n'
    Path("a.toml").write_text(
        good + '[[jobs]]\nname = "bad"\ncallback_url = "https://example.com/"\ntimout = "1m"\n'
    )
    for command in ("diff", "apply"):
        refused = run_here(command, "a.toml")
        assert refused.returncode == 2
        told = "a.toml: job 'bad' (line 4): timout: there is no such field; did you mean 'timeout'?"
        assert refused.stderr == f"error: {told}\n"
    pruned = run_here("apply", "a.toml", "--prune")
    assert (pruned.returncode, pruned.stderr.partition(":")[2].strip()[:6]) == (2, "prune:")
    assert jobs() == {}


def test_more_jobs_than_one_request_holds_are_checked_first(tmp_path: Path) -> None:
    body = {"callback_url": "https://example.com/"}
    many = [{"name": f"job {number}", **body} for number in range(1001)]
    file = tmp_path / "many.json"
    file.write_text(json.dumps({"jobs": [*many, {"name": "last", "every": "soon", **body}]}))
    refused = run_here("apply", file)
    assert (refused.returncode, jobs()) == (2, {})
    assert "job 'last': every: " in refused.stderr
    assert "note: more than one transaction holds; 2 parts are applied one after another" in refused.stderr


def test_a_late_mistake_leaves_nothing_changed_or_pruned(tmp_path: Path) -> None:
    file = tmp_path / "jobs.json"
    body = {"callback_url": "https://example.com/"}
    good = [{"name": name, **body} for name in ("a", "b")]
    file.write_text(json.dumps({"owner": "shop", "jobs": good}))
    assert run_here("apply", file).returncode == 0
    changed = [{"name": "a", "queue": "other", **body}, {"name": "c", **body}]
    file.write_text(json.dumps({"owner": "shop", "jobs": [*changed, {"name": "d", "callback_url": "x"}]}))
    refused = run_here("apply", file, "--prune")
    assert (refused.returncode, jobs()) == (2, {"a": 1, "b": 1})
    assert f"{file}: job 'd': callback_url: " in refused.stderr
    file.write_text(json.dumps({"owner": "shop", "jobs": changed}))
    assert run_here("apply", file, "--prune").stdout.splitlines()[-1] == "1 created, 1 changed, 1 deleted"
    assert jobs() == {"a": 2, "c": 1}


def test_a_file_with_a_job_that_is_over_is_applied_anywhere(tmp_path: Path) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text(
        '[[jobs]]\nname = "xmas"\nrun_at = 2025-12-24T09:00:00Z\ncallback_url = "https://example.com/"\n'
    )
    applied = run_here("apply", file)
    assert (applied.returncode, applied.stdout) == (0, f"+ xmas  {file}\n1 created\n")
    told = "does not fire any more; it did last at 2025-12-24 09:00:00 UTC"
    assert applied.stderr == f"warning: 'xmas': it {told}\n"
    assert json.loads(run_here("job", "show", "xmas", "--json").stdout)["next_fire_time"] is None
    again = run_here("apply", file)
    assert (again.stdout, again.stderr) == ("1 unchanged\n", "")


def test_null_is_exported_as_json_only() -> None:
    add = ("job", "add", "nothing", "--callback-url", "https://example.com/", "--payload", '{"a": null}')
    assert run_here(*add).returncode == 0
    refused = run_here("export")
    told = "job 'nothing': payload.a: is null, which TOML cannot hold; export it with --json"
    assert (refused.returncode, refused.stderr) == (2, f"error: {told}\n")
    assert json.loads(run_here("export", "--json").stdout)["jobs"][0]["payload"] == {"a": None}
