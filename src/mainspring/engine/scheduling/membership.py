"""Tells whether a node has joined a running cluster, or is the first of one that starts (ADR 0058)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import structlog

from mainspring.ports.store import Store
from mainspring.ports.store.nodes import NodeState

_log = structlog.get_logger(__name__)


class Membership:
    """What a node knows about its place in the cluster.

    A member is a node that started the cluster, or that was there together with a living member. While a member may
    live, no node starts the cluster again; nodes that were killed are members until their silence is noticed.

    Args:
        on_start: is called after this node has started the cluster.

    Attributes:
        is_member: this node belongs to the running cluster, and does as long as its process lives.
        is_held: it does not start a cluster yet, because its app's jobs are not stored.
    """

    def __init__(self, store: Store, *, node_id: str, on_start: Callable[[], None]) -> None:
        self._store = store
        self._node_id = node_id
        self._on_start = on_start
        self._first_seen: dict[str, int] = {}
        self.is_member: bool = False
        self.is_held: bool = False

    async def settle(self, own: NodeState | None, living: Sequence[NodeState], now: datetime) -> None:
        """Join the cluster if a member lives; start it if none does. The node's row must be there.

        Args:
            own: this node's row as it was read; None if it is new.
            living: the other nodes that are not known to be dead.
        """
        if self.is_member:
            return
        members = {node.facts.id: node.beats for node in living if node.is_member}
        alive = [
            node_id for node_id, beats in members.items() if self._first_seen.get(node_id, beats) != beats
        ]
        self._first_seen = members | self._first_seen
        if alive or (own is not None and own.is_member):  # a member that left took this node in
            self.is_member = True
        elif not members and not self.is_held and await self._store.start_cluster(self._node_id, now=now):
            self.is_member = True
            _log.info("cluster_started", node=self._node_id)
            self._on_start()
