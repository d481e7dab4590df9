"""What a preview tells beyond the fires of a trigger: blackouts that will skip them, and when their runs start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from mainspring.core.calendars.preview import Preview, preview_fire
from mainspring.core.ends import FiredRun, follow_end
from mainspring.core.ids import JobId
from mainspring.core.model import Job, JobSpec, LaneKey
from mainspring.core.planning import jittered
from mainspring.core.triggers import Trigger
from mainspring.core.values import value
from mainspring.engine.common.last_fires import read_last_fires
from mainspring.engine.common.restrictions import RestrictionReader
from mainspring.engine.scheduling.run_factory import lane_of
from mainspring.ports.store import Store


@value(kw_only=True)
class JobPreview:
    """What a body would make, and when it would fire.

    Attributes:
        is_whole: the body says what to run, so it could be sent to make a job.
        job_id: the job of that name that there is; None if there is none.
    """

    spec: JobSpec
    is_whole: bool
    job_id: JobId | None
    fires: list[Preview]
    warnings: list[str]


@value(kw_only=True)
class NextFires:
    """The next fires of a job, as far as they are known.

    Attributes:
        waits_for: the run from whose end the next fire counts; None if it waits for none.
    """

    fires: list[Preview]
    waits_for: FiredRun | None = None


class AfterEndPreviews:
    """Tells what is known of the next fire of a job whose trigger counts from the end of the run before."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def next_fires(
        self, job: Job, trigger: Trigger, *, after: datetime | None, now: datetime
    ) -> NextFires:
        """Return the fire at which the job's clock stands, or will stand; else the run that it waits for."""
        fire_at = job.next_fire_at
        if fire_at is None and not job.is_paused and job.fires_left != 0:
            [last] = await read_last_fires(self._store, [job])
            if last.is_live:
                return NextFires(fires=[], waits_for=last.run)
            fire_at = follow_end(trigger, last, now=now)
        is_wanted = fire_at is not None and (after is None or fire_at > after)
        return NextFires(fires=preview_fire(trigger, fire_at if is_wanted else None))


class SkippedFires:
    """Marks the fires that blackouts skip, as far as these are known now, and tells when the others start."""

    def __init__(self, reader: RestrictionReader) -> None:
        self._reader = reader

    async def mark(
        self,
        fires: Sequence[Preview],
        spec: JobSpec,
        tenant: str,
        job_id: JobId | None,
        *,
        is_whole: bool = True,
    ) -> list[Preview]:
        """Return a job's fires with the blackouts that will skip them.

        Args:
            job_id: None if the job does not exist yet.
            is_whole: False for a trigger alone. It is in no queue: blackouts of the tenant and of everything concern
                it.
        """
        lane = lane_of(spec, tenant) if is_whole else LaneKey("", "", tenant, spec.priority)
        restrictions = await self._reader.read()
        blackouts = None if restrictions is None or not restrictions.blackouts else restrictions.pauses
        marked = []
        for one in fires:
            due_at = _due_at(spec, job_id, one.fire_at)
            by = None
            if blackouts is not None and one.excluded_by is None:
                by = blackouts.skipped_by(lane, due_at or one.fire_at)
            is_made = one.excluded_by is None and by is None
            marked.append(replace(one, skipped_by=by, due_at=due_at if is_made else None))
        return marked


def _due_at(spec: JobSpec, job_id: JobId | None, fire_at: datetime) -> datetime | None:
    if job_id is None:
        return None if spec.jitter else fire_at
    return jittered(job_id, fire_at, spec.jitter)
