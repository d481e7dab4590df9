"""A process that does not come to its line is not waited for without end, and its log says where it was."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from tests.chaos import processes
from tests.chaos.processes import Ended, Stuck, lines_within
from tests.upgrade.cluster import Member

HANGS = """
import threading
def wait_for_nobody():
    print("nearly there", flush=True)
    threading.Event().wait()
wait_for_nobody()
"""
GIVES_UP = """
import sys
sys.exit("the port is in use")
"""


def make_member(folder: Path, code: str) -> Member:
    """Make a member whose product is this code."""
    (folder / "mainspring").mkdir()
    (folder / "mainspring" / "__init__.py").touch()
    (folder / "mainspring" / "__main__.py").write_text(code)
    member = Member(folder, name="server", arguments=["server"])
    member.python_path = folder
    return member


def lose_patience(seconds: float, pipe: IO[bytes]) -> Iterator[bytes]:
    """Yield lines until one shows that the process has come to where it hangs."""
    for line in lines_within(seconds, pipe):
        if line == b"nearly there\n":
            raise TimeoutError
        yield line


def test_one_that_hangs_is_killed_and_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "lines_within", lose_patience)
    member = make_member(tmp_path, HANGS)
    with pytest.raises(Stuck, match=r"server was not ready after 120 s: see .*server\.log") as stuck:
        member.start()
    assert "in wait_for_nobody" in str(stuck.value)
    assert not member.is_running
    member.close()


def test_one_that_ends_says_why(tmp_path: Path) -> None:
    member = make_member(tmp_path, GIVES_UP)
    with pytest.raises(Ended, match=r"server ended with 1: see .*server\.log.*\n.*the port is in use"):
        member.start()
    member.close()


def test_lines_come_whole_and_the_end_of_patience_is_an_error() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as pipe, os.fdopen(writer, "wb", buffering=0) as other:
        lines = lines_within(0.0, pipe)
        other.write(b"one\ntw")
        assert next(lines) == b"one\n"
        other.write(b"o\nthree\nfo")
        assert [next(lines), next(lines)] == [b"two\n", b"three\n"]
        with pytest.raises(TimeoutError):
            next(lines)


def test_what_has_no_line_end_is_the_last_line() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as pipe:
        with os.fdopen(writer, "wb", buffering=0) as other:
            other.write(b"one\ntwo")
        assert list(lines_within(20.0, pipe)) == [b"one\n", b"two"]
