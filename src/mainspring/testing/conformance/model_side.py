"""One of the two stores of a model walk, addressed by names that mean the same on both.

Each store gives out its own ids. So the walk names runs by a serial number in their payload or by their fire, sessions
by the order in which they were opened, lanes by their key, and fire ranges by their reason. Jobs have the same ids on
both sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from mainspring.core.ids import FireRangeId, JobId, LaneId, RunId, SessionId
from mainspring.core.model import FireRange, LaneKey, Run
from mainspring.core.outcomes import Transition
from mainspring.core.states import FINAL_STATES
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ApplyResult, ClaimedRun, ClaimRequest, HeldRun
from mainspring.ports.store.runs import NewRun
from mainspring.ports.store.schedule import DueClock, Fire, FireRangeStep, FireResult
from mainspring.ports.store.sessions import Beat, NewSession

TENANTS = ("default", "other")
Plain = Any
"""A result without one side's own ids, so that it can be compared with the other side's."""


def _serial_of(run: Run) -> int:
    """Return the serial number of a run. One that fired in a set has no payload, so its fire names it."""
    if run.payload is not None:
        return int(run.payload)
    assert run.fire_at is not None
    return -run.job_id.int * 10**16 - round(run.fire_at.timestamp() * 1_000_000)


class Side:
    """A store, with the ids that the walk's names stand for in it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.run_ids: dict[int, RunId] = {}
        self.serials: dict[RunId, int] = {}
        self.sessions: list[SessionId] = []
        self.fire_range_ids: dict[str, FireRangeId] = {}
        self.reasons: dict[FireRangeId, str] = {}

    # -- names -------------------------------------------------------------------------------------------------

    async def learn_runs(self) -> None:
        """Learn the ids of newly inserted runs."""
        for tenant in TENANTS:
            for run in await self.store.list_runs(tenant, limit=60):
                if run.id not in self.serials:
                    serial = _serial_of(run)
                    self.serials[run.id] = serial
                    self.run_ids[serial] = run.id

    async def learn_fire_ranges(self, job_ids: Sequence[JobId]) -> None:
        """Learn the ids of newly inserted fire ranges."""
        for job_id in job_ids:
            for fire_range in await self.store.list_fire_ranges(job_id, limit=20):
                self.fire_range_ids[fire_range.reason] = fire_range.id
                self.reasons[fire_range.id] = fire_range.reason

    async def _lanes(self) -> dict[LaneKey, LaneId]:
        return {lane.key: lane.id for lane in await self.store.read_lanes([])}

    def _session_name(self, session_id: SessionId) -> int:
        return self.sessions.index(session_id)

    def _plain_held(self, held: HeldRun) -> Plain:
        return (
            self.serials[held.run_id],
            held.token,
            held.job_id,
            held.version,
            held.attempt,
            held.is_quarantined,
            held.quarantined_crashes,
            held.is_cancel_requested,
            self._session_name(held.session_id),
            held.started_at,
            held.deadline_at,
        )

    def _leases(self, leases: Sequence[tuple[RunId, int]]) -> Plain:
        return [(self.serials[run_id], token) for run_id, token in leases]

    def _fired(self, results: Sequence[FireResult]) -> Plain:
        return [
            (
                result.status,
                sorted(self.serials[run_id] for run_id in result.run_ids),
                sorted(self.serials[run_id] for run_id in result.cancelled),
            )
            for result in results
        ]

    # -- verbs -------------------------------------------------------------------------------------------------

    async def submit(self, runs: Sequence[NewRun], now: datetime) -> Plain:
        results = await self.store.submit_runs(runs, now=now)
        await self.learn_runs()
        return [
            (result.status, None if result.run_id is None else self.serials[result.run_id], result.first)
            for result in results
        ]

    async def fire(self, fires: Sequence[Fire], epochs: Mapping[int, int], now: datetime) -> Plain:
        results = await self.store.record_fires(fires, epochs=epochs, now=now)
        await self.learn_runs()
        await self.learn_fire_ranges([fire.job_id for fire in fires])
        return self._fired(results)

    async def fire_set(self, clocks: Sequence[DueClock], epochs: Mapping[int, int], now: datetime) -> Plain:
        results = await self.store.fire_outlined(clocks, epochs=epochs, now=now)
        await self.learn_runs()
        return self._fired(results)

    async def advance(
        self, name: str, step: Mapping[str, Any], epochs: Mapping[int, int], now: datetime
    ) -> Plain:
        real = FireRangeStep(fire_range_id=self.fire_range_ids[name], **step)
        results = await self.store.advance_fire_ranges([real], epochs=epochs, now=now)
        await self.learn_runs()
        return self._fired(results)

    async def read_fire_ranges(self) -> list[Plain]:
        return [
            self._plain_fire_range(work.fire_range)
            for work in await self.store.read_fire_ranges(range(256), limit=1000)
        ]

    async def read_paces(self) -> list[Plain]:
        works = await self.store.read_fire_ranges(range(256), limit=1000)
        return [(work.newest, work.level, work.level_at, work.live) for work in works]

    async def claim(self, requests: Sequence[Mapping[str, Any]], now: datetime) -> list[Plain]:
        lanes = await self._lanes()
        real = [self._real_request(request, lanes) for request in requests]
        results = await self.store.claim_runs(real, now=now)
        return [
            (
                result.is_session_live,
                [
                    self._plain_claimed(run)
                    for run in sorted(result.runs, key=lambda run: self.serials[run.run_id])
                ],
            )
            for result in results
        ]

    async def submit_claimed(self, run: NewRun, request: Mapping[str, Any], now: datetime) -> Plain:
        real = self._real_request(request, await self._lanes())
        claimed = await self.store.submit_claimed(run, request=real, now=now)
        await self.learn_runs()
        return None if claimed is None else self._plain_claimed(claimed)

    def _real_request(self, request: Mapping[str, Any], lanes: Mapping[LaneKey, LaneId]) -> ClaimRequest:
        values = dict(request)
        values["session_id"] = self.sessions[values.pop("session")]
        values["lanes"] = tuple(lanes[key] for key in values.pop("keys") if key in lanes)
        low = values.pop("low")
        values["lows"] = {} if low is None else dict.fromkeys(values["lanes"], low)
        quota = values.pop("quota")
        values["quotas"] = {} if quota is None else dict.fromkeys(values["lanes"], quota)
        return ClaimRequest(**values)

    def _plain_claimed(self, run: ClaimedRun) -> Plain:
        return (
            self.serials[run.run_id],
            run.token,
            run.job_id,
            run.version,
            run.tenant,
            run.attempt,
            run.fire_at,
            run.due_at,
            run.target_key,
            run.is_quarantined,
        )

    async def held(self, serial: int) -> HeldRun | None:
        return (await self.store.read_held([self.run_ids[serial]]))[0]

    async def apply(self, ends: Sequence[tuple[int, Transition]], now: datetime) -> list[ApplyResult]:
        real = [
            replace(end, run_id=self.run_ids[serial], session_id=self.sessions[end.session_id])
            for serial, end in ends
        ]
        results = await self.store.apply(real, now=now)
        await self.learn_runs()
        return results

    async def cancel(self, serials: Sequence[int], now: datetime) -> Plain:
        return await self.store.cancel_runs([self.run_ids[s] for s in serials], reason="operator", now=now)

    async def expire_runs(self, now: datetime) -> Plain:
        return sorted(self.serials[run_id] for run_id in await self.store.expire_runs(now=now, limit=1000))

    async def orphans(self) -> Plain:
        return sorted(self._plain_held(held) for held in await self.store.list_orphans(limit=1000))

    async def overdue(self, now: datetime) -> Plain:
        return sorted(self._plain_held(held) for held in await self.store.list_overdue(now=now, limit=1000))

    async def open_session(self, offer: NewSession, now: datetime) -> None:
        self.sessions += await self.store.add_sessions([offer], now=now)

    async def beat(
        self, beats: Sequence[tuple[int, Sequence[tuple[int, int]], int | None]], now: datetime
    ) -> Plain:
        real = [
            Beat(
                session_id=self.sessions[session],
                held=tuple((self.run_ids[serial], token) for serial, token in leases),
                answered=answered,
            )
            for session, leases, answered in beats
        ]
        return [
            (
                result.is_session_live,
                self._leases(result.lost),
                self._leases(result.cancel),
                sorted(self._plain_held(held) for held in result.unknown),
            )
            for result in await self.store.beat_sessions(real, now=now)
        ]

    async def counters(self) -> dict[int, int]:
        """Return the live sessions' counters."""
        return {self._session_name(facts.id): facts.beats for facts in await self.store.list_sessions()}

    async def expire_sessions(self, judged: Sequence[tuple[int, int]], now: datetime) -> Plain:
        real = [(self.sessions[session], beats) for session, beats in judged]
        return await self.store.expire_sessions(real, now=now)

    async def prune_history(self, *, before: datetime) -> None:
        """Remove what ended before the instant.

        Only what remains is compared, not the number that the store returns.
        """
        await self.store.prune_history(before=before, limit=100_000)

    # -- the whole ---------------------------------------------------------------------------------------------

    def _plain_fire_range(self, fire_range: FireRange) -> Plain:
        return (
            fire_range.job_id,
            fire_range.tenant,
            fire_range.version,
            fire_range.kind,
            fire_range.from_at,
            fire_range.to_at,
            fire_range.cursor_at,
            fire_range.reason,
            fire_range.is_open,
            fire_range.created_at,
        )

    def _plain_run(self, run: Run) -> Plain:
        is_final = run.state in FINAL_STATES
        return {
            "serial": self.serials[run.id],
            "state": run.state,
            "job": (run.job_id, run.version, run.tenant, run.lane, run.kind),
            "times": (run.fire_at, run.due_at, run.created_at, run.started_at, run.finished_at),
            "ready_at": run.ready_at,
            "counts": (run.token, run.attempt, run.crashes),
            "held": (
                None if run.session_id is None else self._session_name(run.session_id),
                run.is_cancel_requested,
            ),
            "end": (run.reason, run.error, run.result, run.output) if is_final else None,
            "key": run.idempotency_key,
            "payload": run.payload,
            "fire_range": self.reasons[run.fire_range_id] if run.fire_range_id is not None else None,
        }

    async def snapshot(self, job_ids: Sequence[JobId], now: datetime) -> dict[str, Plain]:
        """Return everything that the store shows."""
        store = self.store
        runs = [run for tenant in TENANTS for run in await store.list_runs(tenant, limit=100_000)]
        newest = await store.newest_runs(job_ids, now=now)
        lanes = await store.read_lanes([])
        fire_ranges = [
            fire_range
            for job_id in job_ids
            for fire_range in await store.list_fire_ranges(job_id, limit=1000)
        ]
        shown = {f"run {plain['serial']}": plain for plain in map(self._plain_run, runs)}
        attempts = {
            f"attempts {self.serials[run.id]}": [
                (row.token, row.number, row.outcome, row.worker, row.started_at, row.finished_at, row.error)
                for row in await store.list_attempts(run.id)
            ]
            for run in runs
            if run.token > 0
        }
        return {
            **shown,
            **attempts,
            "jobs": await store.get_jobs(job_ids),
            "pages": [[job.id for job in await store.list_jobs(tenant, limit=1000)] for tenant in TENANTS],
            "newest": [run and self.serials[run.id] for run in newest],
            "fire_ranges": sorted(
                (self._plain_fire_range(fire_range) for fire_range in fire_ranges),
                key=lambda plain: str(plain[7]),
            ),
            "open fire ranges": await self.read_fire_ranges(),
            "their paces": await self.read_paces(),
            "lanes": {
                lane.key: (lane.earliest_ready_at, lane.earliest_quarantined_at)
                for lane in lanes
                if lane.earliest_ready_at or lane.earliest_quarantined_at
            },
            "counts": [
                {state: count for state, count in (await store.count_runs(tenant)).items() if count}
                for tenant in TENANTS
            ],
            "orphans": await self.orphans(),
            "overdue": await self.overdue(now),
            "sessions": sorted((await self.counters()).items()),
            "shards": [(lease.shard, lease.node_id) for lease in await store.read_shards()],
            "due": sorted(
                (
                    *(due.due_at, due.job_id, due.priority, due.fire_at, due.revision, due.version),
                    str(due.outline),
                )
                for due in await store.read_due(range(256), until=now, limit=1000)
            ),
        }
