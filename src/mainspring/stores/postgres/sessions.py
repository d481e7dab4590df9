"""Worker sessions and their heartbeats."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from asyncpg import Record

from mainspring.core.ids import RunId, SessionId
from mainspring.core.preemption import is_asked, load_mark
from mainspring.core.reconciliation import Lease, Reconciled, reconcile
from mainspring.ports.store.claims import HeldRun
from mainspring.ports.store.sessions import (
    Beat,
    BeatResult,
    NewSession,
    SessionFacts,
    SessionOwner,
    SessionPulse,
    WorkerName,
)
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.rows import held_of, session_of


class PostgresSessionStore:
    """`SessionStore` on PostgreSQL."""

    _connections: Connections

    async def add_sessions(self, sessions: Sequence[NewSession], *, now: datetime) -> list[SessionId]:
        if not sessions:
            return []

        async def work(transaction: Transaction) -> list[SessionId]:
            ids = []
            for offer in sessions:  # rare, and nearly always one
                [row] = await transaction.fetch(
                    "add_session",
                    worker=offer.worker,
                    host=offer.host,
                    pid=offer.pid,
                    slots=offer.slots,
                    queues=offer.queues,
                    types=offer.types,
                    functions=offer.functions,
                    labels=offer.labels,
                    beat_period=offer.beat_period,
                    account=offer.account,
                    tenant=offer.tenant,
                    now=now,
                )
                ids.append(SessionId(row["id"]))
            return ids

        return await self._connections.transact(Role.BEAT, work)

    async def beat_sessions(self, beats: Sequence[Beat], *, now: datetime) -> list[BeatResult]:
        if not beats:
            return []

        async def work(transaction: Transaction) -> list[BeatResult]:
            wanted = sorted({beat.session_id for beat in beats})
            rows = await _lock(transaction, wanted)
            missing = {row["id"]: frozenset(_pairs(row["missing"])) for row in rows}
            if not missing:
                return [BeatResult(is_session_live=False)] * len(beats)
            running: dict[int, list[Record]] = defaultdict(list)
            held_rows = await transaction.fetch(
                "held_by_sessions", session_ids=list(missing), held_from=[row["held_from"] for row in rows]
            )
            for row in held_rows:
                running[row["session_id"]].append(row)
            found = [_reconcile(beat, running[beat.session_id], missing) for beat in beats]
            unknown = sorted(
                {run_id for reconciled in found if reconciled for run_id, _ in reconciled.unknown}
            )
            facts: dict[Lease, HeldRun] = {}
            if unknown:
                # By lease, not by run: the lease may have ended since, and the run may be another session's by now.
                held_again = await transaction.fetch("read_held", run_ids=unknown)
                facts = {(row["id"], row["token"]): held_of(row) for row in held_again}
            raises = Counter(beat.session_id for beat in beats)
            unnamed = [(session_id, *lease) for session_id, held in missing.items() for lease in sorted(held)]
            await transaction.execute(
                "beat_sessions",
                session_ids=list(missing),
                raises=[raises[session_id] for session_id in missing],
                held_from=[_oldest_held(running[row["id"]], after=row["claim_number"]) for row in rows],
                missing_sessions=[lease[0] for lease in unnamed],
                missing_runs=[lease[1] for lease in unnamed],
                missing_tokens=[lease[2] for lease in unnamed],
                now=now,
            )
            return [_result_of(reconciled, facts) for reconciled in found]

        return await self._connections.transact(Role.BEAT, work)

    async def close_sessions(self, session_ids: Sequence[SessionId], *, now: datetime) -> None:
        if session_ids:
            await self._connections.fetch(
                Role.BEAT, "close_sessions", is_repeatable=True, session_ids=sorted(set(session_ids)), now=now
            )

    async def list_sessions(self) -> list[SessionFacts]:
        rows = await self._connections.fetch(Role.WATCH, "list_sessions", is_repeatable=True)
        return [session_of(row) for row in rows]

    async def find_workers(self, session_ids: Sequence[SessionId]) -> dict[SessionId, WorkerName]:
        if not session_ids:
            return {}
        rows = await self._connections.fetch(
            Role.READ, "find_workers", is_repeatable=True, session_ids=sorted(set(session_ids))
        )
        return {SessionId(row["id"]): WorkerName(row["worker"], row["host"]) for row in rows}

    async def find_session_owners(self, session_ids: Sequence[SessionId]) -> dict[SessionId, SessionOwner]:
        if not session_ids:
            return {}
        rows = await self._connections.fetch(
            Role.READ, "find_session_owners", is_repeatable=True, session_ids=sorted(set(session_ids))
        )
        return {
            SessionId(row["id"]): SessionOwner(row["account"], row["tenant"], tuple(row["queues"]))
            for row in rows
        }

    async def read_pulses(self) -> dict[SessionId, SessionPulse]:
        rows = await self._connections.fetch(Role.WATCH, "read_pulses", is_repeatable=True)
        return {SessionId(row["id"]): SessionPulse(row["beats"], row["beat_period"]) for row in rows}

    async def expire_sessions(self, judged: Sequence[tuple[SessionId, int]], *, now: datetime) -> list[bool]:
        if not judged:
            return []
        ordered = sorted(judged)
        rows = await self._connections.fetch(
            Role.BEAT,
            "expire_sessions",
            is_repeatable=False,
            session_ids=[session_id for session_id, _ in ordered],
            beats=[beats for _, beats in ordered],
            now=now,
        )
        expired = {row["id"] for row in rows}
        return [session_id in expired for session_id, _ in judged]


async def _lock(transaction: Transaction, session_ids: Sequence[SessionId]) -> list[Record]:
    """Lock live sessions. Those that an earlier release has opened are of this one from now on."""
    rows = await transaction.fetch("lock_sessions", session_ids=session_ids)
    if foreign := [row["id"] for row in rows if row["is_foreign"]]:
        await transaction.execute("adopt_sessions", session_ids=foreign)
    return rows


def _oldest_held(running: Sequence[Record], *, after: int) -> int:
    """Return the number of the first claim whose leases may be under way.

    Every lease to come has a higher number than `after`.
    """
    return min((row["claim_number"] for row in running), default=after + 1)


def _pairs(flat: Sequence[int]) -> Iterable[Lease]:
    return zip(map(RunId, flat[::2]), flat[1::2], strict=True)


def _reconcile(
    beat: Beat, running: Sequence[Record], missing: dict[int, frozenset[Lease]]
) -> Reconciled | None:
    """Compare a heartbeat with what the store knows, and remember what it did not name.

    Return None if the session is not live.
    """
    before = missing.get(beat.session_id)
    if before is None:
        return None
    leases = [
        (run_id, token, number, is_cancel_requested, mark is not None and is_asked(load_mark(mark), token))
        for run_id, token, _, number, is_cancel_requested, mark in running
    ]
    found = reconcile(beat.held, leases, answered=beat.answered, missing_before=before)
    missing[beat.session_id] = found.missing
    return found


def _result_of(found: Reconciled | None, facts: Mapping[Lease, HeldRun]) -> BeatResult:
    if found is None:
        return BeatResult(is_session_live=False)
    unknown = tuple(facts[lease] for lease in found.unknown if lease in facts)
    return BeatResult(
        is_session_live=True, lost=found.lost, cancel=found.cancel, preempt=found.preempt, unknown=unknown
    )
