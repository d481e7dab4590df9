"""What a shell completes, asked for as its script does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from click.shell_completion import get_completion_class

from mainspring.cli.main import cli
from tests.processes.processes import command, environment, run_here, server

SHELLS = ("bash", "zsh", "fish")


def complete(*words: str, shell: str = "bash", **more: str) -> list[tuple[str, str]]:
    """Return the types and values that complete the last word, as the shell's script gets them."""
    line = {"COMP_WORDS": " ".join(["mainspring", *words]), "COMP_CWORD": str(len(words))}
    if shell == "fish":
        line["COMP_CWORD"] = words[-1]
    kind = get_completion_class(shell)
    assert kind is not None
    with patch.dict(os.environ, {**line, **more}):
        lines = kind(cli, {}, "mainspring", "_MAINSPRING_COMPLETE").complete().splitlines()
    if shell == "zsh":
        return list(zip(lines[::3], lines[1::3], strict=True))
    return [(kind, value) for kind, _, value in (line.partition(",") for line in lines)]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server(cwd=tmp_path_factory.mktemp("server")) as (process, url):
        for name in ("report", "reply", "two words", "-dash", "mail"):
            made = run_here(
                "job", "add", "--server", url, "--callback-url", "https://example.com/", "--", name
            )
            assert made.returncode == 0, made.stderr
        made = run_here(
            "job", "add", "reserved", "--tenant", "b", "--callback-url", "https://a.example/", "--server", url
        )
        assert made.returncode == 0, made.stderr
        yield url
        process.stop()


@pytest.mark.parametrize("shell", SHELLS)
def test_jobs_are_completed_by_name(url: str, shell: str) -> None:
    wanted = [("plain", "reply"), ("plain", "report")]
    for words in (("job", "show", "re"), ("ledger", "re"), ("run", "list", "--job", "re"), ("export", "re")):
        assert sorted(complete(*words, shell=shell, MAINSPRING_SERVER=url)) == wanted
    given = ("job", "run", "--server", url, "--tenant", "b", "res")
    assert complete(*given, shell=shell) == [("plain", "reserved")]
    assert len(complete("job", "show", "", shell=shell, MAINSPRING_SERVER=url)) == 3


def test_without_a_server_there_is_nothing_to_complete() -> None:
    assert complete("job", "show", "re", MAINSPRING_SERVER="http://127.0.0.1:1") == []
    assert complete("job", "show", "re", MAINSPRING_SERVER="nonsense") == []


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "words",
    [
        ("apply", "jo"),
        ("import", "crontab", "jo"),
        ("import", "kubernetes", "jo"),
        ("job", "add", "--body", "jo"),
        ("job", "edit", "x", "--file", "jo"),
        ("calendar", "import", "x", "jo"),
        ("up", "--config", "jo"),
    ],
)
def test_files_are_left_to_the_shell(words: tuple[str, ...], shell: str) -> None:
    assert complete(*words, shell=shell) == [("file", "jo")]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("words", "values"),
    [
        (("run", "list", "--state", "f"), ["FAILED"]),
        (("run", "list", "--kind", "b"), ["backfill"]),
        (("job", "run", "x", "--priority", ""), ["HIGH", "MEDIUM", "LOW"]),
        (("job", "add", "x", "--priority", "h"), ["HIGH"]),
        (("job", "add", "x", "--overlap", "q"), ["queue_one", "queue_all"]),
        (("queue", "set", "x", "--order", "f"), ["fair", "fifo"]),
        (("up", "--log-format", ""), ["auto", "logfmt", "json"]),
        (("job", "run", "x", "--prio"), ["--priority"]),
    ],
)
def test_words_are_completed(words: tuple[str, ...], values: list[str], shell: str) -> None:
    assert [value.partition("\t")[0] for _, value in complete(*words, shell=shell)] == values


def test_the_lines_of_the_page_print_a_script() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/cli.md").read_text()
    for shell in SHELLS:
        assert f"_MAINSPRING_COMPLETE={shell}_source mainspring" in page
        asked = environment(_MAINSPRING_COMPLETE=f"{shell}_source")
        printed = subprocess.run(command(), env=asked, capture_output=True, text=True, check=True)
        assert "mainspring" in printed.stdout
