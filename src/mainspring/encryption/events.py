"""Events: what is said of them, and the payloads of the runs that they start, are encrypted as they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from mainspring.core.ciphertexts import UNREADABLE
from mainspring.core.events.model import Event
from mainspring.core.fields import encode_payload
from mainspring.encryption.run_logs import EncryptedRunLogs
from mainspring.errors import CannotDecrypt
from mainspring.ports.store.events import EventResult, KeptEvent, NewEvent


class EncryptedEvents(EncryptedRunLogs):
    """Data of events. Topics, keys and ids stay plain, because events are found by them."""

    async def add_events(self, events: Sequence[NewEvent], *, now: datetime) -> list[EventResult]:
        """See `EventStore`."""
        return await self._store.add_events([self._encrypt_event(new) for new in events], now=now)

    def _encrypt_event(self, new: NewEvent) -> NewEvent:
        event, guard = new.event, new.guard
        if event.data is not None:
            event = replace(event, data=self._fields.encrypt_event(event.data, event.tenant, event.topic))
        if guard is not None:
            guard = self._fields.mark_request(guard, event.tenant)
        starts = tuple([replace(start, runs=tuple(self._encrypt_runs(start.runs))) for start in new.starts])
        return replace(new, event=event, guard=guard, starts=starts)

    async def list_events(
        self, tenant: str, *, topic: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[KeptEvent]:
        """See `EventStore`. The data of an event that cannot be decrypted says so."""
        found = await self._store.list_events(tenant, topic=topic, before=before, limit=limit)
        return [replace(kept, event=self._show_event(kept.event)) for kept in found]

    def _show_event(self, event: Event) -> Event:
        if event.data is None:
            return event
        try:
            data = self._fields.decrypt_event(event.data, event.tenant, event.topic)
        except CannotDecrypt as error:
            data = encode_payload(f"[{UNREADABLE}: {error}]")
        return replace(event, data=data)
