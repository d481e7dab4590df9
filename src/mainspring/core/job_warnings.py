"""Says what is wrong with a job that is stored: nobody defines it any more, or nobody can run it."""

from __future__ import annotations

from mainspring.core.model import Job
from mainspring.core.serving import Gap
from mainspring.core.times import write_instant
from mainspring.core.values import value

UNDEFINED = "undefined"
"""The code of the warning that no code defines a job any more. The other codes are those of `GapCode`."""


@value()
class JobWarning:
    """What is wrong with a job.

    Attributes:
        what: the owner, queue, function, type of target or labels that it is about; empty if there is no worker.
    """

    code: str
    what: str
    sentence: str


def warnings_of(job: Job, gap: Gap | None) -> tuple[JobWarning, ...]:
    """Return what is wrong with a job.

    Args:
        gap: why no live worker can execute its runs; None if one can.
    """
    found = []
    if job.undefined_since is not None and job.owner is not None:
        since = write_instant(job.undefined_since)
        fires = "" if job.next_fire_at is None else f"; it fires next at {write_instant(job.next_fire_at)}"
        sentence = f"The code of {job.owner} does not define it any more, since {since}{fires}."
        found.append(JobWarning(UNDEFINED, job.owner, sentence))
    if gap is not None:
        found.append(JobWarning(gap.code.value, gap.what, gap.sentence))
    return tuple(found)
