"""Makes the facts of a cluster from rows that both dialects have alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from mainspring.core.doctor import ChannelLook, ClusterLook, NodeLook, TokenLook, WaitingQueue
from mainspring.stores._sql.ledger_check import decode_ledger_check

Rows = Sequence[Mapping[str, Any]]


def make_cluster_look(
    cluster: Mapping[str, Any],
    *,
    nodes: Rows,
    queues: Rows,
    tokens: Rows,
    channels: Rows,
    ledger: str | None,
    keys: Rows,
    now: datetime,
) -> ClusterLook:
    """Return what rows say; `ledger` is the stored result of the last check."""
    check = None if ledger is None else decode_ledger_check(ledger)
    return ClusterLook(
        **cluster,
        nodes=[NodeLook(**row) for row in nodes],
        queues=[WaitingQueue(**row) for row in queues],
        tokens=[TokenLook(**row) for row in tokens],
        channels=[ChannelLook(**row) for row in channels],
        ledger=check,
        ledger_age=None if check is None else (now - check.ended_at).total_seconds(),
        keys=[row["id"] for row in keys],
    )
