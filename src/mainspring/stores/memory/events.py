"""Events, and the jobs that listen to them, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count, islice

from mainspring.core.admission import KnownKey
from mainspring.core.ids import RunId
from mainspring.ports.store.events import (
    EventResult,
    EventStatus,
    KeptEvent,
    Listener,
    NewEvent,
    heard_of,
    judge_known,
    topic_of,
)
from mainspring.stores.memory.rows import KeyRow
from mainspring.stores.memory.tables import Tables


@dataclass(slots=True)
class EventTables:
    """Events in the order of their numbers."""

    events: list[KeptEvent] = field(default_factory=list)
    sequence: count[int] = field(default_factory=lambda: count(1))


class MemoryEventStore:
    """`EventStore` in memory."""

    _tables: Tables
    _events: EventTables

    async def list_listeners(self, topics: Sequence[tuple[str, str]]) -> list[tuple[Listener, ...]]:
        return [self._listeners(tenant, topic) for tenant, topic in topics]

    def _listeners(self, tenant: str, topic: str) -> tuple[Listener, ...]:
        jobs = sorted(
            (
                job
                for job in self._tables.jobs.values()
                if job.tenant == tenant and topic_of(job.spec) == topic
            ),
            key=lambda job: job.id,
        )
        return tuple(Listener(job.id, job.version, job.is_paused) for job in jobs)

    async def add_events(self, events: Sequence[NewEvent], *, now: datetime) -> list[EventResult]:
        known = [self._judge(new, now) for new in events]
        added = [new for new, result in zip(events, known, strict=True) if result is None]
        heard = heard_of(added)
        if any(self._listeners(*topic) != listeners for topic, listeners in heard.items()):
            return [EventResult(EventStatus.MOVED)] * len(events)
        return [self._add(new, now) for new in events]

    def _judge(self, new: NewEvent, now: datetime) -> EventResult | None:
        """Say what becomes of an event whose id is known; None if it is not."""
        guard = new.guard
        if guard is None:
            return None
        row = self._tables.keys.get((new.event.tenant, guard.key))
        if row is None or row.known.expires_at <= now:
            return None
        return judge_known(row.known.request_hash, guard)

    def _add(self, new: NewEvent, now: datetime) -> EventResult:
        tables, event = self._tables, new.event
        known = self._judge(new, now)
        if known is not None:
            return known
        if new.guard is not None:
            key = KnownKey(new.guard.request_hash, new.guard.expires_at)
            tables.keys[event.tenant, new.guard.key] = KeyRow(RunId(0), key)
        self._events.events.append(KeptEvent(next(self._events.sequence), event))
        released = tables.flows.meet(event)
        made = [tables.insert_planned(start.runs, start.overlap, now=now) for start in new.starts]
        return EventResult(EventStatus.ADDED, tuple(made), released)

    async def list_events(
        self, tenant: str, *, topic: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[KeptEvent]:
        found = (
            kept
            for kept in reversed(self._events.events)
            if kept.event.tenant == tenant
            and topic in {None, kept.event.topic}
            and (before is None or kept.number < before)
        )
        return list(islice(found, limit))

    async def prepare_events(self, *, now: datetime) -> None:
        pass

    async def prune_events(self, *, before: datetime, limit: int) -> int:
        old = [kept for kept in self._events.events if kept.event.received_at < before][:limit]
        gone = {kept.number for kept in old}
        self._events.events = [kept for kept in self._events.events if kept.number not in gone]
        return len(gone)
