"""Goes through the dead letters of redrives, and has them run again, each redrive at its own rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

import structlog

from mainspring.core.dead_letters import LAST_RUN
from mainspring.core.ids import RedriveId, RunId, format_redrive_id
from mainspring.core.rates import Bucket
from mainspring.core.redrives import Redrive, permits_of
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.errors import TookTooLong, TooMany
from mainspring.ports.clock import Waiter
from mainspring.ports.store import Store
from mainspring.ports.store.redrives import RedriveStep

_log = structlog.get_logger(__name__)
PERIOD = 0.2
_IDLE = 1.0
_SOON = 0.05
"""Seconds to the next look of a redrive that has found nothing among what it has looked at."""
REDRIVES_PER_TICK = 50
RUNS_PER_TICK = 250
"""So many may be as large as a run can be, and still fit into memory. With `PERIOD` it allows a thousand a second."""
_REST = timedelta(seconds=1)
LOOK = 2000
"""Dead letters that a redrive looks at together."""


class RunsAgain(Protocol):
    """Runs dead letters again."""

    async def redrive_many(self, tenant: str, run_ids: Sequence[RunId], *, is_newest: bool) -> None:
        """Make a run for each dead letter that is open. Raises `TooMany` if there is no room for all of them."""
        ...


@dataclass(slots=True)
class _Known:
    """What this node knows of a redrive.

    Attributes:
        permits: those of its rate.
        most: how many runs it makes at once; None as long as nothing has refused them.
        rests_until: when it is tried again after it was held up; None if its last step was taken.
        is_searching: its last step has found none among the dead letters that it has looked at.
    """

    permits: Bucket
    most: int | None = None
    rests_until: datetime | None = None
    is_searching: bool = False


class Redriver:
    """Takes a step in each running redrive, if this node owns shard 0.

    A dead letter is settled in the transaction that inserts the run that repeats it, so nodes that take the same step
    make each run once. What is open is all that a step finds: after a crash, the next one goes on where the runs end.
    """

    name = "redrives"

    def __init__(self, store: Store, runs: RunsAgain, *, ownership: Ownership, waiter: Waiter) -> None:
        self._store = store
        self._runs = runs
        self._ownership = ownership
        self._known: dict[RedriveId, _Known] = {}
        self.waiter = waiter

    async def tick(self, now: datetime) -> float:
        """Take one step in every running redrive."""
        if 0 not in self._ownership.epochs:
            self._known.clear()
            return _IDLE
        epochs = {0: self._ownership.epochs[0]}
        redrives = await self._store.list_running_redrives(limit=REDRIVES_PER_TICK)
        running = {redrive.id for redrive in redrives}
        self._known = {key: known for key, known in self._known.items() if key in running}
        if not redrives:
            return _IDLE
        share = max(RUNS_PER_TICK // len(redrives), 1)
        steps = [step for redrive in redrives if (step := await self._step(redrive, share, now)) is not None]
        if not await self._store.advance_redrives(steps, epochs=epochs, now=now):
            self._ownership.fence([0], used=epochs)
        return _SOON if any(known.is_searching for known in self._known.values()) else PERIOD

    async def _step(self, redrive: Redrive, share: int, now: datetime) -> RedriveStep | None:
        """Have the next dead letters run again. None: there is no permit, or the store is too slow, or no room."""
        known = self._known.get(redrive.id)
        permits = permits_of(redrive, None if known is None else known.permits, now)
        rests_until = None if known is None else known.rests_until
        if rests_until is not None and now < rests_until:
            return None
        known = self._known[redrive.id] = _Known(permits, None if known is None else known.most, rests_until)
        room = min(permits.permits, share, known.most or share)
        if room < 1:
            return None
        first, last = redrive.wanted.reach
        try:
            window = await self._store.find_dead_to_redrive(
                redrive.tenant, redrive.wanted, after=RunId(max(redrive.cursor, first - 1)), limit=LOOK
            )
        except TookTooLong as error:
            _hold(redrive, known, error, now)
            return None
        taken = window.run_ids[:room]
        if taken:
            try:
                await self._runs.redrive_many(redrive.tenant, taken, is_newest=redrive.is_newest)
            except TooMany as error:
                known.most = max(len(taken) // 2, 1)
                _hold(redrive, known, error, now)
                return None
            known.permits = permits.take(len(taken))
            known.most = None if known.most is None else 2 * known.most
        known.rests_until = None
        if len(taken) < len(window.run_ids):
            return RedriveStep(redrive=redrive, cursor_to=taken[-1], is_done=False)
        if window.last is None or window.last >= last:
            return RedriveStep(redrive=redrive, cursor_to=LAST_RUN, is_done=True)
        known.is_searching = not taken
        return RedriveStep(redrive=redrive, cursor_to=window.last, is_done=False)


def _hold(redrive: Redrive, known: _Known, error: TooMany | TookTooLong, now: datetime) -> None:
    """Let a redrive rest for a second. That is logged once, until it has gone on."""
    is_new, known.rests_until = known.rests_until is None, now + _REST
    if is_new:
        _log.warning("redrive_waits", redrive=format_redrive_id(redrive.id), reason=str(error))
