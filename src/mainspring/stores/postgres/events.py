"""Events, and the jobs that listen to them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from asyncpg import Record

from mainspring.core.events.model import Event
from mainspring.core.ids import JobId
from mainspring.core.model import JobSpec
from mainspring.ports.store.events import (
    EventResult,
    EventStatus,
    KeptEvent,
    Listener,
    ListenersMoved,
    NewEvent,
    heard_of,
    judge_known,
    topic_of,
)
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.event_waits import meet_waits
from mainspring.stores.postgres.inserts import LaneIds, insert_planned

_LAST = 2**63 - 1
_MOVED = EventResult(EventStatus.MOVED)
_Topic = tuple[str, str]
_Pair = tuple[str, str]


class PostgresEventStore:
    """`EventStore` on PostgreSQL."""

    _connections: Connections
    _lane_ids: LaneIds

    async def list_listeners(self, topics: Sequence[_Topic]) -> list[tuple[Listener, ...]]:
        if not topics:
            return []
        rows = await self._connections.fetch(
            Role.SUBMIT,
            "list_listeners",
            is_repeatable=True,
            tenants=[tenant for tenant, _ in topics],
            topics=[topic for _, topic in topics],
        )
        return _listeners_of(rows, len(topics))

    async def add_events(self, events: Sequence[NewEvent], *, now: datetime) -> list[EventResult]:
        if not events:
            return []

        async def work(transaction: Transaction) -> list[EventResult]:
            return await _add_events(transaction, self._lane_ids, events, now)

        try:
            results = await self._connections.transact(Role.SUBMIT, work)
        except ListenersMoved:
            return [_MOVED] * len(events)
        self._connections.servers.recent.note(now, results)
        return results

    async def list_events(
        self, tenant: str, *, topic: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[KeptEvent]:
        values = {"tenant": tenant, "before": _LAST if before is None else before, "limit": limit}
        name = "list_events"
        if topic is not None:
            name, values = "list_events_of_topic", {**values, "topic": topic}
        rows = await self._connections.fetch(Role.BROWSE, name, is_repeatable=True, **values)
        return [
            KeptEvent(
                row["number"],
                Event(
                    tenant=row["tenant"],
                    id=row["id"],
                    topic=row["topic"],
                    key=row["key"],
                    data=row["data"],
                    received_at=row["received_at"],
                ),
            )
            for row in rows
        ]

    async def prepare_events(self, *, now: datetime) -> None:
        await self._connections.fetch(Role.UPKEEP, "prepare_events", is_repeatable=True, now=now)

    async def prune_events(self, *, before: datetime, limit: int) -> int:
        """See `EventStore`. Of days that are dropped whole, the count is an estimate."""
        removed = 0
        for row in await self._connections.fetch(
            Role.UPKEEP, "list_detached_event_days", is_repeatable=True
        ):  # of a process that died
            removed += await self._drop_event_day(row["name"])
        days = await self._connections.fetch(
            Role.UPKEEP, "list_closed_event_days", is_repeatable=True, before=before
        )
        for row in days:
            [detached] = await self._connections.fetch(
                Role.UPKEEP, "detach_event_day", is_repeatable=True, day=row["day"]
            )
            if detached["is_detached"]:
                removed += await self._drop_event_day(f"dropped_event_{row['day']:%Y%m%d}")

        async def work(transaction: Transaction) -> int:
            return await transaction.execute("prune_events", before=before, limit=limit)

        pruned = await self._connections.run(Role.UPKEEP, work, is_repeatable=True, is_atomic=True)
        return max(removed, pruned)

    async def _drop_event_day(self, name: str) -> int:
        [row] = await self._connections.fetch(Role.UPKEEP, "drop_day", is_repeatable=True, name=name)
        removed: int = row["removed"]
        return removed


def _listeners_of(rows: Sequence[Record], count: int) -> list[tuple[Listener, ...]]:
    found: list[list[Listener]] = [[] for _ in range(count)]
    for row in rows:
        found[row["place"] - 1].append(Listener(JobId(row["job_id"]), row["version"], row["is_paused"]))
    return [tuple(each) for each in found]


async def _add_events(
    transaction: Transaction, lane_ids: LaneIds, events: Sequence[NewEvent], now: datetime
) -> list[EventResult]:
    known = await _reserve_ids(transaction, events, now)
    added = [new for place, new in enumerate(events) if place not in known]
    if not added:
        return [known[place] for place in range(len(events))]
    released = await meet_waits(transaction, added)
    await _hold_listeners(transaction, added)
    await transaction.execute(
        "add_events",
        tenants=[new.event.tenant for new in added],
        ids=[new.event.id for new in added],
        topics=[new.event.topic for new in added],
        keys=[new.event.key for new in added],
        datas=[new.event.data for new in added],
        now=now,
    )
    starts = [start for new in added for start in new.starts]
    made = iter(await insert_planned(transaction, lane_ids, starts, now=now))
    results = dict(known)
    new_places = [place for place in range(len(events)) if place not in known]
    for number, (place, new) in enumerate(zip(new_places, added, strict=True)):
        fires = tuple([next(made) for _ in new.starts])
        results[place] = EventResult(EventStatus.ADDED, fires, released.get(number, 0))
    return [results[place] for place in range(len(events))]


async def _reserve_ids(
    transaction: Transaction, events: Sequence[NewEvent], now: datetime
) -> dict[int, EventResult]:
    """Take the ids that are free. Return what becomes of the events whose ids are not, by place."""
    first: dict[_Pair, int] = {}
    for place, new in enumerate(events):
        if new.guard is not None:
            first.setdefault((new.event.tenant, new.guard.key), place)
    if not first:
        return {}
    ordered = sorted(first)  # in one order, so that two callers cannot deadlock
    guards = [guard for pair in ordered if (guard := events[first[pair]].guard) is not None]
    rows = await transaction.fetch(
        "reserve_event_ids",
        tenants=[tenant for tenant, _ in ordered],
        keys=[key for _, key in ordered],
        request_hashes=[guard.request_hash for guard in guards],
        expiries_at=[guard.expires_at for guard in guards],
        now=now,
    )
    taken = {(row["tenant"], row["key"]) for row in rows}
    kept = {pair: guard.request_hash for pair, guard in zip(ordered, guards, strict=True) if pair in taken}
    others = [pair for pair in ordered if pair not in taken]
    if others:
        rows = await transaction.fetch(
            "read_keys", tenants=[tenant for tenant, _ in others], keys=[key for _, key in others]
        )
        kept |= {(row["tenant"], row["key"]): row["request_hash"] for row in rows}
    known: dict[int, EventResult] = {}
    for place, new in enumerate(events):
        if new.guard is None:
            continue
        pair = (new.event.tenant, new.guard.key)
        if pair not in taken or first[pair] != place:
            known[place] = judge_known(kept[pair], new.guard)
    return known


async def _hold_listeners(transaction: Transaction, events: Sequence[NewEvent]) -> None:
    """Lock the clocks of the jobs that start, and see that all listeners are as they were read.

    Raises:
        ListenersMoved: they are not.
    """
    heard = heard_of(events)
    job_ids = sorted({one.job_id for listeners in heard.values() for one in listeners})
    if job_ids:
        await transaction.fetch("lock_clocks", job_ids=job_ids)
    # A statement of its own: who waited for a clock sees what the other one wrote.
    rows = await transaction.fetch(
        "list_listeners",
        tenants=[tenant for tenant, _ in heard],
        topics=[topic for _, topic in heard],
    )
    if _listeners_of(rows, len(heard)) != list(heard.values()):
        raise ListenersMoved


async def keep_listeners(
    transaction: Transaction, jobs: Sequence[tuple[JobId, str, JobSpec]], *, are_new: bool
) -> None:
    """Note, within a transaction, which topics jobs listen to, or that they listen to none."""
    kept = {job_id: (topic, tenant) for job_id, tenant, spec in jobs if (topic := topic_of(spec)) is not None}
    if kept:
        ordered = sorted(kept)
        await transaction.execute(
            "keep_listeners",
            job_ids=ordered,
            names=[kept[job_id][0] for job_id in ordered],
            tenants=[kept[job_id][1] for job_id in ordered],
        )
    if not are_new and (others := sorted({job_id for job_id, _, _ in jobs} - kept.keys())):
        await transaction.execute("drop_listeners", job_ids=others)
