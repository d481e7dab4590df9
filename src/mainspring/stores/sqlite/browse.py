"""Lists of runs and workers on SQLite: each state is looked for in the table that holds it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

import apsw

from mainspring.core.batching import MOST_SIZE
from mainspring.core.ids import BackfillId, JobId, RunId, SessionId
from mainspring.core.model import Run, RunKind
from mainspring.core.states import FINAL_STATES, RunState
from mainspring.core.why import MOST_AHEAD, BatchFacts, KeyFacts, WaitFacts
from mainspring.ports.store.browse import JobCounts, OverdueFires
from mainspring.ports.store.sessions import SessionFacts
from mainspring.stores.sqlite.batches import size_of
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.rows import (
    NamedRow,
    make_bucket,
    make_job_id,
    make_run,
    make_session,
    to_hexes,
    to_instant,
    to_json,
    to_micros,
    to_optional_instant,
)
from mainspring.stores.sqlite.statements import fetch_row, fetch_rows, fetch_value, fetch_values

_LAST_ID = 2**63 - 1
_MOST_SHOWN = 5


class SqliteBrowseStore:
    """Implements `BrowseStore`."""

    _browser: Database

    async def list_runs(
        self,
        tenant: str,
        *,
        job_id: JobId | None = None,
        state: RunState | None = None,
        queue: str | None = None,
        kind: RunKind | None = None,
        backfill_id: BackfillId | None = None,
        error: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        lowest: RunId | None = None,
        before: RunId | None = None,
        limit: int = 100,
        is_brief: bool = False,
    ) -> list[Run]:
        """See `BrowseStore`."""
        values = {
            "tenant": tenant,
            "job_id": None if job_id is None else job_id.bytes,
            "state": None if state is None else state.value,
            "queue": queue,
            "kind": kind,
            "backfill_id": None if backfill_id is None else backfill_id.bytes,
            "error": error,
            "since": None if since is None else to_micros(since),
            "until": None if until is None else to_micros(until),
            "lowest": lowest or 0,
            "before": _LAST_ID if before is None else before,
            "limit": limit,
        }
        name = _find_query(state, is_of_job=job_id is not None)

        def work(db: apsw.Connection) -> list[NamedRow]:
            with db:  # one snapshot: a run may move in between
                found = {"run_ids": to_json(fetch_values(db, name, values)), "is_brief": is_brief}
                rows = fetch_rows(db, "read_listed", found)
            return sorted(rows, key=lambda row: -row.id)

        return [make_run(row) for row in await self._browser.call(work)]

    async def read_run_bounds(self) -> tuple[RunId, RunId] | None:
        """See `BrowseStore`."""
        row = await self._browser.call(lambda db: fetch_row(db, "read_run_bounds"))
        return None if row is None or row.lowest is None else (RunId(row.lowest), RunId(row.highest))

    async def read_creations(self, run_ids: Sequence[RunId]) -> list[datetime | None]:
        """See `BrowseStore`."""

        def work(db: apsw.Connection) -> list[int | None]:
            return [fetch_value(db, "read_creation", {"run_id": run_id}) for run_id in run_ids]

        return [None if at is None else to_instant(at) for at in await self._browser.call(work)]

    async def read_job_names(self, job_ids: Sequence[JobId]) -> dict[JobId, str]:
        """See `BrowseStore`."""
        values = {"job_ids": to_hexes(job_ids)}
        rows = await self._browser.call(lambda db: fetch_rows(db, "read_job_names", values))
        return {make_job_id(row.id): row.name for row in rows}

    async def page_sessions(
        self, *, after: SessionId | None = None, limit: int = 100, tenant: str | None = None
    ) -> list[SessionFacts]:
        """See `BrowseStore`."""
        values = {"after": after or 0, "limit": limit, "tenant": tenant}
        rows = await self._browser.call(lambda db: fetch_rows(db, "page_sessions", values))
        return [make_session(row) for row in rows]

    async def count_held(self, session_ids: Sequence[SessionId]) -> list[int]:
        """See `BrowseStore`."""
        values = {"session_ids": to_json(session_ids)}
        rows = await self._browser.call(lambda db: fetch_rows(db, "count_held", values))
        return [row.held for row in rows]

    async def count_job_states(self, tenant: str, *, limit: int) -> JobCounts:
        """See `BrowseStore`."""
        values = {"tenant": tenant, "limit": limit}
        [row] = await self._browser.call(lambda db: fetch_rows(db, "count_job_states", values))
        return JobCounts(row.active, row.paused)

    async def count_overdue(self, *, before: datetime, limit: int) -> OverdueFires:
        """See `BrowseStore`."""
        values = {"before": to_micros(before), "limit": limit}
        [row] = await self._browser.call(lambda db: fetch_rows(db, "count_overdue", values))
        return OverdueFires(row.fires, to_optional_instant(row.oldest_due_at))

    async def read_wait(self, run_id: RunId, *, now: datetime) -> WaitFacts | None:
        """See `BrowseStore`."""

        def work(db: apsw.Connection) -> tuple[NamedRow | None, list[NamedRow], list[NamedRow]]:
            place = fetch_row(db, "count_ahead", {"run_id": run_id, "limit": MOST_AHEAD})
            keys = [] if place is None else fetch_rows(db, "read_wait_keys", {"run_id": run_id})
            bounds = {"run_id": run_id, "limit": MOST_SIZE, "now": to_micros(now)}
            return place, keys, fetch_rows(db, "read_wait_batch", bounds) if keys else []

        place, rows, batches = await self._browser.call(work)
        if place is None:
            return None
        return WaitFacts(
            keys=tuple(_key_facts(row, now) for row in rows),
            ahead=min(place.ahead, MOST_AHEAD),
            expires_at=to_optional_instant(place.expires_at),
            batch=next((_batch_facts(row) for row in batches if row.head_at is not None), None),
        )


def _batch_facts(row: NamedRow) -> BatchFacts:
    size = size_of(row)
    return BatchFacts(size=size.size, ready=row.ready, until=to_instant(row.head_at) + size.wait)


def _key_facts(row: NamedRow, now: datetime) -> KeyFacts:
    holders, bucket = json.loads(row.holders), make_bucket(row)
    return KeyFacts(
        limit=row.name,
        is_of_cluster=bool(row.is_of_cluster),
        key=row.key,
        max_running=row.max_running,
        rate=None if bucket is None else bucket.rate,
        held=len(holders),
        holders=tuple([RunId(run_id) for run_id, is_own in holders if is_own][:_MOST_SHOWN]),
        next_permit_at=None if bucket is None else bucket.at(now).next_permit_at(),
    )


def _find_query(state: RunState | None, *, is_of_job: bool) -> str:
    """Return the name of the query that finds the ids: the table that holds the state, by the index that fits."""
    if state is None:
        names = ("find_all", "find_all_of_job")
    elif state is RunState.FAILED:
        names = ("find_dead", "find_dead_of_job")
    elif state is RunState.RUNNING:
        names = ("find_held", "find_held_of_job")
    elif state not in FINAL_STATES:
        names = ("find_live", "find_live_of_job")
    elif state is RunState.SUCCEEDED:
        names = ("find_ended", "find_ended_of_job")
    else:
        names = ("find_unusual", "find_ended_of_job")
    return names[is_of_job]
