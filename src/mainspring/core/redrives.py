"""Redrives: many dead letters run again, at a rate that the targets can stand."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from mainspring.core.dead_letters import DeadFilter
from mainspring.core.ids import JobId, RedriveId, RunId
from mainspring.core.rates import Bucket, Rate
from mainspring.core.values import value

FASTEST = 1000
"""Runs a second that a redrive may make, at most."""
USUAL_RATE = 10


class RedriveState(StrEnum):
    """What becomes of a redrive."""

    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    CANCELLED = "cancelled"


class RedriveChange(StrEnum):
    """What may be done to a redrive."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"

    @property
    def leads_to(self) -> RedriveState:
        """The state in which it leaves the redrive."""
        return _LEADS_TO[self]

    @property
    def starts_from(self) -> frozenset[RedriveState]:
        """The states in which it is possible. A redrive that is in the wanted state already stays as it is."""
        return _UNDER_WAY | {self.leads_to}


_LEADS_TO = {
    RedriveChange.PAUSE: RedriveState.PAUSED,
    RedriveChange.RESUME: RedriveState.RUNNING,
    RedriveChange.CANCEL: RedriveState.CANCELLED,
}
_UNDER_WAY = frozenset({RedriveState.RUNNING, RedriveState.PAUSED})


@value(kw_only=True)
class Redrive:
    """A redrive, and how far it has come. It goes through its dead letters in the order in which they were made.

    Attributes:
        wanted: which dead letters it runs again. It has an end, so that what fails once more is not run once more.
        is_newest: by the newest definitions of their jobs, not by those that they had.
        rate: runs a second.
        cursor: the last run that it has passed; 0 before its first step.
        total: how many dead letters were open when it was made.
        done: how many of those that it has passed are redriven. The others were discarded, or their jobs deleted.
    """

    id: RedriveId
    tenant: str
    wanted: DeadFilter
    is_newest: bool
    rate: int
    state: RedriveState
    cursor: RunId
    total: int
    done: int
    created_at: datetime
    closed_at: datetime | None


@value(kw_only=True)
class DeadVersion:
    """How many open dead letters ran by one version of a job."""

    job_id: JobId
    version: int
    count: int


def permits_of(redrive: Redrive, known: Bucket | None, now: datetime) -> Bucket:
    """Return what a redrive may make now. One that another node went on with begins without permits.

    Args:
        known: the permits after the last step; None for a redrive that is new here.
    """
    if known is None:
        rate = Rate(redrive.rate, timedelta(seconds=1))
        known = Bucket(rate, rate.usual_burst, 0.0, now if redrive.cursor else redrive.created_at)
    return known.at(now)
