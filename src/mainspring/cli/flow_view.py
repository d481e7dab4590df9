"""A run of a workflow as lines of text: its graph with the state of each step, and a table of the steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from mainspring.cli.graph_drawing import Label, draw_graph
from mainspring.cli.output import show_rough
from mainspring.cli.terminal import COLOURS, cut, fit_widths
from mainspring.core.values import value
from mainspring.core.workflows.graph import Graph

if TYPE_CHECKING:
    from mainspring.wire.workflows import ItemCountsView, StepPage, StepView

HEADINGS = ("STEP", "STATUS", "TOOK", "ATTEMPT", "RUN", "WHY")
_SIGNS = {
    "WAITING": "·",
    "READY": "·",
    "SUSPENDED": "◔",
    "PENDING": "○",
    "RETRYING": "↻",
    "RUNNING": "●",
    "SUCCEEDED": "✓",
    "FAILED": "✗",
    "CANCELLED": "⊘",
    "SKIPPED": "-",
    "UPSTREAM_FAILED": "!",
}
_WIDE = 100
"""Columns from which on there is room for the ids of runs."""
_URGENCY = ("RUNNING", "FAILED", "SUSPENDED", "RETRYING", "PENDING", "READY", "WAITING")
"""Of which steps a screen tells first that has no room for all."""


@value()
class FlowScreen:
    """What is drawn on.

    Attributes:
        lines: of the screen; None if it has no end.
        can_draw: it shows the signs of which lines are made.
    """

    columns: int
    lines: int | None
    has_colours: bool
    can_draw: bool


def word_of(step: StepView) -> str:
    """Return where a step is: the state of its run while that is live. One with many runs is running."""
    if step.status == "live" and step.items is not None:
        return "RUNNING"
    return step.state if step.status == "live" and step.state is not None else step.status.upper()


def took(step: StepView | StepPage, now: datetime) -> str:
    """Return how long a step or a run has taken until now."""
    if step.started_at is None:
        return "-"
    end = now if step.finished_at is None else step.finished_at
    return show_rough(max(end - step.started_at, end - end))


def row_of(step: StepView, now: datetime) -> tuple[str, ...]:
    """Return the cells of a step in the table."""
    attempt = "-" if step.attempt is None or step.started_at is None else str(step.attempt)
    why = step.reason or ("" if step.items is None else tell_items(step.items))
    if step.error is not None and word_of(step) in {"FAILED", "RETRYING"}:
        last = step.error.strip().splitlines()[-1:] or [""]
        why = f"{why}: {last[0]}" if why else last[0]
    return (step.name, word_of(step), took(step, now), attempt, step.run_id or "-", why)


def tell_items(items: ItemCountsView) -> str:
    """Return in words how far a step has come that runs for many items."""
    ended = items.succeeded + items.failed + items.skipped
    others = [
        f"{count} {word}" for count, word in ((items.failed, "failed"), (items.skipped, "skipped")) if count
    ]
    under_way = [f"{items.started - ended} under way"] if items.started > ended else []
    return ", ".join([f"{ended} of {items.total} items ended", *others, *under_way])


def head_of(page: StepPage, now: datetime) -> str:
    """Return the line that tells of the run as a whole."""
    counts = Counter(map(word_of, page.items))
    told = ", ".join(f"{number} {word.lower()}" for word, number in counts.most_common())
    time = took(page, now)
    status = f"{page.status}, PAUSED" if page.is_paused else page.status
    return f"{page.job or page.job_id}  {page.run_id}  {status}  {time}  ({told})"


def draw_flow(page: StepPage, screen: FlowScreen, now: datetime) -> list[str]:
    """Return the graph with the state of each step; nothing if it has no room."""
    if not screen.can_draw:
        return []
    places = {step.name: place for place, step in enumerate(page.items)}
    graph = Graph.of([[places[name] for name in step.after] for step in page.items])
    for form in ("{sign} {name} {time}", "{sign} {name}", "{sign}{name}"):
        labels = [_label(step, screen, now, form) for step in page.items]
        lines = draw_graph(graph, labels, width=screen.columns)
        if lines is not None:
            return lines
    return []


def _label(step: StepView, screen: FlowScreen, now: datetime, form: str) -> Label:
    word = word_of(step)
    time = "" if step.started_at is None else took(step, now)
    text = form.format(sign=_SIGNS.get(word, "?"), name=step.name, time=time).rstrip()
    return Label(text, _paint(text, word, screen))


def _paint(text: str, word: str, screen: FlowScreen) -> str:
    if not screen.has_colours:
        return text
    if word in COLOURS:
        return click.style(text, fg=COLOURS[word])
    return click.style(text, dim=True) if word in {"WAITING", "READY", "UPSTREAM_FAILED"} else text


def draw_screen(page: StepPage, screen: FlowScreen, now: datetime) -> list[str]:
    """Return all that fits on a screen: the run, its graph, and its steps, those first of which there is news."""
    lines = [cut(head_of(page, now), screen.columns), ""]
    drawing = draw_flow(page, screen, now)
    room = None if screen.lines is None else screen.lines - len(lines)
    if drawing and (room is None or len(drawing) + min(len(page.items), 5) + 2 <= room):
        lines += [*drawing, ""]
    room = None if screen.lines is None else screen.lines - len(lines) - 1
    shown, left_out = _choose(page.items, room)
    places = [place for place, name in enumerate(HEADINGS) if screen.columns >= _WIDE or name != "RUN"]
    headings, *rows = [
        [cells[place] for place in places] for cells in (HEADINGS, *(row_of(step, now) for step in shown))
    ]
    fixed = range(1, len(places) - 1)
    widths = fit_widths(headings, rows, room=screen.columns, fixed=fixed, last=(0,))
    lines.append(_line(headings, widths))
    for name, word, *rest in rows:
        lines.append(_line((name, _paint(word.ljust(widths[1]), word, screen), *rest), widths))
    return [*lines, f"and {left_out:,} more"] if left_out else lines


def _choose(steps: Sequence[StepView], room: int | None) -> tuple[Sequence[StepView], int]:
    """Return the steps that there is room for, in order, and how many are left out."""
    if room is None or len(steps) <= room:
        return steps, 0
    room = max(room - 1, 1)
    ranks = {word: rank for rank, word in enumerate(_URGENCY)}
    by_urgency = sorted(range(len(steps)), key=lambda place: ranks.get(word_of(steps[place]), len(_URGENCY)))
    return [steps[place] for place in sorted(by_urgency[:room])], len(steps) - room


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    parts = [
        cell if "\x1b" in cell else cut(cell, width).ljust(width)
        for cell, width in zip(cells, widths, strict=True)
    ]
    return "  ".join(parts).rstrip()
