"""Decides what becomes of a job's fires while earlier runs of it are live.

Stores ask it in the transaction of the fire, under the lock of the job's clock. So no two fires are judged at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.admission import OVERLAP, skip_overlaps
from mainspring.core.ids import RunId
from mainspring.core.model import Overlap
from mainspring.core.values import value


@value(kw_only=True)
class LiveOfJob:
    """What is live of a job as its fires are judged. Only what its policy asks for has to be known.

    Attributes:
        is_any: `skip`: whether a run is live.
        is_any_waiting: `queue_one`: whether a run waits that has never started. One that was submitted for later
            counts from then on.
        runs: `cancel_running`: all live runs, each with its fire time, if it has one.
    """

    is_any: bool = False
    is_any_waiting: bool = False
    runs: tuple[tuple[RunId, datetime | None], ...] = ()

    def with_another(self) -> LiveOfJob:
        """Return the same after a further run was made."""
        return LiveOfJob(is_any=True, is_any_waiting=True, runs=self.runs)


@value()
class OverlapVerdict:
    """What becomes of fires.

    Attributes:
        reasons: why each makes no run; None if it makes one.
        cancels: the live runs to cancel before.
    """

    reasons: tuple[str | None, ...]
    cancels: tuple[RunId, ...] = ()


def judge_overlap(
    overlap: Overlap, fires: Sequence[tuple[datetime | None, str | None]], live: LiveOfJob
) -> OverlapVerdict:
    """Decide a set of fires of one job that are made together.

    With `queue_one`, one of them waits if none does. With `cancel_running`, only the newest makes a run; and a fire
    that is caught up cancels no run of a newer one, but is skipped.

    Args:
        fires: the fire time of each, None for that of an event, and why it is to be skipped anyway; None if it is not.
    """
    reasons = tuple(reason for _, reason in fires)
    if overlap is Overlap.SKIP:
        return OverlapVerdict(tuple(skip_overlaps(reasons, is_live=live.is_any)))
    if overlap is Overlap.QUEUE_ONE:
        return OverlapVerdict(tuple(skip_overlaps(reasons, is_live=live.is_any_waiting)))
    if overlap is not Overlap.CANCEL_RUNNING:
        return OverlapVerdict(reasons)
    made = [at for at, reason in fires if reason is None and at is not None]
    newest = max(made, default=None)
    if newest is None:  # the run of an event, which has no time: it is the newest there is
        cancels = tuple(sorted(run_id for run_id, _ in live.runs)) if None in reasons else ()
        return OverlapVerdict(reasons, cancels)
    if any(at is not None and at > newest for _, at in live.runs):
        return OverlapVerdict(tuple(reason or OVERLAP for reason in reasons))
    return OverlapVerdict(
        tuple(reason or (None if at == newest else OVERLAP) for at, reason in fires),
        tuple(sorted(run_id for run_id, _ in live.runs)),
    )
