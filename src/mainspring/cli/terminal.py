"""What a terminal needs: tables that fit it, colours, and a pager for what is longer than its screen."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Collection, Sequence
from typing import TextIO

import click

from mainspring.core.values import value

NO_PAGER = "mainspring.no_pager"
"""Where a command's context has whether the pager is off."""
_GAP = 2
_NARROWEST = 6
COLOURS = {
    "SUCCEEDED": "green",
    "FAILED": "red",
    "RUNNING": "cyan",
    "RETRYING": "yellow",
    "CANCELLED": "magenta",
    "SKIPPED": "magenta",
    "FIRING": "red",
    "LATE": "red",
    "UP": "green",
}
"""The colours of the words that deserve one, as whole cells of a table."""


def _is_command() -> bool:
    """Say whether PAGER can be split into words. If not, a list is printed at once, as without a pager."""
    try:
        shlex.split(os.environ.get("PAGER", ""))
    except ValueError:
        return False
    return True


@value()
class Terminal:
    """The terminal to which a command writes.

    Attributes:
        has_colours: false with NO_COLOR, or if it says that it is dumb.
        has_pager: whether it may page: somebody is there to press keys.
    """

    columns: int
    lines: int
    has_colours: bool
    has_pager: bool

    @classmethod
    def of_output(cls) -> Terminal | None:
        """Return the terminal that is the standard output; None if that is a file or a pipe."""
        return cls._of(sys.stdout)

    @classmethod
    def of_errors(cls) -> Terminal | None:
        """Return the terminal that is the standard error; None if that is a file or a pipe, or cannot redraw a line."""
        return None if os.environ.get("TERM") == "dumb" else cls._of(sys.stderr)

    @classmethod
    def _of(cls, stream: TextIO) -> Terminal | None:
        if not stream.isatty():
            return None
        size = shutil.get_terminal_size()
        context = click.get_current_context(silent=True)
        is_off = context is not None and context.meta.get(NO_PAGER, False)
        is_dumb = os.environ.get("TERM") == "dumb"
        return cls(
            columns=size.columns,
            lines=size.lines,
            has_colours=not os.environ.get("NO_COLOR") and not is_dumb,
            has_pager=not is_off and not is_dumb and sys.stdin.isatty() and _is_command(),
        )

    def print_table(
        self,
        columns: Sequence[str],
        cells: Sequence[Sequence[str]],
        *,
        fixed: Collection[int],
        last: Collection[int] = (),
    ) -> None:
        """Print a table that fits. A long one goes through the pager.

        Args:
            fixed: the columns whose cells are never cut.
            last: those that are cut only once no other can be.
        """
        one_line = [[" ".join(cell.split()) for cell in row] for row in cells]
        widths = fit_widths(columns, one_line, room=self.columns, fixed=fixed, last=last)
        lines = [self._row(columns, widths, is_heading=True)]
        lines += [self._row(row, widths) for row in one_line]
        if self.has_pager and len(lines) >= self.lines:
            os.environ.setdefault("LESS", "FRX")
            click.echo_via_pager("\n".join(lines) + "\n", color=self.has_colours)
        else:
            for line in lines:
                click.echo(line, color=self.has_colours)

    def _row(self, cells: Sequence[str], widths: Sequence[int], *, is_heading: bool = False) -> str:
        parts = [cut(cell, width).ljust(width) for cell, width in zip(cells, widths, strict=True)]
        parts[-1] = parts[-1].rstrip()
        if not self.has_colours:
            return (" " * _GAP).join(parts).rstrip()
        if is_heading:
            return click.style((" " * _GAP).join(parts), bold=True)
        return (" " * _GAP).join(
            click.style(part, fg=COLOURS[part.strip()]) if part.strip() in COLOURS else part for part in parts
        )


def fit_widths(
    columns: Sequence[str],
    cells: Sequence[Sequence[str]],
    *,
    room: int,
    fixed: Collection[int],
    last: Collection[int] = (),
) -> list[int]:
    """Return the widths of a table's columns so that they fit, as long as cutting texts is enough for that.

    The widest column is cut first, but none below a readable width, and those of `last` after all others.
    """
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    least = [
        width if number in fixed else min(width, max(_NARROWEST, len(columns[number])))
        for number, width in enumerate(widths)
    ]
    over = sum(widths) + _GAP * (len(widths) - 1) - room
    while over > 0:
        number = max(
            range(len(widths)),
            key=lambda each: (widths[each] > least[each], each not in last, widths[each]),
        )
        if widths[number] <= least[number]:
            break
        widths[number] -= 1
        over -= 1
    return widths


def cut(text: str, width: int) -> str:
    """Return a text that is no wider; the mark at its end says that it was cut."""
    return text if len(text) <= width else f"{text[: max(width - 1, 0)]}…"


def wrap_text(text: str, width: int | None) -> list[str]:
    """Return the lines of a text, long ones wrapped between words.

    Indented lines are left as they are: those of a traceback and of code are read, and copied, as a whole.

    Args:
        width: None leaves all lines as they are.
    """
    lines = text.split("\n")
    if width is None or width < _NARROWEST:
        return lines
    wrapped: list[str] = []
    for line in lines:
        if len(line) <= width or line.startswith((" ", "\t")):
            wrapped.append(line)
        else:
            wrapped += textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) or [""]
    return wrapped
