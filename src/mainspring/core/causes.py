"""Causes of a failed attempt: what its executor reported, and the texts by which a rule names them."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

from mainspring.core.values import value
from mainspring.errors import InvalidInput

MAX_CAUSE = 200
"""The most characters of the name of an exception."""
MOST_EXCEPTIONS = 32
"""The most classes of an exception that are reported."""
_NAME = re.compile(r"[^\W\d]\w*(?:\.(?:[^\W\d]\w*|<locals>))*")
_STATUS = re.compile(r"([1-5])xx|([1-5]\d\d)(?:-([1-5]\d\d))?", re.ASCII)
_EXIT = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?", re.ASCII)
_SIGNALS = {
    "HUP": 1,
    "INT": 2,
    "QUIT": 3,
    "ILL": 4,
    "TRAP": 5,
    "ABRT": 6,
    "BUS": 7,
    "FPE": 8,
    "KILL": 9,
    "USR1": 10,
    "SEGV": 11,
    "USR2": 12,
    "PIPE": 13,
    "ALRM": 14,
    "TERM": 15,
    "XCPU": 24,
    "XFSZ": 25,
}
"""As Linux numbers them: commands run on Linux only."""
_MOST_SIGNAL = 64
_TIMEOUT_ERROR = "builtins.TimeoutError"


@value(kw_only=True)
class Cause:
    """Why an attempt failed, as its executor saw it. Time-outs and crashes are told apart from it.

    Attributes:
        exceptions: the qualified names of the exception's classes, its own first, then those that it is derived from.
        exit_code: how a command ended; a negative number is the signal that ended it.
        status: the status of an HTTP answer.
        is_connection: there was no HTTP answer.
    """

    exceptions: tuple[str, ...] = ()
    exit_code: int | None = None
    status: int | None = None
    is_connection: bool = False


class CauseKind(StrEnum):
    """What a rule's text names."""

    ANY = "any"
    TIMEOUT = "timeout"
    CRASH = "crash"
    CONNECTION = "connection"
    STATUS = "status"
    EXIT = "exit"
    SIGNAL = "signal"
    EXCEPTION = "exception"


WORDS = (CauseKind.ANY, CauseKind.TIMEOUT, CauseKind.CRASH, CauseKind.CONNECTION)
"""The causes that a word alone names."""


@value()
class Pattern:
    """The causes that a text names: a kind, with a range of numbers or the name of an exception."""

    kind: CauseKind
    low: int = 0
    high: int = 0
    name: str = ""

    def fits(self, cause: Cause | None, *, is_timeout: bool = False) -> bool:
        """Say whether it names what an attempt failed of. A crash is none of these: see `Pattern.kind`."""
        if self.kind is CauseKind.ANY:
            return True
        if is_timeout and (
            self.kind is CauseKind.TIMEOUT
            or (self.kind is CauseKind.EXCEPTION and _is_called(_TIMEOUT_ERROR, self.name))
        ):
            return True
        return cause is not None and self._fits(cause)

    def _fits(self, cause: Cause) -> bool:
        match self.kind:
            case CauseKind.CONNECTION:
                return cause.is_connection
            case CauseKind.STATUS:
                return cause.status is not None and self.low <= cause.status <= self.high
            case CauseKind.EXIT:
                return cause.exit_code is not None and self.low <= cause.exit_code <= self.high
            case CauseKind.SIGNAL:
                return cause.exit_code is not None and -self.low == cause.exit_code
            case CauseKind.EXCEPTION:
                return any(_is_called(name, self.name) for name in cause.exceptions)
            case _:
                return False


@lru_cache(maxsize=1024)
def pattern_of(text: str) -> Pattern:
    """Return the causes that a kept text names."""
    return read_pattern(text, "on")


def read_pattern(text: str, path: str) -> Pattern:
    """Read the causes that a text names.

    Raises:
        InvalidInput: it names none.
    """
    if text in WORDS:
        return Pattern(CauseKind(text))
    word, _, rest = text.partition(" ")
    if word == CauseKind.STATUS:
        return _read_status(rest.strip(), path)
    if word == CauseKind.EXIT:
        return _read_exit(rest.strip(), path)
    if word == CauseKind.SIGNAL:
        return _read_signal(rest.strip(), path)
    if _NAME.fullmatch(text) and len(text) <= MAX_CAUSE:
        from difflib import get_close_matches  # costs a start of 2 ms

        near = get_close_matches(text, [*WORDS, "status", "exit", "signal"], n=1, cutoff=0.75)
        if text.islower() and near:
            raise InvalidInput(path, f"{text!r} is no cause; did you mean '{near[0]}'?")
        return Pattern(CauseKind.EXCEPTION, name=text)
    if _STATUS.fullmatch(text) or _EXIT.fullmatch(text):
        raise InvalidInput(path, f"{text!r} is a number alone; write 'status {text}' or 'exit {text}'")
    message = (
        "must be 'any', 'timeout', 'crash', 'connection', like 'status 5xx', 'exit 75', 'signal KILL', or the"
    )
    raise InvalidInput(path, f"{message} name of an exception, not {text[:60]!r}")


def _read_status(text: str, path: str) -> Pattern:
    found = _STATUS.fullmatch(text)
    if found is None:
        message = "must be like 'status 429', 'status 5xx' or 'status 500-503', from 100 to 599"
        raise InvalidInput(path, f"{message}; {text[:60]!r} is not")
    group, first, last = found.groups()
    if group is not None:
        return Pattern(CauseKind.STATUS, int(group) * 100, int(group) * 100 + 99)
    return _make_range(CauseKind.STATUS, first, last, path)


def _read_exit(text: str, path: str) -> Pattern:
    found = _EXIT.fullmatch(text)
    if found is None or not all(1 <= int(part) <= 255 for part in found.groups() if part is not None):
        message = "must be like 'exit 75' or 'exit 64-78', from 1 to 255; 0 is a success"
        raise InvalidInput(path, f"{message}; {text[:60]!r} is not")
    return _make_range(CauseKind.EXIT, found[1], found[2], path)


def _read_signal(text: str, path: str) -> Pattern:
    number = _SIGNALS.get(text.upper().removeprefix("SIG"))
    if number is None and text.isascii() and text.isdecimal():
        number = int(text[:4])
    if number is None or not 1 <= number <= _MOST_SIGNAL:
        message = f"must be like 'signal KILL' or 'signal 9'; {text[:60]!r} is no signal"
        raise InvalidInput(path, message)
    return Pattern(CauseKind.SIGNAL, number, number)


def _make_range(kind: CauseKind, first: str, last: str | None, path: str) -> Pattern:
    low, high = int(first), int(last or first)
    if low > high:
        raise InvalidInput(path, f"the range {low}-{high} is empty; write '{kind} {high}-{low}'")
    return Pattern(kind, low, high)


def _is_called(full: str, name: str) -> bool:
    """Say whether a class with this qualified name may be called so: in full, or by the last parts of its name."""
    return full == name or full.endswith(f".{name}")
