"""Scheduler nodes and the shards they own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from mainspring.core.shards import Refusal
from mainspring.core.values import value

Epochs = Mapping[int, int]
"""Maps a shard to the epoch under which the writer believes it owns the shard."""


class NodeStore(Protocol):
    """Scheduler nodes and the shards they own."""

    async def beat_node(
        self,
        node: NodeFacts,
        *,
        period: timedelta | None = None,
        refusal: Refusal | None = None,
        served: bytes | None = None,
        is_member: bool = False,
        now: datetime,
    ) -> None:
        """Insert the node or raise its counter.

        Record its heartbeat period, if it may own no shards the reason, and what it has given since its last heartbeat
        (`core/served`). A node that is a member of the cluster stays one.
        """
        ...

    async def start_cluster(self, node_id: str, *, now: datetime) -> bool:
        """Make a node the first member of a cluster that starts. Return False if there is a member, or no such node.

        In the same transaction, the clocks of all jobs whose trigger is at start are set as `core.starts` says.
        """
        ...

    async def read_cluster(self) -> Cluster:
        """Return the recorded version of the zone data and all nodes with their counters."""
        ...

    async def record_tzdata(self, version: str, *, expected: str | None, now: datetime) -> bool:
        """Record the version of the zone data if the recorded one is still `expected`. Return whether it was."""
        ...

    async def expire_nodes(self, judged: Sequence[tuple[str, int]], *, now: datetime) -> list[bool]:
        """Remove nodes whose counter is still the one that was judged. Return for each whether it was removed.

        Their shards are free from then on. A node that was not dead comes back with its next heartbeat. A call judges a
        node at most once.
        """
        ...

    async def read_shards(self) -> list[ShardLease]:
        """Return all 256 shards with their epochs, owners and the owners' counters."""
        ...

    async def take_shards(
        self, node_id: str, expected: Mapping[int, int], *, now: datetime
    ) -> dict[int, int]:
        """Take shards whose epoch is the expected one. Return the new epoch (old + 1) of each shard taken.

        Shards with a write under way are skipped; the taker tries again later.
        """
        ...

    async def release_shards(self, node_id: str, epochs: Epochs, *, now: datetime) -> None:
        """Let others take the shards held under these epochs.

        The epochs stay. Until a shard is taken, writes under its epoch are valid.
        """
        ...

    async def leave_shards(self, node_id: str, epochs: Epochs, *, now: datetime) -> None:
        """Release the shards held under these epochs and remove the node, so that others may take the shards at once.

        If it was a member, all others are members from now on: they were there while it lived.
        """
        ...


@value(kw_only=True)
class NodeFacts:
    """A scheduler node."""

    id: str
    host: str
    pid: int
    version: str
    tzdata: str


@value(kw_only=True)
class NodeState:
    """A node as its last heartbeat left it; `beats` is the counter that its heartbeats raise.

    Attributes:
        period: the time between its heartbeats, as it reported. None if its release does not report one.
        refusal: why it may own no shards; None if it may.
        served: what it has given to tenants since the heartbeat before (`core/served`).
        is_member: it belongs to the cluster that runs; others do not know yet whether that one still lives.
    """

    facts: NodeFacts
    beats: int
    period: timedelta | None
    refusal: Refusal | None
    started_at: datetime
    last_beat_at: datetime
    served: bytes | None = None
    is_member: bool = True


@value()
class Cluster:
    """What the store knows about its nodes as a whole.

    Attributes:
        tzdata: the version of the zone data that nodes need to own shards; None until the first is recorded.
        nodes: in order of id, including dead ones that nobody has noticed yet.
    """

    tzdata: str | None
    nodes: tuple[NodeState, ...]


class ShardLease(NamedTuple):
    """Who owns a shard. `node_beats` is the owner's counter; None if there is no such node.

    It is a tuple for speed: with each heartbeat, every node makes one for every shard.
    """

    shard: int
    epoch: int
    node_id: str | None
    node_beats: int | None
