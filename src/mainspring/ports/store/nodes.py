"""Scheduler nodes and the shards they own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from mainspring.core.shards import Refusal

Epochs = Mapping[int, int]
"""Shard -> epoch under which the writer believes to own it."""


class NodeStore(Protocol):
    """Scheduler nodes and the shards they own."""

    async def beat_node(
        self,
        node: NodeFacts,
        *,
        period: timedelta | None = None,
        refusal: Refusal | None = None,
        now: datetime,
    ) -> None:
        """Insert the node or raise its counter; say when to expect the next beat, and why it owns no shards, if so."""
        ...

    async def read_cluster(self) -> Cluster:
        """Return the recorded version of the zone data and all nodes with their counters."""
        ...

    async def record_tzdata(self, version: str, *, expected: str | None, now: datetime) -> bool:
        """Record the version of the zone data where what is recorded is still `expected`; say whether it was."""
        ...

    async def expire_nodes(self, judged: Sequence[tuple[str, int]], *, now: datetime) -> list[bool]:
        """Remove nodes whose counter is still the one that was judged; return them.

        Their shards are free from then on. A node that was not dead returns with its next heartbeat.
        """
        ...

    async def read_shards(self) -> list[ShardLease]:
        """Return all 256 shards with their epochs, owners and the owners' counters."""
        ...

    async def take_shards(
        self, node_id: str, expected: Mapping[int, int], *, now: datetime
    ) -> dict[int, int]:
        """Take shards whose epoch is the expected one; return the new epoch (old + 1) of those taken.

        Skips shards with a write under way. That only defers: the taker tries again.
        """
        ...

    async def release_shards(self, node_id: str, epochs: Epochs, *, now: datetime) -> None:
        """Let others take shards held with these epochs.

        The epochs stay: until a shard is taken, writes under its epoch are valid.
        """
        ...

    async def leave_shards(self, node_id: str, epochs: Epochs, *, now: datetime) -> None:
        """Release shards held with these epochs and remove the node, so that another node may take them at once."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """A scheduler node."""

    id: str
    host: str
    pid: int
    version: str
    tzdata: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """A node as its last heartbeat left it; `beats` is the counter that its heartbeats raise.

    Attributes:
        period: how far apart its heartbeats are, as it says; None of a release that does not say.
        refusal: why it owns no shards; None where nothing speaks against it.
    """

    facts: NodeFacts
    beats: int
    period: timedelta | None
    refusal: Refusal | None
    started_at: datetime
    last_beat_at: datetime


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the store knows of its nodes as a whole.

    Attributes:
        tzdata: the version of the zone data that nodes must have to own shards; None before the first one.
        nodes: in order of id, including dead ones that were not found yet.
    """

    tzdata: str | None
    nodes: tuple[NodeState, ...]


class ShardLease(NamedTuple):
    """Who owns a shard; `node_beats` is the owner's counter, None where there is no such node.

    A tuple, because every node makes one for each of the shards with each of its beats.
    """

    shard: int
    epoch: int
    node_id: str | None
    node_beats: int | None
