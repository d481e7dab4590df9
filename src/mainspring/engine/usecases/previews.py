"""Says which fires of a preview a blackout will skip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from mainspring.core.calendars.preview import Preview
from mainspring.core.ids import JobId
from mainspring.core.model import JobSpec, LaneKey
from mainspring.core.planning import jittered
from mainspring.engine.common.restrictions import RestrictionReader
from mainspring.engine.scheduling.run_factory import lane_of


class SkippedFires:
    """Marks the fires that blackouts skip, as far as these are known now."""

    def __init__(self, reader: RestrictionReader) -> None:
        self._reader = reader

    async def mark(
        self, fires: Sequence[Preview], spec: JobSpec, tenant: str, job_id: JobId
    ) -> list[Preview]:
        """Return a job's fires with the blackouts that will skip them."""
        return await self._mark(
            fires, lane_of(spec, tenant), lambda fire_at: jittered(job_id, fire_at, spec.jitter)
        )

    async def mark_trigger(self, fires: Sequence[Preview], spec: JobSpec, tenant: str) -> list[Preview]:
        """Do the same for a trigger. It is in no queue yet: blackouts of the tenant and of everything concern it."""
        return await self._mark(fires, LaneKey("", "", tenant, spec.priority), lambda fire_at: fire_at)

    async def _mark(
        self, fires: Sequence[Preview], lane: LaneKey, due_at: Callable[[datetime], datetime]
    ) -> list[Preview]:
        restrictions = await self._reader.read()
        if restrictions is None or not restrictions.blackouts:
            return list(fires)
        by = restrictions.pauses.skipped_by
        return [
            one if one.excluded_by is not None else replace(one, skipped_by=by(lane, due_at(one.fire_at)))
            for one in fires
        ]
