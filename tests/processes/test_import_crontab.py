"""`mainspring import crontab`: what its preview warns of, what it skips, and what an earlier import left behind."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mainspring.cli.main import cli
from tests.processes.processes import run, server


def preview(text: str, *options: str) -> dict[str, Any]:
    done = CliRunner().invoke(cli, ["import", "crontab", "-", "--json", "--tz", "UTC", *options], input=text)
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


FAULTY = "0 1 * * * a\n61 * * * * b\n@fortnightly c\n0 4 * * * d\n"


def test_without_a_zone_the_machines_own_is_taken_and_named() -> None:
    done = CliRunner().invoke(cli, ["import", "crontab", "-", "--json"], input="0 1 * * * a\n")
    found = json.loads(done.stdout)
    (note,) = found["notes"]
    assert note["place"] == "times"
    zone = found["entries"][0]["definition"]["tz"]
    assert ("this machine is in UTC" if zone == "UTC" else zone) in note["message"]
    assert "--tz" in note["message"]


def test_faulty_lines_keep_the_others_out_unless_they_are_skipped() -> None:
    done = run("import", "crontab", "-", "--tz", "UTC", text=FAULTY)
    assert done.returncode == 2
    assert "error: line 2: minute: " in done.stderr
    assert "nothing was imported; --skip-refused imports the others" in done.stderr
    done = run("import", "crontab", "-", "--tz", "UTC", "--skip-refused", text=FAULTY)
    assert done.returncode == 3
    assert "skipped: line 3: expression: " in done.stderr
    assert "nothing was imported" not in done.stderr
    done = run("import", "crontab", "-", "--skip-refused", text="61 * * * * b\n")
    assert done.returncode == 2
    assert "nothing was imported" in done.stderr


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (FAULTY, ("--yes", "--prune", "--skip-refused"), "prune: goes only with a source without faults"),
        ("0 1 * * * a\n", ("--prune",), "prune: deletes jobs, so it goes with --yes"),
        ("0 1 * * * a\n", ("--owner", "a/b"), "owner: must hold no '/'"),
        ("0 1 * * * a\n", ("--tz", "Mars/Base"), "tz: 'Mars/Base' is not a time zone known here"),
    ],
)
def test_what_does_not_go_together_is_said(text: str, options: tuple[str, ...], words: str) -> None:
    done = run("import", "crontab", "-", *options, text=text)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_an_import_knows_the_jobs_of_the_one_before(tmp_path: Path) -> None:
    def apply(text: str, *options: str, code: int = 0) -> dict[str, Any]:
        done = run(
            "import", "crontab", "-", "--yes", "--json", "--tz", "UTC", "--server", url, *options, text=text
        )
        assert done.returncode == code, done.stderr
        value: dict[str, Any] = json.loads(done.stdout)
        return value

    def left(answer: dict[str, Any]) -> set[str]:
        return {job["name"] for job in answer["left"]}

    with server("--store", "memory://", "--allow-shell", cwd=tmp_path) as (_, url):
        assert left(apply("0 1 * * * a\n0 2 * * * b\n0 3 * * * c\n")) == set()
        assert left(apply("0 9 * * * x\n", "--owner", "another")) == set()  # another crontab: nobody's loss
        stolen = run(
            "import", "crontab", "-", "--yes", "--server", url, "--owner", "another", text="0 5 * * * a\n"
        )
        assert stolen.returncode == 2
        assert "name: 'a' belongs to 'crontab:" in stolen.stderr
        assert "if this is the same source, give --owner crontab:" in stolen.stderr
        skipped = apply("0 1 * * * a\n0 2 * * * b\n61 * * * * c\n", "--skip-refused", code=3)
        assert [result["result"] for result in skipped["results"]] == ["unchanged", "unchanged"]
        assert left(skipped) == {"c"}
        pruned = apply("0 1 * * * a\n", "--prune")
        assert ({job["name"] for job in pruned["deleted"]}, left(pruned)) == ({"b", "c"}, set())
        shown = run("job", "list", "--server", url)
        assert [name in shown.stdout.split() for name in "abcx"] == [True, False, False, True]
