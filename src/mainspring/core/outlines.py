"""Says which jobs fire in sets, and what the runs of such a job need of its definition (ADR 0040).

A scheduler that has an outline need not read the definition, so a store wins such fires and inserts their runs by one
statement for many jobs.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.core.model import JobSpec, Overlap
from mainspring.core.targets import TARGETS
from mainspring.core.triggers import Once
from mainspring.core.values import value


@value(kw_only=True)
class RunOutline:
    """What the run of a one-off job needs of one version of its definition, beside the job's tenant and priority.

    Attributes:
        version: the version that it was made from. It says nothing about another one.
        grace: how late the fire may be and still count as on time. What a later one becomes, only the definition says.
    """

    version: int
    queue: str
    route: str
    timeout: timedelta
    grace: timedelta
    jitter: timedelta = timedelta(0)
    expires_after: timedelta | None = None


def has_outline(spec: JobSpec) -> bool:
    """Say whether fires of a definition are made in sets.

    Such a fire is the last of its job, and its run depends on no other run. Only a process that knows the target's type
    can tell the route.
    """
    if (
        type(spec.trigger) is not Once
        or spec.overlap is not Overlap.ALLOW
        or spec.is_lined_up
        or spec.calendars
    ):
        return False
    return spec.target.type in TARGETS.by_name


def outline_of(spec: JobSpec, version: int) -> RunOutline | None:
    """Return the outline of a definition; None if its fires are not made in sets."""
    if not has_outline(spec):
        return None
    return RunOutline(
        version=version,
        queue=spec.queue,
        route=spec.route,
        timeout=spec.timeout,
        grace=spec.misfire.grace,
        jitter=spec.jitter,
        expires_after=spec.expires_after,
    )


def is_on_time(outline: RunOutline, due_at: datetime, *, now: datetime) -> bool:
    """Say whether a fire becomes its run as planned: it is due, and no later than the grace allows.

    It is the same as in `plan_fires`. A late fire takes the ordinary way, where its misfire policy decides.
    """
    return due_at <= now and now - due_at <= outline.grace
