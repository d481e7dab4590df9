"""`job history`, `job diff` and `job edit` on a real server, with a real editor."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.processes.processes import command, run_here, server


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server(cwd=tmp_path_factory.mktemp("server")) as (process, url):
        yield url
        process.stop()


@pytest.fixture
def job(url: str) -> str:
    name = "report"
    run_here("job", "rm", name, "--server", url)
    made = run_here(
        "job", "add", name, "--callback-url", "https://example.com/", "--cron", "0 9 * * *", "--server", url
    )
    assert made.returncode == 0, made.stderr
    return name


def edit(patch: pytest.MonkeyPatch, folder: Path, code: str, *arguments: str) -> CompletedProcess[str]:
    """Carry out a command with an editor that changes `text` by Python code, and keeps what it was shown."""
    script = folder / "editor.py"
    script.write_text(
        "import pathlib, sys\npath = pathlib.Path(sys.argv[-1])\ntext = path.read_text()\n"
        f"pathlib.Path({str(folder / 'shown')!r}).write_text(text)\n{code}\npath.write_text(text)\n"
        "import os; os.utime(path, (1, 2**31))\n"
    )
    patch.setenv("VISUAL", f"{sys.executable} {script}")
    return run_here("job", "edit", *arguments)


def version(url: str, job: str) -> int:
    return int(json.loads(run_here("job", "show", job, "--json", "--server", url).stdout)["version"])


def test_edit_opens_the_job_as_toml_and_stores_what_is_saved(
    url: str, job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "text = text.replace('0 9', '30 9') + 'retry = { max_retries = 5 }\\n'"
    edited = edit(monkeypatch, tmp_path, code, job, "--server", url)
    assert edited.returncode == 0, edited.stderr
    assert edited.stdout.splitlines()[:2] == [
        "report: version 1 -> 2",
        "  trigger.expression: 0 9 * * * -> 30 9 * * *",
    ]
    assert (tmp_path / "shown").read_text().splitlines() == [
        "# The job 'report', version 1. Fields that are left out have their defaults.",
        'name = "report"',
        'callback_url = "https://example.com/"',
        'cron = "0 9 * * *"',
    ]
    again = edit(monkeypatch, tmp_path, "", job, "--server", url)
    assert (again.returncode, again.stderr) == (0, "report: nothing changed\n")


def test_wrong_edit_is_refused_kept_and_not_stored(
    url: str, job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for added, told in (
        ("retri = 1\n", "error: retri: there is no such field; did you mean 'retry'?"),
        ("every = ", "error: file: is not TOML: "),
        ('every = "1h"\n', "error: every: "),
    ):
        refused = edit(monkeypatch, tmp_path, f"text += {added!r}", job, "--server", url)
        assert refused.returncode == 2
        first, last = refused.stderr.splitlines()
        assert last.startswith(told)
        kept = Path(first.removeprefix("nothing was stored; your text is kept in "))
        assert kept.read_text() == (tmp_path / "shown").read_text() + added
        kept.unlink()
        kept.parent.rmdir()
    assert version(url, job) == 1


@pytest.mark.parametrize(
    ("editor", "told"),
    [
        ("/no/such/editor", "EDITOR: /no/such/editor: Editing failed: "),
        ("false", "EDITOR: false: Editing failed; nothing was stored, set VISUAL or EDITOR"),
        ("vi 'x", "EDITOR: cannot be split into words: No closing quotation; set VISUAL or EDITOR"),
        ("rm", "EDITOR: has removed the file that it was given; nothing was stored"),
    ],
)
def test_editor_that_cannot_be_used_is_told(
    url: str, job: str, editor: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", editor)
    refused = run_here("job", "edit", job, "--server", url)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert refused.stderr.startswith(f"error: {told}")


def test_text_that_is_not_utf8_is_kept(
    url: str, job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "path.write_bytes(b'\\xff'); os._exit(0)"
    refused = edit(
        monkeypatch, tmp_path, f"import os; os.utime(path, (1, 2**31)); {code}", job, "--server", url
    )
    first, last = refused.stderr.splitlines()
    assert last == "error: file: is not UTF-8: byte 0 is 0xff; save it in UTF-8"
    kept = Path(first.removeprefix("nothing was stored; your text is kept in "))
    assert kept.read_bytes() == b"\xff"
    kept.unlink()
    kept.parent.rmdir()


def test_text_is_kept_while_no_server_answers(
    job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    with server(cwd=folder) as (running, other):
        made = run_here("job", "add", "x", "--callback-url", "https://example.com/", "--server", other)
        assert made.returncode == 0, made.stderr
        code = (
            f"import os, signal; os.kill({running.process.pid}, signal.SIGKILL); text += 'queue = \"a\"\\n'"
        )
        failed = edit(monkeypatch, tmp_path, code, "x", "--server", other)
        running.process.wait()
    assert failed.returncode == 1
    kept = Path(failed.stderr.splitlines()[0].removeprefix("nothing was stored; your text is kept in "))
    assert kept.read_text().endswith('queue = "a"\n')
    kept.unlink()
    kept.parent.rmdir()


def test_edit_loses_to_another_edit(
    url: str, job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = command("job", "edit", job, "--queue", "a", "--server", url)
    code = f"import subprocess; subprocess.run({other!r}); text = text.replace('9', '8')"
    refused = edit(monkeypatch, tmp_path, code, job, "--server", url)
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[1] == "error: version: the job has version 2 by now, not 1"


def test_options_change_single_fields_and_history_tells_them(url: str, job: str) -> None:
    at = ("--server", url)
    assert run_here("job", "edit", job, "--timeout", "5m", "--retries", "9", *at).returncode == 0
    assert run_here("job", "edit", job, "--soft-timeout", "1m", *at).returncode == 0
    assert run_here("job", "edit", job, "--unset", "soft_timeout", "--rename", "monthly", *at).returncode == 0
    history = run_here("job", "history", "monthly", *at)
    lines = [" ".join(line.split()) for line in history.stdout.splitlines()]
    assert lines[1].endswith("name: report -> monthly; soft_timeout_seconds: 60 -> (none)")
    assert lines[4].endswith("created")
    two = run_here("job", "history", "monthly", "--limit", "2", *at)
    assert two.stderr == "for earlier ones, add --before 3\n"
    last = run_here("job", "diff", "monthly", *at).stdout
    assert last.splitlines() == [
        "version 3 -> 4",
        "  name: report -> monthly",
        "  soft_timeout_seconds: 60 -> (none)",
    ]
    since = json.loads(run_here("job", "diff", "monthly", "1", "--json", *at).stdout)
    assert [one["field"] for one in since["changes"]] == ["name", "retry.max_retries", "timeout_seconds"]
    back = json.loads(run_here("job", "diff", "monthly", "4", "1", "--json", *at).stdout)
    assert back["changes"][0] == {"field": "name", "before": "monthly", "after": "report"}
    missing = run_here("job", "diff", "monthly", "7", *at)
    assert (missing.returncode, missing.stderr) == (2, "error: no version '7'\n")
    run_here("job", "rm", "monthly", *at)


def test_a_file_gives_the_whole_definition(url: str, job: str, tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    text = 'name = "report"\ncallback_url = "https://example.com/"\nevery = "1h"\n'
    file.write_text(text)
    edited = run_here("job", "edit", job, "--file", file, "--server", url)
    assert (edited.returncode, edited.stdout.splitlines()[0]) == (0, "report: version 1 -> 2")
    both = run_here("job", "edit", job, "--file", file, "--queue", "a", "--server", url)
    assert both.stderr == "error: file: has the whole definition; give it alone, or only options\n"
