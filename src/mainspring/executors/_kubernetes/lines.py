"""Divides a log with times into its lines. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from mainspring.core.values import value

Instant = tuple[int, int]
"""Seconds since 1970, and nanoseconds: more than a `datetime` holds."""
_TIME = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII)
_PART_OF_TIME = re.compile(rb"[\dTZ:.+-]*")
_LONGEST_TIME = 40
_LONGEST_LINE = 64 * 1024
"""Bytes of a line that are waited for. Of a longer one, what is there is passed on."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@value()
class Piece:
    """A line, or a part of one.

    Attributes:
        time: what stands in front of it; None if no time does.
        nth: which line of that time it is, from 1.
        at: where in the line it begins.
        is_whole: it ends the line.
    """

    time: Instant | None
    nth: int
    data: bytes
    at: int
    is_whole: bool


class LogLines:
    """Takes what one connection brings."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._is_in_line = False
        self._time: Instant | None = None
        self._nth = 0
        self._at = 0

    def take(self, data: bytes) -> Iterator[Piece]:
        """Take in what has come, and give the lines that are whole, and long parts of others."""
        self._data += data
        while self._data:
            end = self._data.find(b"\n") + 1
            if not self._is_in_line and not self._begin(is_whole=bool(end)):
                return
            end = self._data.find(b"\n") + 1
            if not end and len(self._data) < _LONGEST_LINE:
                return
            yield self._cut(end or len(self._data), is_whole=bool(end))

    def end(self) -> Iterator[Piece]:
        """Give what is left. Whether its line is whole is not known: a connection may end anywhere."""
        if not self._is_in_line and self._data:
            if _PART_OF_TIME.fullmatch(self._data):
                return
            self._begin(is_whole=True)
        if self._data:
            yield self._cut(len(self._data), is_whole=False)

    def _begin(self, *, is_whole: bool) -> bool:
        """Read the time in front of a line; False if more of it has to come first."""
        blank = self._data.find(b" ", 0, _LONGEST_TIME)
        if blank < 0 and not is_whole and len(self._data) < _LONGEST_TIME:
            return False
        time = read_time(bytes(self._data[:blank])) if blank > 0 else None
        if time is not None:
            del self._data[: blank + 1]
            self._nth = self._nth + 1 if time == self._time else 1
            self._time = time
        self._is_timed = time is not None
        self._is_in_line, self._at = True, 0
        return True

    _is_timed = False

    def _cut(self, size: int, *, is_whole: bool) -> Piece:
        time = self._time if self._is_timed else None
        piece = Piece(time, self._nth, bytes(self._data[:size]), self._at, is_whole)
        del self._data[:size]
        self._at += size
        self._is_in_line = not is_whole
        return piece


def read_time(text: bytes) -> Instant | None:
    """Return the time that a text is, in any zone; None if it is none."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    try:
        second = datetime.fromisoformat((found[1] + found[3]).decode())
    except ValueError:
        return None
    return (second - _EPOCH) // timedelta(seconds=1), int((found[2] or b"0").ljust(9, b"0"))


def show_second(time: Instant) -> str:
    """Return the second of a time, as Kubernetes writes it."""
    return (_EPOCH + timedelta(seconds=time[0])).strftime("%Y-%m-%dT%H:%M:%SZ")
