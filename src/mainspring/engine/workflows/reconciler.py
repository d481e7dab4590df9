"""Finds steps whose runs have ended without their flows being told. There should be none."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import structlog

from mainspring.core.ids import format_run_id
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.ports.clock import Waiter
from mainspring.ports.store import Store
from mainspring.ports.telemetry import Measure

_log = structlog.get_logger(__name__)
PERIOD = 60.0
_IDLE = 1.0
BATCH = 500
"""Flows that are told together."""
_MOST_NAMED = 20


class FlowReconciler:
    """Each minute, has the flows of this node's shards told what they were not told. There should be nothing."""

    name = "flow_reconciler"

    def __init__(self, store: Store, *, ownership: Ownership, wakeups: Wakeups, waiter: Waiter) -> None:
        self._store = store
        self._ownership = ownership
        self._wakeups = wakeups
        self.waiter = waiter
        self._untold = 0

    def measures(self) -> Iterator[Measure]:
        """Yield how many flows were not told of an end."""
        yield Measure("flows_untold_total", self._untold)

    async def tick(self, now: datetime) -> float:
        """Look once. Return 0 if there may be more."""
        shards = sorted(self._ownership.epochs)
        if not shards:
            return _IDLE
        found = await self._store.reconcile_flows(shards, now=now, limit=BATCH)
        if not found:
            return PERIOD
        self._untold += len(found)
        runs = [format_run_id(run_id) for run_id in found[:_MOST_NAMED]]
        meaning = "runs of their steps had ended without telling them; they are told now, and go on"
        _log.warning("flows_untold", flows=len(found), runs=runs, meaning=meaning)
        self._wakeups.flows_told()
        return 0.0 if len(found) == BATCH else PERIOD
