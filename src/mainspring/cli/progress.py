"""A line on the terminal that says how far a long command has come. It is erased at the end."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import click

from mainspring.cli.terminal import Terminal
from mainspring.clock import monotonic

_WIDEST = 30
_NARROWEST = 5
_PERIOD = 0.1
"""Seconds between two drawings, so that fast work is not slowed down."""


class Progress:
    """Shows how much of something is done, on the standard error if that is a terminal, and nowhere else.

    Args:
        what: what is being done, like `applying`.
        total: how many steps there are. With fewer than two, nothing is shown.
    """

    def __init__(self, what: str, total: int) -> None:
        self._terminal = Terminal.of_errors() if total > 1 else None
        self._what, self._total = what, total
        self._done, self._drawn = 0, 0
        self._drawn_at: float | None = None

    @property
    def is_shown(self) -> bool:
        """Whether there is a terminal to show it on."""
        return self._terminal is not None

    def __enter__(self) -> Self:
        self._draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            click.echo(f"\r{' ' * self._drawn}\r", nl=False, err=True)
            self._drawn = 0

    def advance(self, steps: int = 1) -> None:
        """Note that so many further steps are done."""
        self.show(self._done + steps)

    def show(self, done: int, note: str = "") -> None:
        """Note how many steps are done.

        Args:
            note: more about it, which is cut if it does not fit.
        """
        self._done = done
        is_last = done >= self._total
        if is_last or self._drawn_at is None or monotonic() - self._drawn_at >= _PERIOD:
            self._draw(note)

    def _draw(self, note: str = "") -> None:
        if self._terminal is None:
            return
        self._drawn_at = monotonic()
        line, bar = draw_progress(
            self._what, self._done, self._total, note=note, columns=self._terminal.columns - 1
        )
        width, spare = len(line), " " * max(self._drawn - len(line), 0)
        if bar and self._terminal.has_colours:
            line = line.replace(bar, click.style(bar, fg="green"), 1)
        click.echo(f"\r{line}{spare}", nl=False, err=True, color=self._terminal.has_colours)
        self._drawn = width


def draw_progress(what: str, done: int, total: int, *, note: str, columns: int) -> tuple[str, str]:
    """Return a line that fits, and the full part of the bar in it, which is empty if there is no room for a bar."""
    told = f"{done:,} of {total:,}{f', {note}' if note else ''}"
    room = min(_WIDEST, columns - len(what) - len(told) - 4)
    if room < _NARROWEST:
        return f"{what} {told}"[: max(columns, 0)], ""
    full = "#" * (room * min(done, total) // total)
    return f"{what} [{full.ljust(room, '.')}] {told}", full
