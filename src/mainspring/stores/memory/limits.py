"""Limits: their rules, the keys that are in use, and the lines of waiting runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from operator import attrgetter

from mainspring.core.audit import AuditEntry
from mainspring.core.holding import LineStop
from mainspring.core.ids import JobId, KeyId
from mainspring.core.limits import CLUSTER, LimitRule, kept_rules, line_key, rules_of, used_limits
from mainspring.core.model import JobSpec
from mainspring.core.states import FINAL_STATES
from mainspring.ports.store.claims import ClaimResult
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
from mainspring.stores.memory.audit import write_audit
from mainspring.stores.memory.batches import hold_batches, pick_batches, read_batches
from mainspring.stores.memory.leases import allow, give, judge
from mainspring.stores.memory.lined_up import (
    SPARE,
    admit,
    admit_to_caps,
    bucket_of,
    is_counted,
    line_of,
    pick,
)
from mainspring.stores.memory.rows import LimitKeyRow
from mainspring.stores.memory.tables import Tables

_MOST_SHOWN = 5


class MemoryLimitStore:
    """`LimitStore` in memory."""

    _tables: Tables

    async def write_limits(
        self, tenant: str, rules: Sequence[LimitRule], *, audit: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        known = {name for name in (rule.name for rule in rules) if self._is_set(tenant, name)}
        for rule in rules:
            self._tables.limits.rules[tenant, rule.name] = rule
        write_audit(self._tables, audit, [True] * len(rules))
        return [rule.name not in known for rule in rules]

    def _is_set(self, tenant: str, name: str) -> bool:
        return _is_set(self._tables, tenant, name)

    async def list_limits(self, tenant: str) -> list[LimitRule]:
        found = [
            rule
            for (owner, _), rule in self._tables.limits.rules.items()
            if owner == tenant and rule.job_id is None and rule.is_set and ":" not in rule.name
        ]
        return sorted(found, key=lambda rule: rule.name)

    async def delete_limit(
        self, tenant: str, name: str, *, audit: Sequence[AuditEntry] = ()
    ) -> LimitDeletion:
        tables = self._tables
        users = sorted(
            tables.jobs[job_id].spec.name
            for (owner, used), jobs in tables.limits.users.items()
            if used == name and (owner == tenant or (tenant == CLUSTER and not self._is_set(owner, name)))
            for job_id in jobs
        )
        if users:
            return LimitDeletion(is_known=True, used_by=tuple(users[:_MOST_SHOWN]))
        if not self._is_set(tenant, name):
            return LimitDeletion(is_known=False)
        tables.limits.rules[tenant, name] = tables.limits.rules[tenant, name].lifted()
        write_audit(tables, audit, [True])
        return LimitDeletion(is_known=True)

    async def list_keys(
        self, tenant: str, name: str, *, after: str | None = None, limit: int, now: datetime
    ) -> list[KeyUse]:
        found = [key for key in self._keys_of(tenant, name) if after is None or key.key > after]
        return [self._use(key, now) for key in sorted(found, key=lambda key: key.key)[:limit]]

    async def list_keys_by_age(
        self, tenant: str, name: str, *, after: KeyId = PLAIN, limit: int, now: datetime
    ) -> list[KeyUse]:
        found = [key for key in self._keys_of(tenant, name) if key.id > after]
        return [self._use(key, now) for key in sorted(found, key=lambda key: key.id)[:limit]]

    def _keys_of(self, tenant: str, name: str) -> list[LimitKeyRow]:
        keys = self._tables.limits.keys.values()
        return [key for key in keys if (key.tenant, key.limit) == (tenant, name)]

    def _use(self, key: LimitKeyRow, now: datetime) -> KeyUse:
        tables = self._tables
        held = [run_id for run_id, token in key.holds.items() if is_counted(tables, key, run_id, token)]
        heads = [line.ready_at for line in self._lines() if line.key.key_id == key.id]
        bucket = bucket_of(tables, key)
        return KeyUse(
            id=key.id,
            key=key.key,
            held=len(held),
            run_ids=tuple(held[:_MOST_SHOWN]),
            next_permit_at=None if bucket is None else bucket.at(now).next_permit_at(),
            waiting_since=min(heads, default=None),
        )

    async def read_lines(self, *, after: LineKey | None = None, limit: int) -> list[Line]:
        found = sorted(line for line in self._lines() if after is None or line.key > after)
        return found[:limit]

    async def read_some_lines(self, keys: Sequence[LineKey]) -> list[Line]:
        found = {line.key: line for line in self._lines()}
        return [found[key] for key in keys if key in found]

    def _lines(self) -> Iterator[Line]:
        for lane in self._tables.lanes.values():
            for key_id, line in lane.lines.items():
                head = line.first()
                if head is not None:
                    yield Line(LineKey(key_id, lane.id), head[0])

    async def read_batches(self, keys: Sequence[LineKey], *, now: datetime) -> list[BatchLine]:
        return list(read_batches(self._tables, keys, now))

    async def claim_lined_up(self, requests: Sequence[LineClaim], *, now: datetime) -> list[LineClaimResult]:
        left: dict[int, dict[LineKey, int]] = {}
        stops: dict[int, dict[LineKey, LineStop]] = {}
        results = []
        for request in requests:
            shared = id(request.lines)
            quotas = left.setdefault(shared, {line.key: line.quota for line in request.lines})
            result = self._claim_lines(request, quotas, now)
            for key, count in result.taken.items():
                quotas[key] -= count
            stops.setdefault(shared, {}).update(result.stops)
            results.append(result)
        return [
            replace(result, stops=stops[id(request.lines)])
            for request, result in zip(requests, results, strict=True)
        ]

    def _claim_lines(
        self, request: LineClaim, quotas: Mapping[LineKey, int], now: datetime
    ) -> LineClaimResult:
        tables = self._tables
        found = judge(tables, request)
        if isinstance(found, ClaimResult):
            return LineClaimResult(
                found.runs, is_session_live=found.is_session_live, is_policy_old=found.is_policy_old
            )
        allowed = allow(tables, request, found)
        if request.are_batches:
            batches, stops = pick_batches(tables, request.lines, quotas, allowed, now)
            rows = [run for _, runs in batches for run in runs]
            admitted = admit_to_caps(tables, rows, now, caps=request.caps)
            hold_batches(tables, admitted.runs)
            given = give(tables, admitted.runs, found, request, now)
            return LineClaimResult(
                given.runs,
                taken=Counter(key for key, runs in batches if runs[0] in admitted.runs),
                keys={run_id: keys for run_id, keys in admitted.keys.items() if keys},
                stops=stops | admitted.stops,
            )
        picked = pick(tables, request.lines, quotas, allowed + SPARE, now) if allowed else []
        if request.is_oldest_first:
            picked.sort(key=attrgetter("ready_at"))
        admitted = admit(tables, picked, allowed, now, lines=quotas.keys(), caps=request.caps)
        given = give(tables, admitted.runs, found, request, now)
        return LineClaimResult(
            given.runs,
            taken=Counter(map(line_of, admitted.runs)),
            keys=admitted.keys,
            stops=admitted.stops,
        )

    async def prune_limits(self, *, now: datetime, limit: int) -> int:
        tables = self._tables
        void = [
            (key, run_id)
            for key in tables.limits.keys.values()
            for run_id, token in key.holds.items()
            if not is_counted(tables, key, run_id, token)
        ][:limit]
        for key, run_id in void:
            del key.holds[run_id]
        idle = list(islice(self._idle_keys(now), limit))
        for key_id in idle:
            del tables.limits.keys[key_id]
        tables.limits.key_ids = {
            key: key_id for key, key_id in tables.limits.key_ids.items() if key_id in tables.limits.keys
        }
        needed = {(key.tenant, key.limit) for key in tables.limits.keys.values()}
        gone = [
            name
            for name, rule in tables.limits.rules.items()
            if name not in needed
            and (not rule.is_set or (rule.job_id is not None and rule.job_id not in tables.jobs))
        ][:limit]
        for name in gone:
            del tables.limits.rules[name]
        return max(len(void), len(idle), len(gone))

    def _idle_keys(self, now: datetime) -> Iterator[KeyId]:
        tables = self._tables
        used = {
            key_id for run in tables.runs.values() if run.state not in FINAL_STATES for key_id in run.keys
        }
        for key in tables.limits.keys.values():
            bucket = bucket_of(tables, key)
            is_full = bucket is None or bucket.at(now).level == bucket.burst
            is_cap = key.tenant == CLUSTER and ":" in key.limit
            is_needed = is_cap and tables.limits.rules[key.tenant, key.limit].is_set
            if key.id not in used and not key.holds and is_full and not is_needed:
                yield key.id


def _is_set(tables: Tables, tenant: str, name: str) -> bool:
    rule = tables.limits.rules.get((tenant, name))
    return rule is not None and rule.is_set


def are_limits_set(tables: Tables, tenant: str, spec: JobSpec) -> bool:
    """Say whether all shared limits are set that a definition uses: by its tenant, or for the cluster."""
    return all(
        any(_is_set(tables, owner, name) for owner in (tenant, CLUSTER))
        for name in used_limits(spec.concurrency)
    )


def keep_limits(tables: Tables, job_id: JobId, tenant: str, spec: JobSpec) -> None:
    """Store what a job's definition says about limits, instead of what an earlier one said."""
    kept = kept_rules(job_id, spec)
    for name, rule in list(tables.limits.rules.items()):
        if rule.job_id == job_id and name[1] not in kept:
            tables.limits.rules[name] = rule.lifted()
    for rule in rules_of(job_id, spec):
        tables.limits.rules[tenant, rule.name] = rule
    if spec.overlap.lines_up:
        _begin_line(tables, job_id, tenant)
    drop_limit_uses(tables, job_id)
    for used in used_limits(spec.concurrency):
        tables.limits.users[tenant, used].add(job_id)


def _begin_line(tables: Tables, job_id: JobId, tenant: str) -> None:
    """Have the line of a job wait for the end of what is live of it outside of the line."""
    live = [
        run
        for (run_id,) in tables.runs_of_job[job_id].below(None)
        if (run := tables.runs[run_id]).state not in FINAL_STATES
    ]
    if not live:
        return
    key = tables.limits.key_of(tenant, line_key(job_id))
    key.holds |= {run.id: run.token for run in live if key.id not in run.keys}


def drop_limit_uses(tables: Tables, job_id: JobId) -> None:
    """Note that a job uses no shared limit."""
    for users in tables.limits.users.values():
        users.discard(job_id)
