"""How a check ends, and in which words durations and sizes are told."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from mainspring.core.values import value


class Grade(StrEnum):
    """How much a finding matters."""

    FINE = "fine"
    WARNING = "warning"
    FAILURE = "failure"

    @property
    def exit_code(self) -> int:
        """What a command ends with if this is the worst that it has found."""
        return list(Grade).index(self)


class Finding(NamedTuple):
    """What a check has found: what is so, why that matters, and what to do. Of what is fine, only the first."""

    severity: Grade
    found: str
    why: str = ""
    remedy: str = ""


@value(kw_only=True)
class Checked:
    """A check that was made, with what it has found."""

    area: str
    check: str
    severity: Grade
    found: str
    why: str
    remedy: str


def fine(found: str) -> Finding:
    """Say that all is well."""
    return Finding(Grade.FINE, found)


def warn(found: str, why: str, remedy: str) -> Finding:
    """Say that something may go wrong."""
    return Finding(Grade.WARNING, found, why, remedy)


def fail(found: str, why: str, remedy: str) -> Finding:
    """Say that something is wrong."""
    return Finding(Grade.FAILURE, found, why, remedy)


def tell(seconds: float) -> str:
    """Return a duration in one unit: `12 ms`, `4.2 s`, `3 min`, `5 h`, `2 days`."""
    seconds = abs(seconds)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    for unit, size in (("min", 60.0), ("h", 3600.0)):
        if seconds < 100 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} days"


def weigh(count: int) -> str:
    """Return a size: `512 MB`, `3.1 GB`."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def number(count: int, noun: str) -> str:
    """Return a number with its noun: `1 job`, `2 jobs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
