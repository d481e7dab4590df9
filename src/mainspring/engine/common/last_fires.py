"""Looks up what has become of the newest fires of jobs whose next fire waits for the end of a run."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.core.ends import NEVER, LastFire, after_end_of
from mainspring.core.model import Job
from mainspring.core.triggers import Trigger
from mainspring.ports.store import Store


async def read_last_fires(store: Store, jobs: Sequence[Job]) -> list[LastFire]:
    """Return the newest fire of each job, and its run."""
    fires = [(job.id, job.fired_through) for job in jobs if job.fired_through is not None]
    runs = iter(await store.find_fires(fires))
    return [
        NEVER if job.fired_through is None else LastFire(fire_at=job.fired_through, run=next(runs))
        for job in jobs
    ]


async def read_last_fire(store: Store, job: Job, trigger: Trigger | None) -> LastFire:
    """Return a job's newest fire if a trigger, that it has or is to get, counts from its end.

    All others pay nothing: it is `NEVER`, whatever they have fired.
    """
    if after_end_of(trigger) is None:
        return NEVER
    [last] = await read_last_fires(store, [job])
    return last
