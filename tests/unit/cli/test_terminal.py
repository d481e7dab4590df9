"""Tables fit the terminal, ids and instants stay whole, and tracebacks are not wrapped."""

from __future__ import annotations

import os
import pty
import struct
import subprocess
import sys
import termios
from fcntl import ioctl

from hypothesis import given
from hypothesis import strategies as st

from mainspring.cli.terminal import cut, fit_widths, wrap_text

_PROGRAM = """
from datetime import datetime, timezone
from mainspring.cli.output import print_fields, print_table
at = datetime(2026, 11, 25, 12, 0, 5, tzinfo=timezone.utc)
print_table(
    ("RUN", "JOB", "STATE", "DUE", ""),
    [("run_00000000000sk", "a-job-with-a-rather-long-name", "FAILED", at, "an error that says " * 9)] * 3,
    empty="",
)
print_fields({"due": at, "note": "some words " * 12})
"""


def on_terminal(columns: int, lines: int = 40, *, program: str = _PROGRAM, **environment: str) -> str:
    """Return what the program writes to a terminal of so many columns, with its input from there, too."""
    parent, child = pty.openpty()
    ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    given = {**os.environ, "TERM": "xterm", "TZ": "America/New_York", **environment}
    for name in ("COLUMNS", "LINES"):  # they count for more than the terminal
        given.pop(name, None)
    given.pop("NO_COLOR", None) if "NO_COLOR" not in environment else None
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=child, stdout=child, stderr=child, env=given) as process:
        os.close(child)
        found = b""
        while True:
            try:
                read = os.read(parent, 65536)
            except OSError:  # Linux says so at the end
                break
            if not read:
                break
            found += read
        assert process.wait() == 0
    os.close(parent)
    return found.decode().replace("\r\n", "\n")


def test_a_table_fits_the_terminal_and_keeps_ids_and_instants_whole() -> None:
    plain = on_terminal(80, NO_COLOR="1").splitlines()
    assert max(map(len, plain)) <= 80
    assert "\x1b" not in "".join(plain)
    assert plain[1].startswith("run_00000000000sk  a-job")
    assert "2026-11-25 07:00:05" in plain[1]
    assert plain[1].endswith("…")
    assert plain[4] == "due   2026-11-25 07:00:05-05:00"
    assert plain[5].startswith("note  some words")
    assert plain[6].startswith("      ")


def test_a_long_table_goes_through_the_pager_if_that_is_a_command() -> None:
    assert "run_" not in on_terminal(80, 3, PAGER="head -1")
    for pager in ("less 'x", "/no/such/pager"):
        assert on_terminal(80, 3, PAGER=pager).count("run_00000000000sk") == 3


def test_colours_are_for_terminals_that_have_some() -> None:
    assert "\x1b[31mFAILED" in on_terminal(140)
    assert "\x1b[" not in on_terminal(140, TERM="dumb")


@given(
    st.lists(st.lists(st.text("ab", max_size=40), min_size=3, max_size=3), min_size=1, max_size=5),
    st.integers(10, 120),
)
def test_widths_fit_unless_all_is_cut_that_may_be(rows: list[list[str]], room: int) -> None:
    columns = ("ONE", "SECOND", "T")
    widths = fit_widths(columns, rows, room=room, fixed={1})
    full = fit_widths(columns, rows, room=10_000, fixed={1})
    assert widths[1] == full[1]
    assert all(width <= most for width, most in zip(widths, full, strict=True))
    is_at_its_least = all(width <= 6 for width in (widths[0], widths[2]))
    assert sum(widths) + 4 <= room or is_at_its_least
    assert all(
        len(cut(cell, width)) <= width for row in rows for cell, width in zip(row, widths, strict=True)
    )


def test_what_is_cut_last_is_whole_as_long_as_others_can_be_cut() -> None:
    columns, rows = ("NAME", "WORDS", "N"), [["a" * 20, "b" * 30, "7"]]
    assert fit_widths(columns, rows, room=40, fixed=(), last=(0,)) == [20, 15, 1]
    assert fit_widths(columns, rows, room=25, fixed=(), last=(0,)) == [14, 6, 1]
    assert fit_widths(columns, rows, room=40, fixed=()) == [17, 18, 1]


def test_long_lines_are_wrapped_but_not_those_of_a_traceback() -> None:
    trace = (
        "Traceback (most recent call last):\n    raise ValueError('a very long line of code in here')\nshort"
    )
    assert wrap_text(trace, 40) == trace.split("\n")
    assert wrap_text("one two three four", 9) == ["one two", "three", "four"]
    assert wrap_text("one two three four", None) == ["one two three four"]
