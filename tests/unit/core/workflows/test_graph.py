"""The graph of steps: parents come first, every ancestor is found, and cycles are told."""

from __future__ import annotations

from graphlib import CycleError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.workflows.graph import Graph, find_cycles
from tests.unit.core.workflows.graphs import acyclic_links, layers


@given(acyclic_links())
def test_parents_come_before_their_children(links: list[tuple[int, ...]]) -> None:
    graph = Graph.of(links)
    place = {step: number for number, step in enumerate(graph.order)}
    assert sorted(place) == list(range(len(links)))
    for step, parents in enumerate(links):
        assert graph.parents[step] == parents
        assert all(place[parent] < place[step] for parent in parents)
        assert graph.levels[step] == max((graph.levels[parent] + 1 for parent in parents), default=0)
        assert graph.children[step] == tuple(n for n, others in enumerate(links) if step in others)
    keys = [(graph.levels[step], step) for step in graph.order]
    assert keys == sorted(keys)


@given(acyclic_links())
def test_ancestors_are_the_parents_and_their_ancestors(links: list[tuple[int, ...]]) -> None:
    graph = Graph.of(links)
    for step, parents in enumerate(links):
        expected = set(parents).union(*(graph.ancestors(parent) for parent in parents))
        assert graph.ancestors(step) == expected


@given(acyclic_links())
def test_no_cycle_is_found_where_none_is(links: list[tuple[int, ...]]) -> None:
    assert list(find_cycles(links, 10)) == []


@given(acyclic_links(most_steps=8), st.data())
def test_each_cycle_found_is_one(links: list[tuple[int, ...]], data: st.DataObject) -> None:
    """Further links, of any direction, may close cycles."""
    step = st.integers(0, len(links) - 1)
    for child, parent in data.draw(st.lists(st.tuples(step, step), min_size=1, max_size=4)):
        links[child] = tuple(dict.fromkeys((*links[child], parent)))
    cycles = list(find_cycles(links, 10))
    seen: set[int] = set()
    for cycle in cycles:
        for before, after in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
            assert before in links[after]
        assert cycle[0] == min(cycle)
        assert not seen.intersection(cycle)
        seen.update(cycle)
    if cycles:
        with pytest.raises(CycleError):
            Graph.of(links)
    else:
        Graph.of(links)


def test_cycles_apart_are_all_told_up_to_a_number() -> None:
    links = [(1,), (0,), (2,), (4,), (5,), (3,)]
    assert list(find_cycles(links, 10)) == [(0, 1), (2,), (3, 5, 4)]
    assert len(list(find_cycles(links, 2))) == 2


def test_large_graph() -> None:
    """1,000 steps with 24,375 links."""
    links = layers(width=25, depth=40, fan=25)
    assert (len(links), sum(map(len, links))) == (1000, 24_375)
    graph = Graph.of(links)
    assert max(graph.levels) == 39
    assert len(graph.ancestors(999)) == 975
