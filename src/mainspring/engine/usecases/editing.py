"""What it takes to edit a job: the facts that an edit of its clock is decided on, and who is to be woken after it."""

from __future__ import annotations

from datetime import datetime

from mainspring.core.ciphertexts import has_encrypted, why_unreadable
from mainspring.core.model import Job, JobSpec
from mainspring.engine.common.last_fires import read_last_fire
from mainspring.engine.usecases.clock_changes import edit_clock
from mainspring.engine.usecases.scheduled import Scheduled, Scheduling
from mainspring.errors import CannotDecrypt
from mainspring.ports.store import Store
from mainspring.ports.store.jobs import JobEdit


async def decide_edit(
    store: Store, scheduling: Scheduling, job: Job, scheduled: Scheduled, *, now: datetime
) -> JobEdit:
    """Return the edit that gives a job another definition.

    Args:
        now: when the definition was read. It is the instant of the version, from which an interval without an anchor
            counts.
    """
    return edit_clock(
        job,
        scheduled.own,
        before=await scheduling.before(job),
        after=scheduled.spec,
        calendars=scheduled.calendars,
        last=await read_last_fire(store, job, scheduled.own.trigger),
        now=now,
        since=scheduled.since,
    )


def refuse_unreadable(job: Job) -> None:
    """Refuse to build on a definition that cannot be decrypted here.

    Raises:
        CannotDecrypt: it cannot be.
    """
    params = job.spec.target.params
    if has_encrypted(params):
        why, _ = why_unreadable(params)
        raise CannotDecrypt(f"{why}; give job {job.spec.name!r} a whole definition, or delete it")


def makes_room(before: JobSpec, after: JobSpec) -> bool:
    """Say whether runs that wait in the lines of a job may start earlier by its new definition."""
    return before.is_lined_up and (before.concurrency, before.overlap) != (after.concurrency, after.overlap)
