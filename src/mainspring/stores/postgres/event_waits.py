"""Waits of flows for events: opened, met and dropped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from zlib import crc32

from mainspring.core.ids import RunId
from mainspring.core.workflows.answers import pack_event
from mainspring.ports.store.events import NewEvent
from mainspring.ports.store.flows import NewWait
from mainspring.stores.postgres.connection import Transaction

_CLASS = 0x6D77
"""Of the advisory locks that are buckets of waits."""
_BUCKETS = 1024


async def lock_waits(transaction: Transaction, waits: Iterable[NewWait]) -> None:
    """Keep events away whose topics these waits are for. Call it before any other lock of the transaction."""
    buckets = sorted({_bucket(one.tenant, one.topic) for one in waits})
    if buckets:
        await transaction.fetch("lock_buckets", buckets=buckets, **{"class": _CLASS})


async def open_waits(transaction: Transaction, waits: Sequence[tuple[RunId, NewWait]]) -> None:
    """Open waits, after `lock_waits`."""
    if waits:
        await transaction.execute(
            "open_waits",
            flow_ids=[flow_id for flow_id, _ in waits],
            steps=[one.step for _, one in waits],
            tenants=[one.tenant for _, one in waits],
            topics=[one.topic for _, one in waits],
            keys=[one.key or "" for _, one in waits],
            sinces=[one.since for _, one in waits],
        )


async def meet_waits(transaction: Transaction, events: Sequence[NewEvent]) -> dict[int, int]:
    """End the waits that these events meet. Return how many, by the place of the event."""
    new = [one.event for one in events]
    buckets = sorted({_bucket(event.tenant, event.topic) for event in new})
    await transaction.fetch("share_buckets", buckets=buckets, **{"class": _CLASS})
    # In one order, so that two callers seldom deadlock.
    places = sorted(range(len(new)), key=lambda place: (new[place].tenant, new[place].topic, place))
    rows = await transaction.fetch(
        "meet_waits",
        tenants=[new[place].tenant for place in places],
        topics=[new[place].topic for place in places],
        keys=[new[place].key or "" for place in places],
        values=[pack_event(new[place].topic, new[place].data) for place in places],
        places=places,
    )
    return {row["place"]: row["released"] for row in rows}


def _bucket(tenant: str, topic: str) -> int:
    return crc32(f"{tenant}\0{topic}".encode()) % _BUCKETS
