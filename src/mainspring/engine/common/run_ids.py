"""Finds where among the ids of runs an instant lies: ids are given in the order of creation, or nearly so."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.core.ids import SHARDS, RunId
from mainspring.ports.store import Store

SLACK = timedelta(minutes=1)
"""How far the order of ids may differ from that of creation: several servers hand them out, each by its clock."""
_PROBES = 7
_GRAIN = 1024 * SHARDS
"""An instant is sought among the ids to this precision; the rows themselves then tell exactly."""


async def seek_creation(store: Store, at: datetime, low: int, high: int) -> tuple[int, int]:
    """Return two ids not far apart: below the first all is older, from the second on nothing is."""
    while high - low > _GRAIN:
        probes = [RunId(low + (high - low) * place // (_PROBES + 1)) for place in range(1, _PROBES + 1)]
        created = await store.read_creations(probes)
        older = [probe for probe, known in zip(probes, created, strict=True) if known and known < at]
        if older:
            low = older[-1]
        if len(older) < _PROBES:
            high = probes[len(older)]
    return low, high
