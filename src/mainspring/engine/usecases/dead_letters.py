"""Use cases on dead letters: list, group, discard. `redrives` has them run again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from mainspring.core.actors import Actor
from mainspring.core.audit import Subject, entries
from mainspring.core.dead_letters import DeadFilter, DeadGroup, DeadRun, SettledLetter
from mainspring.core.ids import JobId, RunId
from mainspring.core.values import value
from mainspring.engine.usecases import auditing
from mainspring.errors import InvalidInput, TookTooLong
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store

BATCH = 1000
"""Dead letters that are discarded in one transaction."""
BUDGET = timedelta(seconds=5)
"""How long a call discards before it answers what it has done."""
SHOWN = 20
_TICK = timedelta(microseconds=1)
"""So what failed in this very instant counts, and the end of a time does not."""


@value(kw_only=True)
class Discarded:
    """What a call has discarded, or would discard.

    Attributes:
        first: some of them.
        is_complete: none is left that was asked for.
        until: only what failed before it was meant.
    """

    count: int
    first: tuple[RunId, ...]
    is_complete: bool
    until: datetime


class DeadLetters:
    """Use cases on dead letters. Every method acts for one tenant."""

    def __init__(self, store: Store, *, clock: Clock, budget: timedelta = BUDGET) -> None:
        self._store = store
        self._clock = clock
        self._budget = budget.total_seconds()

    async def list_page(
        self, tenant: str, wanted: DeadFilter, *, before: RunId | None = None, limit: int = 100
    ) -> list[DeadRun]:
        """Return a page of dead letters, the newest runs first.

        Raises:
            InvalidInput: the store is too slow for this list. The error says what to add.
        """
        try:
            return await self._store.list_dead(tenant, wanted, before=before, limit=limit)
        except TookTooLong as error:
            raise too_slow(wanted) from error

    async def groups(self, tenant: str, wanted: DeadFilter, *, limit: int = 100) -> list[DeadGroup]:
        """Return which open dead letters failed alike, the largest groups first.

        Raises:
            InvalidInput: as for a list.
        """
        try:
            return await self._store.group_dead(tenant, wanted, limit=limit)
        except TookTooLong as error:
            raise too_slow(wanted) from error

    async def settled(self, run_id: RunId) -> SettledLetter | None:
        """Return what became of a dead letter; None for one that is open, and for another run."""
        [settled] = await self._store.read_settled([run_id])
        return settled

    async def name_jobs(self, job_ids: Sequence[JobId]) -> dict[JobId, str]:
        """Return the names of jobs, of deleted ones too."""
        return await self._store.read_job_names(list(dict.fromkeys(job_ids)))

    async def discard(
        self,
        tenant: str,
        wanted: DeadFilter,
        *,
        reason: str,
        is_dry_run: bool = False,
        by: Actor | None = None,
    ) -> Discarded:
        """Settle open dead letters as discarded: they are not to run again. Those that fail meanwhile stay open.

        Raises:
            InvalidInput: nothing says which ones, or the store is too slow to find them.
        """
        now = self._clock.now()
        wanted, until = bound(wanted, now)
        if is_dry_run:
            count, some = await self.count(tenant, wanted)
            return Discarded(count=count, first=some, is_complete=True, until=until)
        begun = self._clock.monotonic()
        count = 0
        first: tuple[RunId, ...] = ()
        after = {"reason": reason, "filter": auditing.show_filter(wanted)}
        audit = entries(by, Subject(kind="run", id="", tenant=tenant), at=now, after=after)
        while True:
            done = await self._store.discard_dead(
                tenant, wanted, reason=reason, now=now, limit=BATCH, audit=audit
            )
            count, first = count + len(done), first or tuple(done[:SHOWN])
            if len(done) < BATCH:
                return Discarded(count=count, first=first, is_complete=True, until=until)
            if self._clock.monotonic() - begun >= self._budget:
                return Discarded(count=count, first=first, is_complete=False, until=until)

    async def count(self, tenant: str, wanted: DeadFilter) -> tuple[int, tuple[RunId, ...]]:
        """Return how many open dead letters are meant, and some of them, the newest first.

        Raises:
            InvalidInput: the store is too slow to count them.
        """
        try:
            count = await self._store.count_dead(tenant, wanted)
            page = await self._store.list_dead(tenant, wanted, limit=SHOWN)
        except TookTooLong as error:
            raise too_slow(wanted, prefix="filter.") from error
        return count, tuple(letter.run.id for letter in page)


def bound(wanted: DeadFilter, now: datetime) -> tuple[DeadFilter, datetime]:
    """Return which open dead letters are meant of those that there are now, and before when they failed.

    Raises:
        InvalidInput: nothing says which ones.
    """
    if wanted.is_everything:
        raise InvalidInput("filter", 'is empty; say which dead letters; {"until": "0s"} means all of now')
    until = now + _TICK if wanted.until is None else min(now + _TICK, wanted.until)
    return replace(wanted, until=until, is_settled=False), until


def too_slow(wanted: DeadFilter, *, prefix: str = "") -> InvalidInput:
    """Return the error about a filter that leaves the store too much to look through."""
    field = "job" if wanted.job_id is None else "since"
    return InvalidInput(
        f"{prefix}{field}", "this takes too long without it; add it, or another of job, since and until"
    )
