"""Limits: their rules, the keys that are in use, and the lines of waiting runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from asyncpg import Record

from mainspring.core.audit import AuditEntry
from mainspring.core.ids import JobId, KeyId, LaneId
from mainspring.core.limits import Hold, LimitRule, kept_rules, line_key, rules_of, used_limits
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
from mainspring.stores.postgres.audit import write_audit
from mainspring.stores.postgres.batches import batch_line_of
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.keys import intern_keys
from mainspring.stores.postgres.leases import (
    LaneTenants,
    OutdatedRows,
    claimed_of,
    lane_of,
    repeat_claim,
)
from mainspring.stores.postgres.lined_up import Started, claim_in_lines
from mainspring.stores.postgres.rows import bucket_of, milliseconds, rate_of

_MOST_USERS = 5


class PostgresLimitStore:
    """`LimitStore` on PostgreSQL."""

    _connections: Connections
    _tenants: LaneTenants

    async def write_limits(
        self, tenant: str, rules: Sequence[LimitRule], *, audit: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        if not rules:
            return []
        last = {rule.name: rule for rule in rules}

        async def work(transaction: Transaction) -> list[bool]:
            rows = await transaction.fetch("find_limits", tenant=tenant, names=list(last))
            known = {row["name"] for row in rows}
            await write_rules(transaction, [(tenant, rule) for rule in last.values()])
            await write_audit(transaction, audit, [True] * len(rules))
            return [rule.name not in known for rule in rules]

        return await self._connections.transact(Role.EDIT, work)

    async def list_limits(self, tenant: str) -> list[LimitRule]:
        rows = await self._connections.fetch(Role.READ, "list_limits", is_repeatable=True, tenant=tenant)
        return [rule_of(row) for row in rows]

    async def delete_limit(
        self, tenant: str, name: str, *, audit: Sequence[AuditEntry] = ()
    ) -> LimitDeletion:
        async def work(transaction: Transaction) -> LimitDeletion:
            await transaction.fetch("lock_limit", tenant=tenant, name=name)
            users = await transaction.fetch("list_limit_users", tenant=tenant, name=name, limit=_MOST_USERS)
            if users:
                return LimitDeletion(is_known=True, used_by=tuple(row["name"] for row in users))
            is_known = bool(await transaction.execute("lift_limit", tenant=tenant, name=name))
            await write_audit(transaction, audit, [is_known])
            return LimitDeletion(is_known=is_known)

        return await self._connections.transact(Role.EDIT, work)

    async def list_keys(
        self, tenant: str, name: str, *, after: str | None = None, limit: int, now: datetime
    ) -> list[KeyUse]:
        rows = await self._connections.fetch(
            Role.BROWSE,
            "list_keys",
            is_repeatable=True,
            tenant=tenant,
            name=name,
            after=after,
            limit=limit,
        )
        return [_use_of(row, now) for row in rows]

    async def list_keys_by_age(
        self, tenant: str, name: str, *, after: KeyId = PLAIN, limit: int, now: datetime
    ) -> list[KeyUse]:
        rows = await self._connections.fetch(
            Role.BROWSE,
            "list_keys_by_age",
            is_repeatable=True,
            tenant=tenant,
            name=name,
            after=after,
            limit=limit,
        )
        return [_use_of(row, now) for row in rows]

    async def read_lines(self, *, after: LineKey | None = None, limit: int) -> list[Line]:
        start = after or LineKey(KeyId(0), LaneId(0))
        rows = await self._connections.fetch(
            Role.CAPPED,
            "read_lines",
            is_repeatable=True,
            after_key=start.key_id,
            after_lane=start.lane_id,
            limit=limit,
        )
        return [_line_of(row) for row in rows]

    async def read_some_lines(self, keys: Sequence[LineKey]) -> list[Line]:
        if not keys:
            return []
        rows = await self._connections.fetch(
            Role.CAPPED,
            "read_some_lines",
            is_repeatable=True,
            key_ids=[key.key_id for key in keys],
            lane_ids=[key.lane_id for key in keys],
        )
        return [_line_of(row) for row in rows]

    async def read_batches(self, keys: Sequence[LineKey], *, now: datetime) -> list[BatchLine]:
        if not keys:
            return []
        rows = await self._connections.fetch(
            Role.CAPPED,
            "read_batches",
            is_repeatable=True,
            key_ids=[key.key_id for key in keys],
            lane_ids=[key.lane_id for key in keys],
            now=now,
        )
        return [batch_line_of(row) for row in rows]

    async def claim_lined_up(self, requests: Sequence[LineClaim], *, now: datetime) -> list[LineClaimResult]:
        if not requests:
            return []

        async def work(transaction: Transaction) -> list[tuple[list[Record] | None, Started]]:
            answers: list[tuple[list[Record] | None, Started]] = []
            for request, rows, started in await claim_in_lines(transaction, requests, now):
                again = await repeat_claim(transaction, request) if rows is None else rows
                answers.append((again, started if rows is not None else Started()))
            return answers

        answers = await self._connections.transact(Role.CAPPED, work, is_repeatable=True)
        await self._tenants.learn(
            self._connections, {lane_of(row) for rows, _ in answers if rows for row in rows}
        )
        return [
            LineClaimResult((), is_session_live=False) if rows is None else self._line_result(rows, started)
            for rows, started in answers
        ]

    def _line_result(self, rows: list[Record], started: Started) -> LineClaimResult:
        if isinstance(rows, OutdatedRows):
            return LineClaimResult((), is_policy_old=True)
        known = [row for row in rows if lane_of(row) in self._tenants]
        calls = {started.calls[row["id"]] for row in known if row["id"] in started.calls}
        keys = {row["id"]: started.keys[row["id"]] for row in known if row["id"] in started.keys}
        return LineClaimResult(
            claimed_of(known, self._tenants),
            taken=Counter(started.lines[row["id"]] for row in known if row["id"] in started.lines)
            + Counter(line for line, _ in calls),
            keys=keys,
            stops=started.stops,
        )

    async def prune_limits(self, *, now: datetime, limit: int) -> int:
        async def work(transaction: Transaction) -> int:
            holds = await transaction.execute("prune_holds", limit=limit)
            keys = await transaction.fetch("lock_idle_keys", now=now, limit=limit)
            # A second statement sees the runs of every submit that held a key until just now.
            gone = await transaction.execute("delete_idle_keys", key_ids=[row["id"] for row in keys])
            rules = await transaction.fetch("lock_idle_rules", limit=limit)
            ended = await transaction.execute("delete_idle_rules", rule_ids=[row["id"] for row in rules])
            return max(holds, gone, ended)

        return await self._connections.transact(Role.UPKEEP, work, is_repeatable=True)


async def find_unset(transaction: Transaction, jobs: Sequence[tuple[JobId, str, JobSpec]]) -> set[JobId]:
    """Return the jobs that use a shared limit which is not set, by its tenant or for the cluster.

    The limits of the others are held meanwhile.

    Args:
        jobs: each with its tenant.
    """
    used = {(tenant, name) for _, tenant, spec in jobs for name in used_limits(spec.concurrency)}
    if not used:
        return set()
    wanted = sorted(used)
    tenants, names = [tenant for tenant, _ in wanted], [name for _, name in wanted]
    rows = await transaction.fetch("hold_limits", tenants=tenants, names=names)
    unset = used - {(row["tenant"], row["name"]) for row in rows}
    return {
        job_id
        for job_id, tenant, spec in jobs
        if any((tenant, name) in unset for name in used_limits(spec.concurrency))
    }


async def keep_limits(
    transaction: Transaction, jobs: Sequence[tuple[JobId, str, JobSpec]], *, are_new: bool
) -> None:
    """Store what the definitions of jobs say about limits, instead of what earlier ones said.

    Args:
        jobs: each with its tenant.
    """
    rules = [(tenant, rule) for job_id, tenant, spec in jobs for rule in rules_of(job_id, spec)]
    if not are_new:
        job_ids = [job_id for job_id, _, _ in jobs]
        kept = [name for job_id, _, spec in jobs for name in kept_rules(job_id, spec)]
        await transaction.execute("lift_own_rules", job_ids=job_ids, names=kept)
        await transaction.execute("drop_limit_uses", job_ids=job_ids)
    if rules:
        await write_rules(transaction, rules)
    lines = [(tenant, line_key(job_id), job_id) for job_id, tenant, spec in jobs if spec.overlap.lines_up]
    if lines and not are_new:
        lines.sort(key=lambda line: (line[0], line[1].limit))
        ids = await intern_keys(transaction, [(tenant, key) for tenant, key, _ in lines])
        await transaction.execute(
            "begin_lines",
            job_ids=[job_id for _, _, job_id in lines],
            key_ids=[ids[tenant, key] for tenant, key, _ in lines],
        )
    uses = [(tenant, name, job_id) for job_id, tenant, spec in jobs for name in used_limits(spec.concurrency)]
    if uses:
        await transaction.execute(
            "add_limit_uses",
            tenants=[tenant for tenant, _, _ in uses],
            names=[name for _, name, _ in uses],
            job_ids=[job_id for _, _, job_id in uses],
        )


async def write_rules(transaction: Transaction, rules: Sequence[tuple[str, LimitRule]]) -> None:
    """Store rules, each of a tenant, instead of those with the same names."""
    ordered = sorted(rules, key=lambda one: (one[0], one[1].name))
    rates = [rule.rate for _, rule in ordered]
    await transaction.execute(
        "write_rules",
        tenants=[tenant for tenant, _ in ordered],
        names=[rule.name for _, rule in ordered],
        job_ids=[rule.job_id for _, rule in ordered],
        caps=[rule.max_running for _, rule in ordered],
        counts=[None if rate is None else rate.count for rate in rates],
        periods_ms=[None if rate is None else milliseconds(rate.per) for rate in rates],
        bursts=[rule.burst for _, rule in ordered],
        holds=[rule.hold for _, rule in ordered],
        batch_sizes=[None if rule.batch is None else rule.batch.size for _, rule in ordered],
        batch_waits_ms=[None if rule.batch is None else milliseconds(rule.batch.wait) for _, rule in ordered],
    )


def rule_of(row: Record) -> LimitRule:
    """Return the rule of a row."""
    return LimitRule(
        name=row["name"],
        job_id=row["job_id"],
        max_running=row["max_running"],
        rate=rate_of(row),
        burst=row["burst"],
        hold=Hold(row["hold"]),
    )


def _line_of(row: Record) -> Line:
    return Line(LineKey(row["key_id"], row["lane_id"]), row["ready_at"])


def _use_of(row: Record, now: datetime) -> KeyUse:
    bucket = bucket_of(row)
    return KeyUse(
        id=KeyId(row["id"]),
        key=row["key"],
        held=row["held"],
        run_ids=tuple(row["run_ids"] or ()),
        next_permit_at=None if bucket is None else bucket.at(now).next_permit_at(),
        waiting_since=row["waiting_since"],
    )
