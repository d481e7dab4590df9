"""Events, and the jobs that listen to them, on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import apsw

from mainspring.core.events.model import Event
from mainspring.core.ids import JobId
from mainspring.core.model import JobSpec
from mainspring.ports.store.events import (
    EventResult,
    EventStart,
    EventStatus,
    KeptEvent,
    Listener,
    ListenersMoved,
    NewEvent,
    heard_of,
    judge_known,
    topic_of,
)
from mainspring.ports.store.schedule import FireResult
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.event_waits import meet_waits
from mainspring.stores.sqlite.inserts import InternedLanes
from mainspring.stores.sqlite.rows import make_job_id, to_instant, to_micros
from mainspring.stores.sqlite.schedule import insert_planned
from mainspring.stores.sqlite.statements import execute, fetch_row, fetch_rows, fetch_value

_LAST = 2**63 - 1


class SqliteEventStore:
    """Implements `EventStore`."""

    _browser: Database
    _reader: Database
    _writer: Database
    _lane_ids: InternedLanes

    async def list_listeners(self, topics: Sequence[tuple[str, str]]) -> list[tuple[Listener, ...]]:
        """See `EventStore`."""
        if not topics:
            return []
        return await self._reader.call(lambda db: [_list_listeners(db, *one) for one in topics])

    async def add_events(self, events: Sequence[NewEvent], *, now: datetime) -> list[EventResult]:
        """See `EventStore`."""
        if not events:
            return []
        at = to_micros(now)
        try:
            return await self._writer.call(lambda db: self._add_events(db, events, at))
        except ListenersMoved:
            return [EventResult(EventStatus.MOVED)] * len(events)

    def _add_events(self, db: apsw.Connection, events: Sequence[NewEvent], now: int) -> list[EventResult]:
        checked = set[tuple[str, str]]()
        results = []
        for new in events:
            known = _reserve_id(db, new, now)
            if known is not None:
                results.append(known)
                continue
            for topic, listeners in heard_of([new]).items():
                if topic not in checked and _list_listeners(db, *topic) != listeners:
                    raise ListenersMoved
                checked.add(topic)
            results.append(self._add_event(db, new, now))
        return results

    def _add_event(self, db: apsw.Connection, new: NewEvent, now: int) -> EventResult:
        event = new.event
        values = {
            "tenant": event.tenant,
            "id": event.id,
            "topic": event.topic,
            "key": event.key,
            "data": event.data,
            "now": now,
        }
        execute(db, "add_event", values)
        released = meet_waits(db, event)
        made = tuple([self._start(db, start, now) for start in new.starts])
        return EventResult(EventStatus.ADDED, made, released)

    def _start(self, db: apsw.Connection, start: EventStart, now: int) -> FireResult:
        return insert_planned(db, self._lane_ids, start, now)

    async def list_events(
        self, tenant: str, *, topic: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[KeptEvent]:
        """See `EventStore`."""
        values = {"tenant": tenant, "before": _LAST if before is None else before, "limit": limit}
        name = "list_events"
        if topic is not None:
            name, values = "list_events_of_topic", {**values, "topic": topic}
        rows = await self._browser.call(lambda db: fetch_rows(db, name, values))
        return [
            KeptEvent(
                row.number,
                Event(
                    tenant=row.tenant,
                    id=row.id,
                    topic=row.topic,
                    key=row.key,
                    data=row.data,
                    received_at=to_instant(row.received_at),
                ),
            )
            for row in rows
        ]

    async def prepare_events(self, *, now: datetime) -> None:
        """See `EventStore`."""

    async def prune_events(self, *, before: datetime, limit: int) -> int:
        """See `EventStore`."""
        values = {"before": to_micros(before), "limit": limit}

        def work(db: apsw.Connection) -> int:
            execute(db, "prune_events", values)
            return db.changes()

        return await self._writer.call(work)


def _list_listeners(db: apsw.Connection, tenant: str, topic: str) -> tuple[Listener, ...]:
    rows = fetch_rows(db, "list_listeners", {"tenant": tenant, "topic": topic})
    return tuple(Listener(make_job_id(row.job_id), row.version, bool(row.is_paused)) for row in rows)


def _reserve_id(db: apsw.Connection, new: NewEvent, now: int) -> EventResult | None:
    """Take the id of an event. Return what becomes of the event if its id is not free."""
    guard = new.guard
    if guard is None:
        return None
    key = {"tenant": new.event.tenant, "key": guard.key}
    values = {
        **key,
        "request_hash": guard.request_hash,
        "expiry_at": to_micros(guard.expires_at),
        "now": now,
    }
    if fetch_value(db, "reserve_event_id", values) is not None:
        return None
    row = fetch_row(db, "read_key", key)
    assert row is not None, "the id is taken"
    return judge_known(row.request_hash, guard)


def keep_listener(db: apsw.Connection, job_id: JobId, tenant: str, spec: JobSpec, *, is_new: bool) -> None:
    """Note, within a transaction, which topic a job listens to, or that it listens to none."""
    topic = topic_of(spec)
    if topic is not None:
        execute(db, "keep_listener", {"job_id": job_id.bytes, "name": topic, "tenant": tenant})
    elif not is_new:
        execute(db, "drop_listener", {"job_id": job_id.bytes})
