"""Writes log lines for people: time, level, and a sentence instead of pairs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

_STYLES = {"debug": "2", "info": "32", "warning": "33", "error": "1;31", "critical": "1;31"}
_INSTANT = re.compile(r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(?:\.[0-9]+)?Z")
_Said = Mapping[str, Any]


def _failed(said: _Said) -> str:
    error = f": {said['error']}" if said.get("error") else ""
    return f"{said['job']}: attempt {said['attempt']} failed{error}; {said['next']} ({said['run']})"


def _lost(said: _Said) -> str:
    return (
        f"{said['job']}: attempt {said['attempt']} was lost with its worker; {said['next']} ({said['run']})"
    )


def _dead(said: _Said) -> str:
    error = f": {said['error']}" if said.get("error") else ""
    return f"{said['job']}: failed for good at attempt {said['attempt']}{error}; {said['next']}"


def _missed(said: _Said) -> str:
    return f"{said['job']}: missed its fires from {said['since']} to {said['through']}; {said['next']}"


def _further(said: _Said) -> str:
    kinds = ("attempt_failed", "run_failed", "attempt_lost", "fires_missed")
    counts = ", ".join(f"{said[kind]:,} {kind.replace('_', ' ')}" for kind in kinds if kind in said)
    of = f" of {said['job']}" if "job" in said else ""
    return f"and in these {said['seconds']} s also{of}: {counts}"


_SENTENCES: Mapping[str, Callable[[_Said], str]] = {
    "attempt_failed": _failed,
    "attempt_lost": _lost,
    "run_failed": _dead,
    "fires_missed": _missed,
    "further_events": _further,
}


def write_sentence(event: str, said: _Said) -> str:
    """Return an event and what is said of it as a sentence, or as words and pairs."""
    write = _SENTENCES.get(event)
    return _in_pairs(event, dict(said)) if write is None else write(said)


class LinesForPeople:
    """The last of structlog's processors, for a terminal.

    Args:
        is_coloured: whether the terminal shows colours.
    """

    def __init__(self, *, is_coloured: bool) -> None:
        self._is_coloured = is_coloured

    def __call__(self, logger: object, method: str, said: dict[str, Any]) -> str:
        """Return the line."""
        del logger, method
        level = str(said.pop("level", "info"))
        at = datetime.fromisoformat(str(said.pop("timestamp"))).astimezone()
        trace = said.pop("exception", None)
        event = str(said.pop("event"))
        text = write_sentence(event, said)
        text = _INSTANT.sub(lambda found: _localize(found.group(), at), text)
        line = f"{self._paint(f'{at:%H:%M:%S}', '2')} {self._paint(f'{level:<7}', _STYLES.get(level, '0'))} {text}"
        return line if trace is None else f"{line}\n{trace}"

    def _paint(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._is_coloured else text


def _localize(instant: str, now: datetime) -> str:
    """Return an instant as the clock on the wall shows it, with the date if that is not today's."""
    local = datetime.fromisoformat(instant).astimezone()
    return f"{local:%H:%M:%S}" if local.date() == now.date() else f"{local:%Y-%m-%d %H:%M:%S}"


def _in_pairs(event: str, said: dict[str, Any]) -> str:
    meaning = said.pop("meaning", None)
    words = event.replace("_", " ")
    pairs = " ".join(f"{name}={_plain(value)}" for name, value in said.items())
    head = f"{words} {pairs}".rstrip()
    return head if meaning is None else f"{head}: {meaning}"


def _plain(value: object) -> str:
    text = str(value)
    return repr(text) if " " in text or not text else text


def shows_colours(stream: Any) -> bool:
    """Say whether to write colours to a stream: it is a terminal that has some, and nobody asked for none."""
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
