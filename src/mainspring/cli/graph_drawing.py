"""Draws the graph of a workflow's steps in a terminal, from left to right.

Steps stand in columns by level. Between two columns, lines are led in a channel: out of each step runs one line, which
goes up or down along a track and branches off where a child stands. Steps that have the same children there share a
track. A line that passes columns between its step and a child has a place of its own in each of them. Lines that meet
lead to the same step, and `▸` says where one flows into another. Lines that cross do not touch: the upright one is
drawn through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from mainspring.core.values import value
from mainspring.core.workflows.graph import Graph

_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_SIGNS = {
    _UP | _DOWN: "│",
    _LEFT | _RIGHT: "─",
    _DOWN | _RIGHT: "╭",
    _DOWN | _LEFT: "╮",
    _UP | _RIGHT: "╰",
    _UP | _LEFT: "╯",
    _UP | _DOWN | _RIGHT: "├",
    _UP | _DOWN | _LEFT: "┤",
    _DOWN | _LEFT | _RIGHT: "┬",
    _UP | _LEFT | _RIGHT: "┴",
    _UP | _DOWN | _LEFT | _RIGHT: "┼",
    _LEFT: "─",
    _RIGHT: "─",
}
_MERGE = "▸"
_SWEEPS = 4
_DENSE = 8
"""Steps of a column from which on there is no free row between them."""
_MOST_STEPS = 200

Item = tuple[int, int]
"""What stands in a column: a step, or the line of one that passes. The step, and the column."""


@value()
class Label:
    """What is drawn for a step.

    Attributes:
        shown: the text as it is written, with colours, which take no room.
    """

    text: str
    shown: str


@dataclass(slots=True, eq=False)
class _Net:
    """The lines out of the items that lead to the same items of the next column, in the channel between the two."""

    targets: list[int]
    rows: list[int] = field(default_factory=list)
    track: int = 0

    @property
    def turns(self) -> bool:
        return self.targets != self.rows or len(self.rows) > 1

    @property
    def span(self) -> range:
        rows = [*self.rows, *self.targets]
        return range(min(rows), max(rows) + 1)

    def meets(self, other: _Net) -> bool:
        """Say whether it ends in a row in which another one begins."""
        return any(row in self.targets for row in other.rows)


@dataclass(slots=True)
class _Layout:
    columns: list[list[Item]]
    following: dict[Item, list[Item]]
    before: dict[Item, list[Item]] = field(default_factory=dict)
    rows: dict[Item, int] = field(default_factory=dict)


def draw_graph(graph: Graph, labels: Sequence[Label], *, width: int) -> list[str] | None:
    """Return the lines of a drawing; None if it does not fit into the width, or there are too many steps.

    Args:
        labels: of each step.
    """
    if len(labels) > _MOST_STEPS:
        return None
    layout = _lay_out(graph)
    _order(layout)
    for is_staggered in (False, True):
        _give_rows(layout, is_staggered=is_staggered)
        channels = [_route(layout, column) for column in range(len(layout.columns) - 1)]
        nets = [channel for channel in channels if channel is not None]
        if len(nets) == len(channels):
            drawing = _draw(graph, layout, nets, labels)
            return drawing.lines() if drawing.width() <= width else None
    return None


def _draw(
    graph: Graph, layout: _Layout, channels: Sequence[Sequence[_Net]], labels: Sequence[Label]
) -> _Drawing:
    drawing = _Drawing()
    x = 0
    for number, column in enumerate(layout.columns):
        wide = max(len(labels[step].text) for step, level in column if graph.levels[step] == level)
        for item in column:
            is_step = graph.levels[item[0]] == item[1]
            start = x + (len(labels[item[0]].text) + 1 if is_step else -1)
            if is_step:
                drawing.labels[layout.rows[item], x] = labels[item[0]]
            if item in layout.following:
                drawing.across(layout.rows[item], start, x + wide + 1, _Net([]))
        x = drawing.channel(channels[number] if number < len(channels) else (), x + wide + 1)
    return drawing


def _lay_out(graph: Graph) -> _Layout:
    columns: list[list[Item]] = [[] for _ in range(max(graph.levels) + 1)]
    following: dict[Item, list[Item]] = {}
    for step in graph.order:
        level = graph.levels[step]
        columns[level].append((step, level))
    for step in graph.order:
        level, children = graph.levels[step], graph.children[step]
        last = max((graph.levels[child] for child in children), default=level)
        for passed in range(level, last):
            nexts = [(child, passed + 1) for child in children if graph.levels[child] == passed + 1]
            if passed + 1 < last:
                nexts.append((step, passed + 1))
                columns[passed + 1].append((step, passed + 1))
            following[step, passed] = nexts
    layout = _Layout(columns, following)
    for item, nexts in following.items():
        for one in nexts:
            layout.before.setdefault(one, []).append(item)
    return layout


def _order(layout: _Layout) -> None:
    """Sort each column so that few lines cross: each item stands where those that it is joined to stand."""
    places: dict[Item, float] = {}

    def note(column: list[Item]) -> None:
        places.update({item: place for place, item in enumerate(column)})

    for column in layout.columns:
        note(column)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        joined = layout.before if forward else layout.following
        for column in layout.columns if forward else reversed(layout.columns):
            column.sort(key=lambda item: _mean([places[one] for one in joined.get(item, ())], places[item]))
            note(column)


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _give_rows(layout: _Layout, *, is_staggered: bool) -> None:
    """Give each item a row: the fullest column first, and then each beside those that it is joined to.

    Args:
        is_staggered: no row is that of items in two columns that follow one another.
    """
    layout.rows.clear()
    fullest = max(range(len(layout.columns)), key=lambda number: len(layout.columns[number]))
    step = 1 if len(layout.columns[fullest]) > _DENSE and not is_staggered else 2
    grid = 2 if is_staggered else 1
    for place, item in enumerate(layout.columns[fullest]):
        layout.rows[item] = place * step
    for number in range(fullest + 1, len(layout.columns)):
        _align(layout, layout.columns[number], layout.before, step, grid)
    for number in range(fullest - 1, -1, -1):
        _align(layout, layout.columns[number], layout.following, step, grid)
    lowest = min(layout.rows.values())
    for number, column in enumerate(layout.columns):
        for item in column:
            layout.rows[item] += (number % 2 if is_staggered else 0) - lowest


def _align(
    layout: _Layout, column: list[Item], joined: Mapping[Item, list[Item]], step: int, grid: int
) -> None:
    wanted: list[float] = []
    for item in column:
        rows = [layout.rows[one] for one in joined.get(item, ()) if one in layout.rows]
        wanted.append(_mean(rows, wanted[-1] + step if wanted else 0.0))
    row = -(10**9)
    given: list[int] = []
    for want in wanted:
        row = max(round(want / grid) * grid, row + step)
        given.append(row)
    shift = round(_mean([want - got for want, got in zip(wanted, given, strict=True)], 0) / grid) * grid
    for item, got in zip(column, given, strict=True):
        layout.rows[item] = got + shift


def _route(layout: _Layout, column: int) -> list[_Net] | None:
    """Return the lines between a column and the next, each with its track; None if they cannot be told apart.

    A line that ends in a row in which another one begins must turn into it behind the place where the other has left.
    """
    nets: dict[tuple[int, ...], _Net] = {}
    for item in layout.columns[column]:
        if item in layout.following:
            targets = sorted(layout.rows[one] for one in layout.following[item])
            nets.setdefault(tuple(targets), _Net(targets)).rows.append(layout.rows[item])
    turning = [net for net in nets.values() if net.turns]
    behind = {
        place: [other for other, begun in enumerate(turning) if other != place and net.meets(begun)]
        for place, net in enumerate(turning)
    }
    try:
        order = list(TopologicalSorter(behind).static_order())
    except CycleError:
        return None
    taken: list[list[range]] = []
    for place in order:
        net = turning[place]
        track = max([turning[other].track + 1 for other in behind[place]], default=0)
        while track < len(taken) and any(_touch(net.span, one) for one in taken[track]):
            track += 1
        while len(taken) <= track:
            taken.append([])
        net.track = track
        taken[track].append(net.span)
    return list(nets.values())


def _touch(one: range, other: range) -> bool:
    """Say whether two lines in one track would look like one, as they do where no row is between them."""
    return one.start <= other.stop and other.start <= one.stop


class _Drawing:
    """A grid of lines, in which labels stand."""

    def __init__(self) -> None:
        self.labels: dict[tuple[int, int], Label] = {}
        self._lines: dict[tuple[int, int], dict[_Net, int]] = {}

    def across(self, row: int, start: int, stop: int, net: _Net) -> None:
        """Draw a line along a row."""
        for x in range(start, stop):
            self._add(row, x, _LEFT | _RIGHT, net)

    def channel(self, nets: Sequence[_Net], x: int) -> int:
        """Draw the lines of a channel that begins here, and return where the next column begins."""
        tracks = max((net.track + 1 for net in nets if net.turns), default=0)
        end = x + max(2 * tracks + 1, 2)
        for net in nets:
            if not net.turns:
                self.across(net.rows[0], x, end, net)
                continue
            at = x + 1 + 2 * net.track
            for row in net.rows:
                self.across(row, x, at, net)
            for row in net.span:
                mask = (_UP if row > net.span.start else 0) | (_DOWN if row < net.span.stop - 1 else 0)
                mask |= (_LEFT if row in net.rows else 0) | (_RIGHT if row in net.targets else 0)
                self._add(row, at, mask, net)
            for row in net.targets:
                self.across(row, at + 1, end, net)
        return end + 1

    def _add(self, row: int, x: int, mask: int, net: _Net) -> None:
        of_nets = self._lines.setdefault((row, x), {})
        of_nets[net] = of_nets.get(net, 0) | mask

    def width(self) -> int:
        """Return how many columns it takes."""
        ends = [x + len(label.text) for (_, x), label in self.labels.items()]
        return max([*ends, *(x + 1 for _, x in self._lines)])

    def lines(self) -> list[str]:
        """Return the drawing."""
        last = max(row for row, _ in {**self.labels, **self._lines})
        rows: list[list[int]] = [[] for _ in range(last + 1)]
        for row, x in {**self._lines, **self.labels}:
            rows[row].append(x)
        return [self._line(row, sorted(places)) for row, places in enumerate(rows)]

    def _line(self, row: int, places: Sequence[int]) -> str:
        parts: list[str] = []
        at = 0
        for x in places:
            label = self.labels.get((row, x))
            parts += [" " * (x - at), self._sign(row, x) if label is None else label.shown]
            at = x + (1 if label is None else len(label.text))
        return "".join(parts).rstrip()

    def _sign(self, row: int, x: int) -> str:
        masks = self._lines[row, x].values()
        upright = next((mask for mask in masks if mask & (_UP | _DOWN)), None)
        if upright is None or len(masks) == 1:
            return _SIGNS[next(iter(masks)) if upright is None else upright]
        return _MERGE if upright & _RIGHT else _SIGNS[_UP | _DOWN]
