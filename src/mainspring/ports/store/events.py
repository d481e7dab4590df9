"""Events: kept, and the runs that they start, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from mainspring.core.events.model import Event
from mainspring.core.ids import JobId, RunId
from mainspring.core.model import JobSpec, Overlap
from mainspring.core.triggers import OnEvent
from mainspring.core.values import value
from mainspring.ports.store.runs import IdempotencyKey, NewRun
from mainspring.ports.store.schedule import FireResult


@value()
class Listener:
    """A job that events of a topic may start, as it was read.

    Attributes:
        version: its newest.
    """

    job_id: JobId
    version: int
    is_paused: bool


@value()
class EventStart:
    """What an event starts of one job.

    Attributes:
        runs: one run, which may have a `skip_reason`.
        overlap: what becomes of it while others of the job are live.
    """

    job_id: JobId
    runs: tuple[NewRun, ...]
    overlap: Overlap


@value()
class NewEvent:
    """An event to keep.

    Attributes:
        guard: remembers its id; None if nobody can send it twice.
        listeners: those of its topic, as they were read when its starts were decided: once for all events of a call.
        starts: what it starts, at most one of each job.
    """

    event: Event
    guard: IdempotencyKey | None
    listeners: tuple[Listener, ...] = ()
    starts: tuple[EventStart, ...] = ()


class EventStatus(StrEnum):
    """What became of an event.

    - `ADDED`: it is kept, and what it starts is made.
    - `KNOWN`: one of its id was added before.
    - `MISMATCH`: so it was, but with another topic, key or data.
    - `MOVED`: listeners are not as they were read. Nothing of the call was written.
    """

    ADDED = "added"
    KNOWN = "known"
    MISMATCH = "mismatch"
    MOVED = "moved"


@value()
class EventResult:
    """What became of an event.

    Attributes:
        made: what became of each of its starts.
        released: how many waits of workflows it has ended.
    """

    status: EventStatus
    made: tuple[FireResult, ...] = ()
    released: int = 0

    @property
    def run_ids(self) -> tuple[RunId, ...]:
        """The runs that it started, without those that were skipped."""
        return tuple(run_id for one in self.made for run_id in one.run_ids)

    @property
    def cancelled(self) -> tuple[RunId, ...]:
        """The runs that had to make way."""
        return tuple(run_id for one in self.made for run_id in one.cancelled)


@value()
class KeptEvent:
    """An event with its number, which grows in the order in which events are kept."""

    number: int
    event: Event


class EventStore(Protocol):
    """Events, and the jobs that listen to them."""

    async def list_listeners(self, topics: Sequence[tuple[str, str]]) -> list[tuple[Listener, ...]]:
        """Return the jobs that listen to topics, each of a tenant, in the order of the jobs' ids."""
        ...

    async def add_events(self, events: Sequence[NewEvent], *, now: datetime) -> list[EventResult]:
        """Keep events and make the runs that they start, all of the call in one transaction.

        Each event is judged after those before it. Runs are judged as those of fires are, under the clocks of their
        jobs (`core.overlap`). A call starts at most one run of a job that cancels what is live.

        A wait of a flow for such a topic and key (`NewWait`) ends with the first of them: the flow gets mail.
        """
        ...

    async def list_events(
        self, tenant: str, *, topic: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[KeptEvent]:
        """Return a page of a tenant's events, the newest first.

        Args:
            before: only events with a lower number.
        """
        ...

    async def prepare_events(self, *, now: datetime) -> None:
        """Prepare room for events (partitions on PostgreSQL)."""
        ...

    async def prune_events(self, *, before: datetime, limit: int) -> int:
        """Remove events that were received before this instant. Return how many; if `limit` or more, call again."""
        ...


class ListenersMoved(Exception):
    """Undoes a transaction whose listeners are not as they were read. It does not leave the store."""


def topic_of(spec: JobSpec) -> str | None:
    """Return the topic that a job listens to; None if it listens to none."""
    return spec.trigger.topic if isinstance(spec.trigger, OnEvent) else None


def judge_known(kept: bytes, guard: IdempotencyKey) -> EventResult:
    """Say what becomes of an event whose id is known.

    Args:
        kept: the request hash that is kept with the id.
    """
    return EventResult(EventStatus.KNOWN if kept in guard.hashes else EventStatus.MISMATCH)


def heard_of(events: Iterable[NewEvent]) -> dict[tuple[str, str], tuple[Listener, ...]]:
    """Return the listeners that were read for each topic of these events."""
    return {(new.event.tenant, new.event.topic): new.listeners for new in events}
