"""Decides which node is to own which shard, and which node may own shards at all (design 5, law 3).

Every node decides for itself from what it sees of the others; there is no leader. Rendezvous hashing (highest random
weight) makes nodes that see the same others agree, and moves only what has to move when a node comes or goes. If they
disagree for a moment, the epochs of the shard leases make that harmless.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from hashlib import shake_256
from struct import unpack
from typing import TypeAlias

from mainspring.core.ids import SHARDS
from mainspring.core.values import value

_RELEASE = re.compile(r"\d{4}[a-z]+")
_RETURN_SHARE = 0.5
"""A refused clock counts as right again only within this share of the limit, so that the verdict does not flap."""
Holding: TypeAlias = tuple[int, int, str | None]
"""A shard as one node sees it: its number, its epoch and its holder; None if no live node holds it.

A plain tuple for speed: with each heartbeat, every node makes one for every shard.
"""


class Refusal(StrEnum):
    """Why a node owns no shards."""

    CLOCK = "clock"
    TZDATA = "tzdata"


@value(kw_only=True)
class Division:
    """What a node does with the shards after a check; each attribute maps a shard to its epoch.

    Attributes:
        kept: shards to plan for: those it holds, and those it released that no node has taken yet.
        released: shards to give up, because another node is to own them.
        wanted: shards to take.
    """

    kept: dict[int, int]
    released: dict[int, int]
    wanted: dict[int, int]


@lru_cache(maxsize=1024)
def weigh(node_id: str) -> tuple[int, ...]:
    """Return a node's weight for each shard. It is the same in every process, on every machine, forever."""
    return unpack(f">{SHARDS}Q", shake_256(node_id.encode()).digest(8 * SHARDS))


@lru_cache(maxsize=16)
def find_owners(nodes: frozenset[str]) -> tuple[str | None, ...]:
    """Return for each shard the node with the highest weight; None if there are no nodes."""
    if not nodes:
        return (None,) * SHARDS
    ranked = [(weigh(node), node) for node in sorted(nodes)]
    return tuple(max((weights[shard], node) for weights, node in ranked)[1] for shard in range(SHARDS))


def divide(
    me: str,
    holdings: Iterable[Holding],
    *,
    used: Mapping[int, int],
    present: Collection[str],
    settled: Collection[str],
) -> Division:
    """Decide what a node keeps, gives up and takes.

    Free shards go to their owner among all present nodes, so a new node gets its part of them at once. A shard in
    use is given up only for a settled node, so nodes that come and go move nothing. A released shard is used until
    another node takes it, which raises the epoch. So a hand-over between live nodes has no gap.

    Args:
        me: the deciding node; it counts as present and settled.
        used: the shards, with epochs, that it planned for until now.
        present: nodes that are not known to be dead and do not refuse.
        settled: those of them that have been seen alive for a while.
    """
    takers = find_owners(frozenset(present) | {me})
    keepers = find_owners(frozenset(settled) | {me})
    division = Division(kept={}, released={}, wanted={})
    for shard, epoch, holder in holdings:
        if holder == me:
            division.kept[shard] = epoch
            if keepers[shard] != me:
                division.released[shard] = epoch
        elif holder is None:
            if used.get(shard) == epoch:
                division.kept[shard] = epoch
            if takers[shard] == me:
                division.wanted[shard] = epoch
    return division


def refuse_clock(skew: timedelta, *, limit: timedelta, was_refused: bool) -> bool:
    """Say whether a host's clock is too far from the store's for its node to own shards."""
    return abs(skew) > (limit * _RETURN_SHARE if was_refused else limit)


def choose_tzdata(recorded: str | None, mine: str, others: Iterable[str]) -> str | None:
    """Return the version of the zone data that a node is to record; None to keep the recorded one.

    The recorded version stays as long as a live node has it. After that, a node with the newest version among the
    live ones records it. So an upgrade, node by node, is over when the last old node stops.

    Args:
        others: the versions of the other live nodes that could own shards if their version were the recorded one.
    """
    living = {mine, *others}
    if recorded in living:
        return None
    return mine if mine == max(living, key=_age) else None


def _age(version: str) -> tuple[bool, str]:
    # Names not of the form 2026a cannot be compared with it; they count as older.
    return _RELEASE.fullmatch(version) is not None, version
