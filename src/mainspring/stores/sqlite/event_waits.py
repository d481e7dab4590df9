"""Waits of flows for events: opened and met."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from mainspring.core.events.model import Event
from mainspring.core.ids import RunId
from mainspring.core.workflows.answers import pack_event
from mainspring.ports.store.flows import NewWait
from mainspring.stores.sqlite.rows import to_micros
from mainspring.stores.sqlite.statements import execute, fetch_row, fetch_rows


def open_waits(db: apsw.Connection, flow_id: RunId, waits: Sequence[NewWait]) -> None:
    """Open waits. One for which an event is kept becomes mail at once."""
    for one in waits:
        topic = {"tenant": one.tenant, "topic": one.topic, "key": one.key or ""}
        kept = fetch_row(db, "find_kept_event", {**topic, "since": to_micros(one.since)})
        place = {"flow_id": flow_id, "step": one.step}
        if kept is None:
            execute(db, "open_wait", {**topic, **place})
        else:
            execute(db, "add_event_mail", {**place, "value": pack_event(one.topic, kept.data)})


def meet_waits(db: apsw.Connection, event: Event) -> int:
    """End the waits that an event meets, and return how many."""
    topic = {"tenant": event.tenant, "topic": event.topic, "key": event.key or ""}
    met = fetch_rows(db, "meet_waits", topic)
    for row in met:
        value = pack_event(event.topic, event.data)
        execute(db, "add_event_mail", {"flow_id": row.flow_id, "step": row.step, "value": value})
    return len(met)
