"""Events are kept once, and start each job that listens to them once, in the same transaction."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

from mainspring.core.admission import OVERLAP
from mainspring.core.events.model import ID_PREFIX, Event
from mainspring.core.model import Job, Overlap, RunKind
from mainspring.core.states import RunState
from mainspring.core.triggers import Interval, OnEvent
from mainspring.ports.store import Store
from mainspring.ports.store.events import EventResult, EventStart, EventStatus, Listener, NewEvent
from mainspring.ports.store.runs import IdempotencyKey
from mainspring.testing.factories import (
    START,
    add_job,
    at,
    make_change,
    make_edit,
    make_new_run,
    make_pause,
    make_spec,
    read_job,
)

TOPIC = "orders.paid"
PAID = OnEvent(TOPIC)
DAY = timedelta(days=1)


def make_event(number: int = 1, **overrides: Any) -> Event:
    """Return an event, with an id by its number."""
    values: dict[str, Any] = {
        "tenant": "default",
        "id": f"pay-{number}",
        "topic": TOPIC,
        "key": f"order-{number}",
        "data": b'{"cents":4200}',
        "received_at": START,
    }
    return Event(**values | overrides)


def payload_of(event: Event) -> bytes:
    """Return a payload that tells events apart."""
    return f'{{"event":"{event.id}"}}'.encode()


def guard_of(event: Event, digest: bytes = b"same", *, expires_at: datetime | None = None) -> IdempotencyKey:
    """Return what remembers the id of an event."""
    return IdempotencyKey(key=ID_PREFIX + event.id, request_hash=digest, expires_at=expires_at or at(1000))


async def make_new_event(
    store: Store, *jobs: Job, event: Event | None = None, guard: IdempotencyKey | None = None, **run: Any
) -> NewEvent:
    """Return an event that starts these jobs, which listen as the store says now."""
    event = event or make_event()
    [listeners] = await store.list_listeners([(event.tenant, event.topic)])
    starts = tuple(
        EventStart(
            job.id,
            (
                make_new_run(
                    job,
                    kind=RunKind.EVENT,
                    due_at=event.received_at,
                    target_key=event.id,
                    payload=payload_of(event),
                    **run,
                ),
            ),
            job.spec.overlap,
        )
        for job in jobs
    )
    return NewEvent(event, guard, listeners, starts)


async def add(store: Store, *new: NewEvent, seconds: float = 0) -> list[EventResult]:
    """Add events."""
    return await store.add_events(new, now=at(seconds))


class ListenersFollowDefinitions:
    """Jobs with a trigger on a topic are its listeners, by their newest version."""

    async def test_jobs_with_the_topic_are_listed(self, store: Store) -> None:
        first = await add_job(store, make_spec(name="a", trigger=PAID))
        second = await add_job(store, make_spec(name="b", trigger=PAID))
        await add_job(store, make_spec(name="c", trigger=OnEvent("orders.sent")))
        await add_job(store, make_spec(name="d", trigger=PAID), tenant="other")
        await add_job(store, make_spec(name="e"))
        found = await store.list_listeners(
            [("default", TOPIC), ("default", "none"), ("other", "orders.sent")]
        )
        assert found == [
            tuple(Listener(job_id, 1, False) for job_id in sorted([first.id, second.id])),
            (),
            (),
        ]

    async def test_edits_pauses_and_deletes_are_seen(self, store: Store) -> None:
        job = await add_job(store, make_spec(trigger=PAID))
        await store.edit_jobs([make_edit(job, make_spec(trigger=OnEvent("other")))], now=START)
        assert await store.list_listeners([("default", TOPIC), ("default", "other")]) == [
            (),
            (Listener(job.id, 2, False),),
        ]
        job = await read_job(store, job.id)
        await store.pause_jobs([make_pause(job)], now=START)
        assert await store.list_listeners([("default", "other")]) == [(Listener(job.id, 2, True),)]
        job = await read_job(store, job.id)
        await store.edit_jobs([make_edit(job, make_spec(trigger=Interval(DAY, START)))], now=START)
        assert await store.list_listeners([("default", "other")]) == [()]

    async def test_deleted_jobs_do_not_listen(self, store: Store) -> None:
        job = await add_job(store, make_spec(trigger=PAID))
        await store.delete_jobs([make_change(job)], now=START)
        assert await store.list_listeners([("default", TOPIC)]) == [()]


class EventsStartRuns:
    """What an event starts is there with the event."""

    async def test_event_and_runs_are_there(self, store: Store) -> None:
        jobs = [await add_job(store, make_spec(name=name, trigger=PAID)) for name in ("a", "b")]
        new = await make_new_event(store, *jobs)
        [result] = await add(store, new)
        assert result.status is EventStatus.ADDED
        runs = await store.get_runs(result.run_ids)
        assert [(run.job_id, run.kind, run.payload) for run in runs if run is not None] == [
            (job.id, RunKind.EVENT, payload_of(make_event())) for job in jobs
        ]
        assert [kept.event for kept in await store.list_events("default")] == [make_event()]

    async def test_event_without_listeners_is_kept(self, store: Store) -> None:
        event = make_event(key=None, data=None)
        [result] = await add(store, NewEvent(event, None))
        assert result == EventResult(EventStatus.ADDED)
        assert [kept.event for kept in await store.list_events("default")] == [event]

    async def test_skipped_run_leaves_a_record(self, store: Store) -> None:
        job = await add_job(store, make_spec(trigger=PAID))
        [result] = await add(store, await make_new_event(store, job, skip_reason="paused"))
        assert result.run_ids == ()
        [run] = await store.list_runs("default")
        assert (run.state, run.reason, run.kind) == (RunState.SKIPPED, "paused", RunKind.EVENT)

    async def test_overlap_holds_as_for_fires(self, store: Store) -> None:
        job = await add_job(store, make_spec(trigger=PAID, overlap=Overlap.SKIP))
        events = [await make_new_event(store, job, event=make_event(number)) for number in (1, 2)]
        [first, second] = await add(store, *events)
        assert (len(first.run_ids), second.run_ids) == (1, ())
        states = {run.payload: (run.state, run.reason) for run in await store.list_runs("default")}
        assert states == {
            payload_of(make_event(1)): (RunState.PENDING, None),
            payload_of(make_event(2)): (RunState.SKIPPED, OVERLAP),
        }

    async def test_newest_event_cancels_what_is_live(self, store: Store) -> None:
        job = await add_job(store, make_spec(trigger=PAID, overlap=Overlap.CANCEL_RUNNING))
        [first] = await add(store, await make_new_event(store, job, event=make_event(1)))
        [second] = await add(store, await make_new_event(store, job, event=make_event(2)))
        assert second.cancelled == first.run_ids
        states = {run.payload: run.state for run in await store.list_runs("default")}
        assert states == {
            payload_of(make_event(1)): RunState.CANCELLED,
            payload_of(make_event(2)): RunState.PENDING,
        }

    async def test_one_that_is_skipped_cancels_nothing(self, store: Store) -> None:
        job = await add_job(store, make_spec(trigger=PAID, overlap=Overlap.CANCEL_RUNNING))
        await add(store, await make_new_event(store, job, event=make_event(1)))
        [second] = await add(
            store, await make_new_event(store, job, event=make_event(2), skip_reason="paused")
        )
        assert second.cancelled == ()


class EventsAreKeptOnce:
    """An id stands for one event, for as long as it is remembered."""

    async def test_repeated_id_changes_nothing(self, store: Store) -> None:
        job = await add_job(store, make_spec(trigger=PAID))
        new = await make_new_event(store, job, guard=guard_of(make_event()))
        [first] = await add(store, new)
        assert await add(store, new) == [EventResult(EventStatus.KNOWN)]
        assert [run.id for run in await store.list_runs("default")] == list(first.run_ids)
        assert len(await store.list_events("default")) == 1

    async def test_repeated_within_a_call(self, store: Store) -> None:
        new = await make_new_event(store, guard=guard_of(make_event()))
        statuses = [result.status for result in await add(store, new, new)]
        assert statuses == [EventStatus.ADDED, EventStatus.KNOWN]

    async def test_other_request_is_told(self, store: Store) -> None:
        await add(store, await make_new_event(store, guard=guard_of(make_event())))
        other = await make_new_event(store, guard=guard_of(make_event(), b"other"))
        assert await add(store, other) == [EventResult(EventStatus.MISMATCH)]

    async def test_id_is_free_when_its_time_is_over(self, store: Store) -> None:
        event = make_event()
        await add(store, await make_new_event(store, guard=guard_of(event, expires_at=at(10))))
        again = await make_new_event(store, guard=guard_of(event, b"other", expires_at=at(100)))
        assert [result.status for result in await add(store, again, seconds=10)] == [EventStatus.ADDED]

    async def test_ids_are_of_their_tenant(self, store: Store) -> None:
        await add(store, await make_new_event(store, guard=guard_of(make_event())))
        theirs = make_event(tenant="other")
        [result] = await add(store, await make_new_event(store, event=theirs, guard=guard_of(theirs)))
        assert result.status is EventStatus.ADDED

    async def test_two_servers_start_a_job_once(self, store: Store) -> None:
        job = await add_job(store, make_spec(trigger=PAID))
        new = await make_new_event(store, job, guard=guard_of(make_event()))
        results = await asyncio.gather(*(add(store, new) for _ in range(5)))
        statuses = sorted(result.status for [result] in results)
        assert statuses == [EventStatus.ADDED, *[EventStatus.KNOWN] * 4]
        assert len(await store.list_runs("default")) == 1


class EventsAreDecidedByWhatIs:
    """If a topic's listeners are not as they were read, nothing is written."""

    async def _moved(self, store: Store, new: NewEvent) -> None:
        guarded = NewEvent(new.event, guard_of(new.event), new.listeners, new.starts)
        assert await add(store, NewEvent(make_event(2, topic="other"), None), guarded) == [
            EventResult(EventStatus.MOVED),
            EventResult(EventStatus.MOVED),
        ]
        assert await store.list_events("default") == []
        assert await store.list_runs("default") == []
        anew = await make_new_event(store, event=new.event, guard=guard_of(new.event))
        assert [result.status for result in await add(store, anew)] == [EventStatus.ADDED]

    async def test_new_listener(self, store: Store) -> None:
        new = await make_new_event(store)
        await add_job(store, make_spec(trigger=PAID))
        await self._moved(store, new)

    async def test_edited_listener(self, store: Store) -> None:
        job = await add_job(store, make_spec(trigger=PAID))
        new = await make_new_event(store, job)
        await store.edit_jobs([make_edit(job, make_spec(trigger=PAID, queue="slow"))], now=START)
        await self._moved(store, new)

    async def test_paused_listener(self, store: Store) -> None:
        job = await add_job(store, make_spec(trigger=PAID))
        new = await make_new_event(store, job)
        await store.pause_jobs([make_pause(job)], now=START)
        await self._moved(store, new)

    async def test_deleted_listener(self, store: Store) -> None:
        job = await add_job(store, make_spec(trigger=PAID))
        new = await make_new_event(store, job)
        await store.delete_jobs([make_change(job)], now=START)
        await self._moved(store, new)

    async def test_known_event_does_not_look(self, store: Store) -> None:
        new = await make_new_event(store, guard=guard_of(make_event()))
        await add(store, new)
        await add_job(store, make_spec(trigger=PAID))
        assert await add(store, new) == [EventResult(EventStatus.KNOWN)]


class EventsAreListed:
    """Events are shown to their tenant, the newest first, for as long as they are kept."""

    async def test_pages_and_topics(self, store: Store) -> None:
        events = [make_event(number, topic="odd" if number % 2 else TOPIC) for number in range(1, 6)]
        await add(store, *[NewEvent(event, None) for event in events])
        await add(store, NewEvent(make_event(9, tenant="other"), None))
        page = await store.list_events("default", limit=2)
        assert [kept.event.id for kept in page] == ["pay-5", "pay-4"]
        rest = await store.list_events("default", before=page[-1].number, limit=10)
        assert [kept.event.id for kept in rest] == ["pay-3", "pay-2", "pay-1"]
        odd = await store.list_events("default", topic="odd", before=page[0].number, limit=10)
        assert [kept.event.id for kept in odd] == ["pay-3", "pay-1"]
        assert await store.list_events("nobody") == []

    async def test_old_ones_are_removed(self, store: Store) -> None:
        await store.prepare_events(now=START)
        await add(store, NewEvent(make_event(1), None))
        later = START + 3 * DAY
        await store.add_events([NewEvent(make_event(2, received_at=later), None)], now=later)
        for _ in range(3):
            await store.prune_events(before=START + DAY, limit=10)
        assert [kept.event.id for kept in await store.list_events("default")] == ["pay-2"]
