"""Who is to own which shard: balanced, moved as little as can be, and the same wherever it is computed."""

import os
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.ids import SHARDS
from mainspring.core.shards import (
    Division,
    Refusal,
    choose_tzdata,
    divide,
    find_owners,
    refuse_clock,
    weigh,
)

ids = st.text(min_size=1, max_size=40)
groups = st.frozensets(ids, min_size=1, max_size=16)


# -- rendezvous hashing ----------------------------------------------------------------------------------------


@given(groups)
def test_every_shard_has_one_owner_among_the_nodes(nodes: frozenset[str]) -> None:
    owners = find_owners(nodes)
    assert len(owners) == SHARDS
    assert set(owners) <= nodes


@given(st.sets(st.uuids(version=4), min_size=2, max_size=16))
def test_shares_are_as_even_as_chance_makes_them(nodes: set[object]) -> None:
    shares = Counter(find_owners(frozenset(map(str, nodes))))
    even = SHARDS / len(nodes)
    spread = sqrt(even * (1 - 1 / len(nodes)))
    assert all(abs(shares[str(node)] - even) <= 6 * spread for node in nodes)


@given(groups, ids)
def test_node_that_joins_only_takes_and_one_that_leaves_only_gives(nodes: frozenset[str], other: str) -> None:
    without, having = find_owners(nodes - {other}), find_owners(nodes | {other})
    moved = {shard for shard in range(SHARDS) if without[shard] != having[shard]}
    assert {having[shard] for shard in moved} <= {other}
    assert moved == {shard for shard in range(SHARDS) if having[shard] == other}


@given(st.lists(ids, min_size=1, max_size=8, unique=True), st.randoms())
def test_order_does_not_matter(nodes: list[str], random: object) -> None:
    shuffled = list(nodes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis gives a Random
    assert find_owners(frozenset(shuffled)) == find_owners(frozenset(nodes))


@given(groups)
def test_owner_is_the_node_with_the_highest_weight(nodes: frozenset[str]) -> None:
    for shard, owner in enumerate(find_owners(nodes)):
        assert owner is not None
        assert weigh(owner)[shard] == max(weigh(node)[shard] for node in nodes)


def test_no_nodes_own_nothing() -> None:
    assert set(find_owners(frozenset())) == {None}


def test_weights_are_the_same_in_every_process_and_release() -> None:
    """Nodes of two releases share a cluster while it is upgraded: these numbers must never change."""
    assert weigh("node-1")[:2] == (9313032354797333146, 13125327366446238517)
    code = "from mainspring.core.shards import find_owners; print(find_owners(frozenset({'a', 'b', 'ö'})))"
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        there = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        assert there.stdout.strip() == str(find_owners(frozenset({"a", "b", "ö"})))


# -- what a node does ------------------------------------------------------------------------------------------


def look(
    me: str,
    holders: dict[int, str | None],
    *,
    used: dict[int, int] | None = None,
    present: set[str] | None = None,
    settled: set[str] | None = None,
) -> Division:
    holdings = [(shard, 1, holder) for shard, holder in holders.items()]
    present = present or set()
    return divide(
        me, holdings, used=used or {}, present=present, settled=present if settled is None else settled
    )


EVERY = range(SHARDS)
OURS = {shard for shard in EVERY if find_owners(frozenset({"a", "b"}))[shard] == "a"}
THEIRS = set(EVERY) - OURS


def test_lone_node_takes_everything_that_is_free() -> None:
    assert look("a", dict.fromkeys(EVERY)).wanted.keys() == set(EVERY)


def test_free_shards_are_divided_among_all_present_even_new_ones() -> None:
    division = look("a", dict.fromkeys(EVERY), present={"b"}, settled=set())
    assert division.wanted.keys() == OURS
    assert division.kept == {}


def test_shards_in_use_are_given_up_to_settled_nodes_only() -> None:
    new = look("a", dict.fromkeys(EVERY, "a"), present={"b"}, settled=set())
    assert new == Division(kept=dict.fromkeys(EVERY, 1), released={}, wanted={})
    settled = look("a", dict.fromkeys(EVERY, "a"), present={"b"})
    assert settled.released.keys() == THEIRS
    assert settled.kept.keys() == set(EVERY)  # used until the other one takes them


def test_what_was_given_up_is_used_until_it_is_taken() -> None:
    released = dict.fromkeys(EVERY, 1)
    division = look(
        "a", {shard: "a" if shard in OURS else None for shard in EVERY}, used=released, present={"b"}
    )
    assert division.kept == released
    assert division.released == division.wanted == {}
    taken = look("a", {shard: "a" if shard in OURS else "b" for shard in EVERY}, used=released, present={"b"})
    assert taken.kept.keys() == OURS


def test_what_was_given_up_is_taken_back_when_the_other_one_dies_before() -> None:
    holders = {shard: "a" if shard in OURS else None for shard in EVERY}
    division = look("a", holders, used=dict.fromkeys(EVERY, 1))
    assert division.wanted.keys() == THEIRS
    assert division.kept.keys() == set(EVERY)


def test_free_shard_that_was_taken_and_left_since_is_not_used() -> None:
    assert look("a", {7: None}, used={7: 0}, present={"b"}).kept == {}


def test_nobody_takes_what_a_living_node_holds() -> None:
    division = look("a", dict.fromkeys(EVERY, "b"), present={"b"})
    assert division == Division(kept={}, released={}, wanted={})


@given(st.sets(ids, min_size=2, max_size=6), st.data())
def test_looks_of_settled_nodes_converge_from_anywhere(nodes: set[str], data: st.DataObject) -> None:
    """Whoever holds what at first, two looks of each lead to the one division that all agree on."""
    members = sorted(nodes)
    owner = st.sampled_from([None, *members])
    holders = dict(enumerate(data.draw(st.lists(owner, min_size=SHARDS, max_size=SHARDS))))
    epochs = dict.fromkeys(EVERY, 1)
    used: dict[str, dict[int, int]] = {node: {} for node in members}
    for node in data.draw(st.permutations(members)) * 2 + members:
        division = divide(
            node,
            [(shard, epochs[shard], holders[shard]) for shard in EVERY],
            used=used[node],
            present=nodes - {node},
            settled=nodes - {node},
        )
        holders |= dict.fromkeys(division.released) | dict.fromkeys(division.wanted, node)
        epochs |= {shard: epoch + 1 for shard, epoch in division.wanted.items()}
        used[node] = division.kept | {shard: epochs[shard] for shard in division.wanted}
    assert tuple(holders.values()) == find_owners(frozenset(nodes))


# -- who may own any -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "was_refused", "expected"),
    [(5.0, False, False), (5.1, False, True), (-5.1, False, True), (2.6, True, True), (2.5, True, False)],
)
def test_clock_is_refused_beyond_the_limit_until_it_is_well_within(
    seconds: float, was_refused: bool, expected: bool
) -> None:
    skew, limit = timedelta(seconds=seconds), timedelta(seconds=5)
    assert refuse_clock(skew, limit=limit, was_refused=was_refused) is expected


@pytest.mark.parametrize(
    ("recorded", "mine", "others", "expected"),
    [
        (None, "2026a", [], "2026a"),  # the first node
        ("2026a", "2026a", ["2026b"], None),
        ("2026a", "2026b", ["2026a"], None),  # one that is alive still has it
        ("2026a", "2026b", ["2026b"], "2026b"),  # the last one that had it is gone
        ("2026a", "2026b", ["2026c"], None),  # the newest among the living, by one that has it
        ("2026a", "2026c", ["2026b"], "2026c"),
        ("2026b", "2026a", [], "2026a"),  # a downgrade
        (None, "system", ["2026a"], None),
        (None, "2026a", ["system", "none"], "2026a"),
        ("2026a", "none", [], "none"),
    ],
)
def test_recorded_zone_data_stays_while_a_living_node_has_it(
    recorded: str | None, mine: str, others: list[str], expected: str | None
) -> None:
    assert choose_tzdata(recorded, mine, others) == expected


def test_words_for_a_refusal_stay_as_stores_and_nodes_of_other_releases_know_them() -> None:
    assert {refusal.value for refusal in Refusal} == {"clock", "tzdata"}
