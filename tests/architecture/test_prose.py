"""The prose linter finds what it is for, and reads no code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORDS = " ".join(f"word{number}" for number in range(31))


def lint(folder: Path, text: str) -> tuple[int, list[str]]:
    page = folder / "page.md"
    page.write_text(text)
    command = [sys.executable, str(ROOT / "scripts" / "prose.py"), str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, [
        line.removeprefix(f"{page}:").rsplit(": ", 1)[0] for line in done.stdout.splitlines()
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# Title\n\nIt helps in order to start.\n", "3:10: mainspring.plain"),
        ("A worker reports his run.\n", "1:18: mainspring.person"),
        ("The server will answer.\n", "1:5: mainspring.tense"),
        ("A rank has a reason.\n", "1:3: mainspring.retired"),
        ("Start the\nthe server.\n", "1:7: mainspring.doubled"),
        (f"Short. {WORDS}.\n", "1:8: mainspring.sentence"),
        ("At that point in time.\n", "1:9: redundancy.misc.after_the_deadline"),
    ],
)
def test_prose_is_found_with_its_place_and_rule(tmp_path: Path, text: str, found: str) -> None:
    assert lint(tmp_path, text) == (1, [found])


@pytest.mark.parametrize(
    "text",
    [
        "Use `in order to` as a name.\n",
        "```sh\nin order to\n```\n",
        "See [the page](in-order-to.md).\n",
        "<!-- in order to -->\n",
        'It was called "fire range" until 0.2.\n',
        f"- {WORDS[:100]}\n- {WORDS[100:]}\n",
        f"| {WORDS[:100]} | {WORDS[100:]} |\n",
    ],
    ids=["inline", "fenced", "link", "comment", "quoted", "list", "table"],
)
def test_code_links_and_quoted_words_are_not_read_as_prose(tmp_path: Path, text: str) -> None:
    assert lint(tmp_path, text) == (0, [])
