"""Limits on SQLite: their rules, the keys that are in use, and the lines of waiting runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

import apsw

from mainspring.core.audit import AuditEntry
from mainspring.core.ids import JobId, KeyId, LaneId, RunId
from mainspring.core.limits import CLUSTER, Hold, LimitRule, kept_rules, line_key, rules_of, used_limits
from mainspring.core.model import JobSpec
from mainspring.ports.store.limits import (
    PLAIN,
    BatchLine,
    KeyUse,
    LimitDeletion,
    Line,
    LineClaim,
    LineClaimResult,
    LineKey,
)
from mainspring.stores.sqlite.audit import write_audit
from mainspring.stores.sqlite.batches import read_batches
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.keys import intern_key
from mainspring.stores.sqlite.lined_up import claim_lined_up
from mainspring.stores.sqlite.rows import (
    NamedRow,
    make_bucket,
    make_job_id,
    make_rate,
    to_instant,
    to_json,
    to_micros,
    to_millis,
    to_optional_instant,
)
from mainspring.stores.sqlite.statements import execute, execute_many, fetch_rows, fetch_value, fetch_values

_MOST_USERS = 5
_MOST_SHOWN = 5


class SqliteLimitStore:
    """`LimitStore` on SQLite."""

    _browser: Database
    _reader: Database
    _writer: Database

    async def write_limits(
        self, tenant: str, rules: Sequence[LimitRule], *, audit: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        """See `LimitStore`."""
        if not rules:
            return []

        def work(db: apsw.Connection) -> list[bool]:
            known = [fetch_value(db, "find_limit", {"tenant": tenant, "name": rule.name}) for rule in rules]
            write_rules(db, tenant, rules)
            write_audit(db, audit, [True] * len(rules))
            return [name is None for name in known]

        return await self._writer.call(work)

    async def list_limits(self, tenant: str) -> list[LimitRule]:
        """See `LimitStore`."""
        rows = await self._reader.call(lambda db: fetch_rows(db, "list_limits", {"tenant": tenant}))
        return [_make_rule(row) for row in rows]

    async def delete_limit(
        self, tenant: str, name: str, *, audit: Sequence[AuditEntry] = ()
    ) -> LimitDeletion:
        """See `LimitStore`."""
        limit = {"tenant": tenant, "name": name}

        def work(db: apsw.Connection) -> LimitDeletion:
            users = fetch_values(db, "list_limit_users", {**limit, "limit": _MOST_USERS})
            if users:
                return LimitDeletion(is_known=True, used_by=tuple(users))
            is_known = fetch_value(db, "lift_limit", limit) is not None
            write_audit(db, audit, [is_known])
            return LimitDeletion(is_known=is_known)

        return await self._writer.call(work)

    async def list_keys(
        self, tenant: str, name: str, *, after: str | None = None, limit: int, now: datetime
    ) -> list[KeyUse]:
        """See `LimitStore`."""
        values = {"tenant": tenant, "name": name, "after": after, "limit": limit}
        rows = await self._browser.call(lambda db: fetch_rows(db, "list_keys", values))
        return [_make_use(row, now) for row in rows]

    async def list_keys_by_age(
        self, tenant: str, name: str, *, after: KeyId = PLAIN, limit: int, now: datetime
    ) -> list[KeyUse]:
        """See `LimitStore`."""
        values = {"tenant": tenant, "name": name, "after": after, "limit": limit}
        rows = await self._browser.call(lambda db: fetch_rows(db, "list_keys_by_age", values))
        return [_make_use(row, now) for row in rows]

    async def read_lines(self, *, after: LineKey | None = None, limit: int) -> list[Line]:
        """See `LimitStore`."""
        start = after or LineKey(KeyId(0), LaneId(0))
        values = {"after_key": start.key_id, "after_lane": start.lane_id, "limit": limit}
        rows = await self._reader.call(lambda db: fetch_rows(db, "read_lines", values))
        return [_make_line(row) for row in rows]

    async def read_some_lines(self, keys: Sequence[LineKey]) -> list[Line]:
        """See `LimitStore`."""
        if not keys:
            return []

        def work(db: apsw.Connection) -> list[NamedRow]:
            return [row for key in keys for row in fetch_rows(db, "read_some_line", key._asdict())]

        return [_make_line(row) for row in await self._reader.call(work)]

    async def read_batches(self, keys: Sequence[LineKey], *, now: datetime) -> list[BatchLine]:
        """See `LimitStore`."""
        if not keys:
            return []
        return await self._reader.call(lambda db: list(read_batches(db, keys, now)))

    async def claim_lined_up(self, requests: Sequence[LineClaim], *, now: datetime) -> list[LineClaimResult]:
        """See `LimitStore`."""
        if not requests:
            return []
        return await self._writer.call(lambda db: claim_lined_up(db, requests, now))

    async def prune_limits(self, *, now: datetime, limit: int) -> int:
        """See `LimitStore`."""
        values = {"now": to_micros(now), "limit": limit}

        def work(db: apsw.Connection) -> int:
            counts = []
            for name in ("prune_holds", "delete_idle_keys", "delete_idle_rules"):
                before = db.total_changes()
                execute(db, name, values)
                counts.append(db.total_changes() - before)
            return max(counts)

        return await self._writer.call(work)


def are_limits_set(db: apsw.Connection, tenant: str, spec: JobSpec) -> bool:
    """Say whether all shared limits are set that a definition uses: by its tenant, or for the cluster."""
    return all(
        any(
            fetch_value(db, "find_limit", {"tenant": owner, "name": name}) is not None
            for owner in (tenant, CLUSTER)
        )
        for name in used_limits(spec.concurrency)
    )


def keep_limits(db: apsw.Connection, job_id: JobId, tenant: str, spec: JobSpec, *, is_new: bool) -> None:
    """Store what a job's definition says about limits, instead of what an earlier one said."""
    rules, job = rules_of(job_id, spec), job_id.bytes
    if not is_new:
        names = to_json(kept_rules(job_id, spec))
        execute(db, "lift_own_rules", {"job_id": job, "names": names})
        execute(db, "drop_limit_uses", {"job_id": job})
    write_rules(db, tenant, rules)
    if spec.overlap.lines_up and not is_new and fetch_value(db, "find_busy_job", {"job_id": job}) is not None:
        # The line waits for the end of what is live of the job outside of it.
        execute(db, "begin_line", {"job_id": job, "key_id": intern_key(db, tenant, line_key(job_id))})
    uses = [{"tenant": tenant, "name": name, "job_id": job} for name in used_limits(spec.concurrency)]
    execute_many(db, "add_limit_use", uses)


def write_rules(db: apsw.Connection, tenant: str, rules: Sequence[LimitRule]) -> None:
    """Store rules instead of those with the same names."""
    values = [
        {
            "tenant": tenant,
            "name": rule.name,
            "job_id": None if rule.job_id is None else rule.job_id.bytes,
            "cap": rule.max_running,
            "count": None if rule.rate is None else rule.rate.count,
            "period_ms": None if rule.rate is None else to_millis(rule.rate.per),
            "burst": rule.burst,
            "hold": rule.hold,
            "batch_size": None if rule.batch is None else rule.batch.size,
            "batch_wait_ms": None if rule.batch is None else to_millis(rule.batch.wait),
        }
        for rule in rules
    ]
    execute_many(db, "write_rule", values)


def _make_rule(row: NamedRow) -> LimitRule:
    return LimitRule(
        name=row.name,
        job_id=None if row.job_id is None else make_job_id(row.job_id),
        max_running=row.max_running,
        rate=make_rate(row),
        burst=row.burst,
        hold=Hold(row.hold),
    )


def _make_line(row: NamedRow) -> Line:
    return Line(LineKey(row.key_id, row.lane_id), to_instant(row.ready_at))


def _make_use(row: NamedRow, now: datetime) -> KeyUse:
    run_ids, bucket = json.loads(row.run_ids), make_bucket(row)
    return KeyUse(
        id=KeyId(row.id),
        key=row.key,
        held=len(run_ids),
        run_ids=tuple(map(RunId, run_ids[:_MOST_SHOWN])),
        next_permit_at=None if bucket is None else bucket.at(now).next_permit_at(),
        waiting_since=to_optional_instant(row.waiting_since),
    )
