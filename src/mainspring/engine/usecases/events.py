"""Takes events in, and starts the jobs that listen to them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from mainspring.core.events.model import ID_PREFIX, Event, envelope_of
from mainspring.core.fields import encode_payload
from mainspring.core.ids import JobId, format_event_id
from mainspring.core.limits import REASON_NO_KEY
from mainspring.core.model import JobSpec, Overlap
from mainspring.core.once_keys import canonical
from mainspring.core.pauses import NOTHING_PAUSED, REASON_PAUSED, LanePauses
from mainspring.core.triggers import OnEvent
from mainspring.core.values import value
from mainspring.engine.common.definitions import Definitions
from mainspring.engine.common.group_commit import GroupCommit
from mainspring.engine.common.queue_expiries import QueueExpiryFollower
from mainspring.engine.common.restrictions import RestrictionReader
from mainspring.engine.common.run_counts import RunCounts
from mainspring.engine.common.wakeups import Wakeups, lanes_of
from mainspring.engine.scheduling.run_factory import make_event_run
from mainspring.engine.usecases.intake import Intake
from mainspring.errors import Conflict, InvalidInput
from mainspring.ports.clock import Clock, IdSource
from mainspring.ports.store import Store
from mainspring.ports.store.events import (
    EventResult,
    EventStart,
    EventStatus,
    KeptEvent,
    Listener,
    NewEvent,
)
from mainspring.ports.store.restrictions import Restrictions
from mainspring.ports.store.runs import IdempotencyKey
from mainspring.ports.telemetry import Measure

KEEP = timedelta(days=7)
MOST_TOGETHER = 500
"""Events of different requests in one transaction, at most."""
_MOST_TRIES = 20
"""So often are listeners read anew if they keep changing."""
_MOST_JUDGED = 20_000
"""So often is a small event held against a listener for one transaction, about: what was read is to be new."""
_MOST_STARTS = 1000
"""Runs that one transaction starts, about. An event that starts more has one to itself."""
_TURN = 500
"""So often is it before the others of this process have their turn: some milliseconds."""
_SMALL = 256
"""Bytes of data that are judged as fast as none: a pattern may ask for each element of a list."""


@value(kw_only=True)
class EventRequest:
    """An event that is sent.

    Attributes:
        id: the sender's own; None has one made.
        data: JSON text in UTF-8; None if there is none.
    """

    topic: str
    key: str | None = None
    data: bytes | None = None
    id: str | None = None


@value()
class SentEvent:
    """What became of an event that was sent."""

    id: str
    result: EventResult


@dataclass(slots=True, eq=False)
class _Sent:
    """An event on its way.

    Attributes:
        result: what became of it; None until it is stored. A call that is repeated leaves it at that.
    """

    event: Event
    guard: IdempotencyKey | None
    result: EventResult | None = None


class EventInbox:
    """Use cases on events. Every method acts for one tenant.

    Args:
        keep: how long an id is remembered, at least as long as events are kept.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        ids: IdSource,
        wakeups: Wakeups,
        intake: Intake,
        definitions: Definitions,
        restrictions: RestrictionReader,
        expiries: QueueExpiryFollower,
        counts: RunCounts,
        keep: timedelta = KEEP,
    ) -> None:
        self._store, self._clock, self._ids, self._wakeups = store, clock, ids, wakeups
        self._intake, self._definitions, self._restrictions = intake, definitions, restrictions
        self._expiries, self._counts, self._keep = expiries, counts, keep
        self._known = Restrictions()
        self._adds: GroupCommit[_Sent, EventResult] = GroupCommit(self._add_all, most=MOST_TOGETHER)
        self._taken = dict.fromkeys(EventStatus, 0)

    def measures(self) -> Iterator[Measure]:
        """Yield how many events came, by what became of them, and how many shared a call."""
        for status, count in self._taken.items():
            if status is not EventStatus.MOVED:
                yield Measure("events_received_total", count, (status.value,))
        yield Measure("group_commit_items", self._adds.sizes.read(), ("events",))

    async def send(self, tenant: str, request: EventRequest) -> SentEvent:
        """Keep an event, and make the runs that it starts, before this returns.

        Raises:
            Conflict: its id was sent before, with another topic, key or data.
            TooMany: the tenant's rate is used up. Nothing is stored.
        """
        (sent,) = await self.send_many(tenant, [request])
        if sent.result.status is EventStatus.MISMATCH:
            raise Conflict("id", f"the event {sent.id!r} was sent before, with another topic, key or data")
        return sent

    async def send_many(self, tenant: str, requests: Sequence[EventRequest]) -> list[SentEvent]:
        """Do the same with several events, in order.

        It is one transaction, unless they get in each other's way or start very many runs.

        Raises:
            TooMany: as for `send`; it refuses all of them.
        """
        if not self._intake.is_open:
            await self._intake.admit_events(tenant, len(requests))
        now = self._clock.now()
        sent = [self._prepare(tenant, request, now) for request in requests]
        results = await self._adds(sent)
        for result in results:
            self._taken[result.status] += 1
        return [SentEvent(one.event.id, result) for one, result in zip(sent, results, strict=True)]

    def _prepare(self, tenant: str, request: EventRequest, now: datetime) -> _Sent:
        event_id = request.id or format_event_id(self._ids.new_uuid())
        event = Event(
            tenant=tenant,
            id=event_id,
            topic=request.topic,
            key=request.key,
            data=request.data,
            received_at=now,
        )
        if request.id is None:
            return _Sent(event, None)
        digest = sha256(f"{request.topic}\0{request.key}\0".encode())
        digest.update(b"\xff" if request.data is None else canonical(request.data))
        guard = IdempotencyKey(
            key=ID_PREFIX + event_id, request_hash=digest.digest(), expires_at=now + self._keep
        )
        return _Sent(event, guard)

    async def _add_all(self, sent: Sequence[_Sent]) -> list[EventResult]:
        """Add events, in as few transactions as it takes. Those that an earlier try has stored are not sent again."""
        while left := [one for one in sent if one.result is None]:
            for one, result in zip(left, await self._add_some(left), strict=False):
                one.result = result
        return [one.result for one in sent if one.result is not None]

    async def _add_some(self, sent: Sequence[_Sent]) -> list[EventResult]:
        """Add events from the first on, as many as go into one call. Decide anew if their listeners change."""
        for _ in range(_MOST_TRIES):
            new = await self._decide(sent)
            results = await self._store.add_events(new, now=self._clock.now())
            if results[0].status is not EventStatus.MOVED:
                self._tell(new, results)
                return results
        raise Conflict("topic", "the jobs that listen to it keep changing; send the event again")

    async def _decide(self, sent: Sequence[_Sent]) -> list[NewEvent]:
        """Decide what events start, of as many as go into one transaction, from the first on.

        One that starts a run of a job that cancels what is live is the only one of its transaction to do so.
        """
        topics = list(dict.fromkeys((one.event.tenant, one.event.topic) for one in sent))
        heard = dict(zip(topics, await self._store.list_listeners(topics), strict=True))
        keys = [(one.job_id, one.version) for listeners in heard.values() for one in listeners]
        specs = await self._definitions.load(keys) if keys else {}
        pauses = await self._pauses() if keys else NOTHING_PAUSED
        decided: list[NewEvent] = []
        cancelling = set[JobId]()
        judged = made = 0
        for one in sent:
            listeners = heard[one.event.tenant, one.event.topic]
            cost = len(listeners) * _weight(one.event)
            if decided and (judged + cost > _MOST_JUDGED or made >= _MOST_STARTS):
                break
            starts = await self._starts(one.event, listeners, specs, pauses)
            if judged // _TURN < (judged + cost) // _TURN:
                await _let_others()
            judged += cost
            in_way = {start.job_id for start in starts if start.overlap is Overlap.CANCEL_RUNNING}
            if in_way & cancelling:
                break
            cancelling |= in_way
            made += len(starts)
            decided.append(NewEvent(one.event, one.guard, listeners, starts))
        return decided

    async def _pauses(self) -> LanePauses:
        found = await self._restrictions.read(known=self._known.epoch)
        if found is not None:
            self._known = found
        return self._known.pauses

    async def _starts(
        self,
        event: Event,
        listeners: Sequence[Listener],
        specs: Mapping[tuple[JobId, int], JobSpec],
        pauses: LanePauses,
    ) -> tuple[EventStart, ...]:
        if not listeners:
            return ()
        envelope = envelope_of(event)
        payload = encode_payload({"event": envelope})
        starts = []
        share = max(1, _TURN // _weight(event))
        for place, one in enumerate(listeners, 1):
            if place % share == 0:
                await _let_others()
            spec = specs.get((one.job_id, one.version))
            trigger = None if spec is None else spec.trigger
            # A program of an earlier release may have given the job another trigger.
            if spec is None or not isinstance(trigger, OnEvent) or trigger.topic != event.topic:
                continue
            if trigger.takes(envelope):
                starts.append(self._start(event, one, spec, payload, pauses))
        return tuple(starts)

    def _start(
        self, event: Event, listener: Listener, spec: JobSpec, payload: bytes, pauses: LanePauses
    ) -> EventStart:
        def make(reason: str | None) -> EventStart:
            run = make_event_run(
                spec,
                job_id=listener.job_id,
                version=listener.version,
                event=event,
                payload=payload,
                expiries=self._expiries.by_queue,
                pauses=pauses,
                skip_reason=reason,
            )
            return EventStart(listener.job_id, (run,), spec.overlap)

        try:
            return make(REASON_PAUSED if listener.is_paused else None)
        except InvalidInput:  # the sender cannot know which keys the job's limits are counted by
            return make(REASON_NO_KEY)

    def _tell(self, events: Sequence[NewEvent], results: Sequence[EventResult]) -> None:
        added = [
            (new, result)
            for new, result in zip(events, results, strict=True)
            if new.starts and result.status is EventStatus.ADDED
        ]
        if any(result.released for result in results):
            self._wakeups.flows_told()
        if not added:
            return
        if any(result.run_ids for _, result in added):
            self._wakeups.runs_ready(
                lanes_of([run for new, _ in added for start in new.starts for run in start.runs])
            )
        if any(result.cancelled for _, result in added):
            self._wakeups.cancel_requested()
        for new, result in added:
            for start, made in zip(new.starts, result.made, strict=True):
                self._counts.note_planned(start.runs, len(made.run_ids))

    async def list_page(
        self, tenant: str, *, topic: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[KeptEvent]:
        """Return a page of events, the newest first.

        Args:
            before: only events with a lower number.
        """
        return await self._store.list_events(tenant, topic=topic, before=before, limit=limit)


def _weight(event: Event) -> int:
    """Return how many small events take as long to judge, at most."""
    return 1 + len(event.data or b"") // _SMALL


async def _let_others() -> None:
    await asyncio.sleep(0)  # noqa: TID251 -- it waits for no time, and lets others have their turn
