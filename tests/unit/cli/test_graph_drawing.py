"""Whoever follows the lines of a drawing finds exactly the edges of the graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest
from hypothesis import given

from mainspring.cli.graph_drawing import Label, draw_graph
from mainspring.core.workflows.graph import Graph
from tests.unit.core.workflows.graphs import acyclic_links

_UP, _DOWN, _RIGHT = (-1, 0), (1, 0), (0, 1)
_WAYS = {
    "│": (_UP, _DOWN),
    "─": (_RIGHT,),
    "╭": (_DOWN, _RIGHT),
    "╮": (_DOWN,),
    "╰": (_UP, _RIGHT),
    "╯": (_UP,),
    "├": (_UP, _DOWN, _RIGHT),
    "┤": (_UP, _DOWN),
    "┬": (_DOWN, _RIGHT),
    "┴": (_UP, _RIGHT),
    "┼": (_UP, _DOWN, _RIGHT),
}
"""Where a line goes on from a sign. No line leads to the left."""
_OPEN = {_UP: "│╭╮├┤┬┼▸", _DOWN: "│╰╯├┤┴┼▸"}
"""The signs to which a line leads that goes up or down."""


def graph_of(parents: Mapping[str, Sequence[str]]) -> Graph:
    names = list(parents)
    return Graph.of([[names.index(name) for name in parents[step]] for step in names])


def draw(parents: Mapping[str, Sequence[str]], width: int = 10_000) -> list[str] | None:
    return draw_graph(graph_of(parents), [Label(name, name) for name in parents], width=width)


def read_edges(lines: Sequence[str]) -> set[tuple[str, str]]:
    """Follow all lines, as a reader does."""
    cells = {(row, x): sign for row, line in enumerate(lines) for x, sign in enumerate(line) if sign != " "}
    starts: dict[tuple[int, int], tuple[str, int]] = {}
    for (row, x), sign in cells.items():
        if sign.isalnum() and not cells.get((row, x - 1), " ").isalnum():
            end = x
            while cells.get((row, end), " ").isalnum():
                end += 1
            starts[row, x] = lines[row][x:end], end
    return {
        (name, child)
        for (row, _), (name, end) in starts.items()
        for child in _follow(cells, starts, row, end + 1)
    }


def _follow(
    cells: Mapping[tuple[int, int], str], starts: Mapping[tuple[int, int], tuple[str, int]], row: int, x: int
) -> Iterator[str]:
    waiting, seen = [((row, x), _RIGHT)], set()
    while waiting:
        place, came = waiting.pop()
        if (place, came) in seen:
            continue
        seen.add((place, came))
        sign = cells.get(place)
        if sign is None:
            after = (place[0], place[1] + 1)
            if came == _RIGHT and place[1] > x and after in starts:
                yield starts[after][0]
            continue
        if sign == "│" and came == _RIGHT:
            ways: Sequence[tuple[int, int]] = (_RIGHT,)  # it crosses
        elif sign == "▸":
            ways = (_RIGHT,) if came == _RIGHT else (_RIGHT, came)
        else:
            ways = _WAYS[sign]
        for way in ways:
            following = place[0] + way[0], place[1] + way[1]
            if way == _RIGHT or ((-way[0], 0) != came and cells.get(following, " ") in _OPEN[way]):
                waiting.append((following, way))


@given(acyclic_links())
def test_lines_of_a_drawing_lead_along_the_edges(links: list[tuple[int, ...]]) -> None:
    parents = {f"s{step}": [f"s{parent}" for parent in found] for step, found in enumerate(links)}
    lines = draw(parents)
    assert lines is not None
    assert read_edges(lines) == {(parent, step) for step, names in parents.items() for parent in names}


def test_fan_out_and_fan_in_share_their_lines() -> None:
    workers = [f"w{number}" for number in range(3)]
    lines = draw({"a": [], **{name: ["a"] for name in workers}, "z": workers, "end": ["z"]})
    assert lines == [
        "   ╭─ w0 ─╮",
        "   │      │",
        "a ─┼─ w1 ─┼─ z ── end",
        "   │      │",
        "   ╰─ w2 ─╯",
    ]


def test_line_that_joins_another_says_so() -> None:
    assert draw({"a": [], "b": [], "d": ["a", "b"], "c": ["b"]}) == [
        "a ─╮",
        "   ╰─▸─ d",
        "b ───┤",
        "     ╰─ c",
    ]


@pytest.mark.parametrize("width", [4, 12])
def test_drawing_that_is_too_wide_is_none(width: int) -> None:
    chain = {f"s{number}": [f"s{number - 1}"] if number else [] for number in range(10)}
    assert draw(chain, width) is None


def test_a_hundred_parallel_steps_are_drawn_and_a_thousand_are_not() -> None:
    def wide(count: int) -> dict[str, list[str]]:
        return {"a": [], **{f"w{number}": ["a"] for number in range(count)}}

    assert len(draw(wide(100)) or ()) == 100
    assert draw(wide(999)) is None


def test_colours_take_no_room() -> None:
    labels = [Label("a", "\x1b[31ma\x1b[0m"), Label("b", "b")]
    assert draw_graph(graph_of({"a": [], "b": ["a"]}), labels, width=80) == ["\x1b[31ma\x1b[0m ── b"]
