"""`mainspring import crontab`: what its preview warns of, and jobs that an earlier import left behind."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mainspring.cli.main import cli
from tests.processes.processes import run, server


def preview(text: str, *options: str) -> dict[str, Any]:
    done = CliRunner().invoke(cli, ["import", "crontab", "-", "--json", *options], input=text)
    assert done.exit_code == 0, done.output
    value: dict[str, Any] = json.loads(done.stdout)
    return value


def test_a_user_who_is_not_here_is_worth_a_warning_and_no_error() -> None:
    text = "0 1 * * * root a\n0 2 * * * no-such-user b\n0 3 * * * no-such-user c\n0 4 * * * cd / && d\n"
    found = preview(text, "--system")
    assert len(found["entries"]) == 4
    assert [note["line"] for note in found["notes"]] == [2, 4]
    assert "'no-such-user'" in found["notes"][0]["message"]
    assert "'cd'" in found["notes"][1]["message"]
    done = CliRunner().invoke(cli, ["import", "crontab", "-", "--system"], input=text)
    assert done.exit_code == 0
    assert "note: line 2: user: " in done.stderr


def test_no_user_no_warning() -> None:
    assert preview("0 1 * * * no-such-user\n")["notes"] == []


def test_a_file_of_windows(tmp_path: Path) -> None:
    (tmp_path / "crontab").write_bytes(b"\xef\xbb\xbf0 1 * * * a\r\n-0 2 * * * b\r\n")
    done = CliRunner().invoke(cli, ["import", "crontab", str(tmp_path / "crontab"), "--json"])
    assert done.exit_code == 0, done.output
    assert [entry["definition"]["name"] for entry in json.loads(done.stdout)["entries"]] == ["a", "b"]


ALONE = "0 1 * * * a\n"
TWO = "0 2 * * * a\n0 1 * * * a\n"


@pytest.mark.parametrize(("before", "after"), [(ALONE, TWO), (TWO, ALONE)])
def test_a_job_that_a_renamed_line_left_behind_is_named(tmp_path: Path, before: str, after: str) -> None:
    def apply(text: str) -> dict[str, Any]:
        done = run("import", "crontab", "-", "--yes", "--json", "--server", url, text=text)
        assert done.returncode == 0, done.stderr
        value: dict[str, Any] = json.loads(done.stdout)
        return value

    with server("--store", "memory://", "--allow-shell", cwd=tmp_path) as (_, url):
        first = apply(before)
        assert first["notes"] == []
        (name,) = {entry["definition"]["name"] for entry in first["entries"] if is_at_one(entry)}
        second = apply(after)
        assert {result["result"] for result in second["results"]} == {"created"}
        messages = [note["message"] for note in second["notes"]]
        assert any(f"mainspring job rm {name}" in message for message in messages)
        removed = run("job", "rm", name, "--server", url)
        assert removed.returncode == 0, removed.stderr
        assert not any(f"mainspring job rm {name}" in note["message"] for note in apply(after)["notes"])


def is_at_one(entry: dict[str, Any]) -> bool:
    return bool(entry["definition"]["cron"] == "0 1 * * *")
