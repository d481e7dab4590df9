"""Progress is drawn on a terminal and nowhere else, fits it, and is gone at the end."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from mainspring.cli.progress import draw_progress
from tests.unit.cli.test_terminal import on_terminal

_PROGRAM = """
import sys
from mainspring.cli.progress import Progress
with Progress("applying", 4) as progress:
    progress.advance()
    progress.show(4, "all made")
with Progress("one step", 1) as progress:
    progress.advance()
try:
    with Progress("refused", 9) as progress:
        raise ValueError
except ValueError:
    pass
print("done")
"""


def screen(written: str) -> list[str]:
    """Return the lines that are on the screen in the end."""
    lines = []
    for line in written.split("\n"):
        shown = ""
        for part in line.split("\r"):
            shown = part + shown[len(part) :]
        lines.append(shown.rstrip())
    return lines


def test_it_is_drawn_in_place_and_erased() -> None:
    written = on_terminal(80, program=_PROGRAM, NO_COLOR="1")
    assert "\x1b" not in written
    assert "applying [..............................] 0 of 4" in written
    assert "applying [##############################] 4 of 4, all made" in written
    assert "one step" not in written
    assert "refused [" in written
    assert screen(written) == ["done", ""]


def test_it_has_colours_where_the_terminal_has() -> None:
    written = on_terminal(80, program=_PROGRAM)
    assert "\x1b[32m##############################\x1b[0m" in written
    assert screen(re.sub(r"\x1b\[[0-9]*m", "", written)) == ["done", ""]


def test_a_dumb_terminal_and_a_pipe_get_nothing() -> None:
    assert on_terminal(80, program=_PROGRAM, TERM="dumb") == "done\n"
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("done\n", "")


@pytest.mark.parametrize("columns", [0, 5, 20, 31, 40, 80, 200])
@pytest.mark.parametrize("done", [0, 1, 500, 999, 1000])
def test_it_fits(columns: int, done: int) -> None:
    line, full = draw_progress("running again", done, 1000, note="", columns=columns)
    assert len(line) <= columns
    assert full in line
    if columns >= 40:
        assert line.endswith(f"] {done:,} of 1,000")
        assert len(full) == line.count("#")
        assert ("." in line) == (done < 1000)
