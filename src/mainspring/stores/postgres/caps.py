"""Caps of queues, tenants and labels."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.audit import AuditEntry
from mainspring.core.lane_caps import CapHolder, CapKey, CapUse, LaneCap, cap_keys_of
from mainspring.core.limits import CLUSTER
from mainspring.core.model import LaneKey, Priority
from mainspring.stores.postgres.audit import write_audit
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.keys import intern_keys
from mainspring.stores.postgres.limits import write_rules
from mainspring.stores.postgres.restrictions import find_older_programs, take_effect

_MOST_SHOWN = 5


class PostgresCapStore:
    """`CapStore` on PostgreSQL."""

    _connections: Connections

    async def write_caps(
        self, caps: Sequence[LaneCap], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[str]:
        if not caps:
            return []
        last = {cap.key: cap for cap in caps}
        limits = sorted(key for key, cap in last.items() if cap.max_running is not None)

        async def work(transaction: Transaction) -> list[str]:
            if limits and (older := await find_older_programs(transaction)):
                return older
            [row] = await transaction.fetch("raise_policy_epoch", now=now)
            await write_rules(transaction, [(CLUSTER, cap.rule) for cap in last.values()])
            # After this, every claim has been committed, or gives nothing. Statements that follow see what runs.
            await take_effect(transaction, row["number"], now)
            await _count_running(transaction, limits)
            await write_audit(transaction, audit, [True] * len(caps))
            return []

        return await self._connections.transact(Role.EDIT, work)

    async def read_cap_uses(self, keys: Sequence[CapKey]) -> list[CapUse]:
        if not keys:
            return []
        rows = await self._connections.fetch(
            Role.BROWSE,
            "read_cap_uses",
            is_repeatable=True,
            names=[key.limit for key in keys],
            limit=_MOST_SHOWN,
        )
        found = {
            row["name"]: CapUse(row["held"], tuple(map(CapHolder, row["run_ids"], row["tenants"])))
            for row in rows
        }
        return [found.get(key.limit, CapUse()) for key in keys]


async def _count_running(transaction: Transaction, limits: Sequence[CapKey]) -> None:
    """Give places to the runs that are under way, as far as they have none yet."""
    if not limits:
        return
    ids = await intern_keys(transaction, [(CLUSTER, key.run_key) for key in limits])
    pairs = [
        (ids[CLUSTER, key.run_key], lane["id"])
        for lane in await transaction.fetch("list_busy_lanes")
        for key in cap_keys_of(
            LaneKey(lane["queue"], lane["route"], lane["tenant"], Priority(lane["priority"]))
        )
        if (CLUSTER, key.run_key) in ids
    ]
    await transaction.execute(
        "add_holds_of_running",
        key_ids=[key_id for key_id, _ in pairs],
        lane_ids=[lane_id for _, lane_id in pairs],
    )
