"""Caps of queues, tenants and labels, on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import apsw

from mainspring.core.audit import AuditEntry
from mainspring.core.ids import RunId
from mainspring.core.lane_caps import CapHolder, CapKey, CapUse, LaneCap, cap_keys_of
from mainspring.core.limits import CLUSTER
from mainspring.stores.sqlite.audit import write_audit
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.keys import intern_key
from mainspring.stores.sqlite.limits import write_rules
from mainspring.stores.sqlite.restrictions import take_effect
from mainspring.stores.sqlite.rows import make_lane_key, to_json
from mainspring.stores.sqlite.statements import execute, fetch_rows

_MOST_SHOWN = 5


class SqliteCapStore:
    """`CapStore` on SQLite."""

    _reader: Database
    _writer: Database

    async def write_caps(
        self, caps: Sequence[LaneCap], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[str]:
        """See `CapStore`."""
        if caps:

            def work(db: apsw.Connection) -> None:
                _write(db, {cap.key: cap for cap in caps}, now)
                write_audit(db, audit, [True] * len(caps))

            await self._writer.call(work)
        return []  # only one process uses the file

    async def read_cap_uses(self, keys: Sequence[CapKey]) -> list[CapUse]:
        """See `CapStore`."""
        if not keys:
            return []
        return await self._reader.call(lambda db: [_use_of(db, key) for key in keys])


def _write(db: apsw.Connection, caps: dict[CapKey, LaneCap], now: datetime) -> None:
    write_rules(db, CLUSTER, [cap.rule for cap in caps.values()])
    take_effect(db, now)
    limits = [key for key, cap in caps.items() if cap.max_running is not None]
    ids = {key: intern_key(db, CLUSTER, key.run_key) for key in limits}
    lanes: dict[CapKey, list[int]] = {key: [] for key in limits}
    for lane in fetch_rows(db, "list_busy_lanes") if limits else ():
        for key in cap_keys_of(make_lane_key(lane)):
            if key in lanes:
                lanes[key].append(lane.id)
    for key, lane_ids in lanes.items():
        execute(db, "add_holds_of_running", {"key_id": ids[key], "lane_ids": to_json(lane_ids)})


def _use_of(db: apsw.Connection, key: CapKey) -> CapUse:
    rows = fetch_rows(db, "read_cap_use", {"name": key.limit})
    holders = tuple(CapHolder(RunId(row.id), row.tenant) for row in rows[:_MOST_SHOWN])
    return CapUse(len(rows), holders)
