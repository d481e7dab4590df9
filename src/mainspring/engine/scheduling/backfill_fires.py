"""What both a dry run and a backfill itself read: the triggers of versions, and the fires that are done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from mainspring.core.backfill import SkipDone, done_states, reach_back
from mainspring.core.ids import JobId, RunId
from mainspring.core.model import JobSpec
from mainspring.core.triggers import UnknownTrigger
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.definitions import Definitions, has_hidden_keys
from mainspring.engine.common.run_ids import SLACK, seek_creation
from mainspring.ports.store import Store

_PAGE = 10_000
"""Runs of a job that are looked at together."""


class BackfillFires:
    """Reads what decides which fires a backfill makes."""

    def __init__(self, store: Store, definitions: Definitions, calendars: CalendarReader) -> None:
        self._store = store
        self._definitions = definitions
        self._calendars = calendars

    async def specs(self, keys: Iterable[tuple[JobId, int, str]]) -> dict[tuple[JobId, int], JobSpec]:
        """Return definitions by job and version, with the triggers that their calendars make.

        A version whose trigger's type is unknown here is left out, and so is one whose calendars cannot be read, or
        whose runs have keys of a payload that cannot be decrypted here.

        Args:
            keys: job, version and tenant.
        """
        wanted = list(dict.fromkeys(keys))
        loaded = await self._definitions.load([(job_id, version) for job_id, version, _ in wanted])
        specs = {
            key: spec if spec.trigger is None else replace(spec, trigger=reach_back(spec.trigger))
            for key, spec in loaded.items()
            if not isinstance(spec.trigger, UnknownTrigger) and not has_hidden_keys(spec)
        }
        return await self._calendars.apply_to_clocks(
            specs, [(job_id, version, None, tenant) for job_id, version, tenant in wanted]
        )

    async def done(
        self, job_id: JobId, from_at: datetime, to_at: datetime, skip_done: SkipDone
    ) -> set[datetime]:
        """Return the fires from one instant through another that are done.

        No run is created before its fire time, so older runs are passed over.
        """
        states = done_states(skip_done)
        bounds = await self._store.read_run_bounds() if states else None
        if bounds is None:
            return set()
        low, _ = await seek_creation(self._store, from_at - SLACK, bounds[0], bounds[1] + 1)
        after: RunId | None = RunId(low - 1)
        found: set[datetime] = set()
        while after is not None:
            page = await self._store.read_fires_of_runs(
                job_id, from_at=from_at, to_at=to_at, states=states, after=after, limit=_PAGE
            )
            found |= page.fires
            after = page.last
        return found
