"""Graphs for the tests of workflows."""

from __future__ import annotations

from hypothesis import strategies as st


@st.composite
def acyclic_links(draw: st.DrawFn, most_steps: int = 12, most_parents: int = 5) -> list[tuple[int, ...]]:
    """Return for each step its parents. Parents may stand behind their children."""
    number = draw(st.integers(1, most_steps))
    places = draw(st.permutations(range(number)))
    links: list[tuple[int, ...]] = [()] * number
    for rank, step in enumerate(places):
        if rank:
            parents = draw(st.lists(st.integers(0, rank - 1), max_size=most_parents, unique=True))
            links[step] = tuple(places[parent] for parent in parents)
    return links


def layers(width: int, depth: int, fan: int) -> list[tuple[int, ...]]:
    """Return a large graph: each step of a layer has `fan` parents in the layer before."""
    return [
        tuple((level - 1) * width + (place + shift) % width for shift in range(fan)) if level else ()
        for level in range(depth)
        for place in range(width)
    ]
