"""What excuses a job that begins after its lease was lost: what its worker could not know any more.

However late a worker checks its lease, there is a moment after that. It is as long as the host takes from a claim to
the job's first act, which the history itself tells.
"""

from __future__ import annotations

from datetime import timedelta

from mainspring.core.model import Attempt
from tools.judge.leases import Lease, read_leases
from tools.judge.model import Effect, History
from tools.judge.runs import Runs

_LEAST = timedelta(seconds=1)
"""The moment that is granted on every host, however fast the others were."""
_MOST = timedelta(seconds=6)
"""No host is so busy that more would be granted."""
_OUTSIDE = frozenset({"shell", "http"})
"""Types of targets that are carried out in other processes."""


def excuse_late_start(history: History, runs: Runs, attempt: Attempt, effect: Effect) -> str | None:
    """Return under which name a start after the loss of its lease is counted; None if nothing excuses it."""
    if attempt.outcome != "lost" or not any(fault.target == attempt.worker for fault in history.faults):
        return None
    moment = longest_moment(history, runs)
    if _was_stopped_between(history, attempt, effect, moment):
        return "late_starts_of_zombies"
    return "late_starts_on_their_way" if _was_on_its_way(history, runs, attempt, effect, moment) else None


def _was_stopped_between(history: History, attempt: Attempt, effect: Effect, moment: timedelta) -> bool:
    """Say whether a real process was stopped between taking a lease and the job's first act, and so lost the lease.

    Only the target can notice that, by the token. A simulated process (fault `pause`) is never stopped within a step,
    so this does not excuse it.
    """
    return any(
        fault.kind == "zombie"
        and fault.target == attempt.worker
        and attempt.started_at - history.slack <= fault.at <= attempt.started_at + moment
        and fault.at <= attempt.finished_at <= fault.until
        and effect.started_at <= fault.until + moment
        for fault in history.faults
    )


def _was_on_its_way(
    history: History, runs: Runs, attempt: Attempt, effect: Effect, moment: timedelta
) -> bool:
    """Say whether a command or a call had left its worker, which was cut off, when the lease was lost.

    Before a function is called, its own thread asks whether the lease may be lost. What happens in other processes
    begins a moment after it was asked for.
    """
    spec = runs.spec_of(runs.by_id[attempt.run_id])
    return (
        spec is not None
        and spec.target.type in _OUTSIDE
        and effect.started_at <= attempt.started_at + moment
        and any(
            fault.kind == "cut" and fault.target == attempt.worker and fault.at <= attempt.finished_at
            for fault in history.faults
        )
    )


def longest_moment(history: History, runs: Runs) -> timedelta:
    """Return the longest time from a claim to the job's first act, of attempts that no fault was in the way of.

    Lost attempts are left out: they may have begun late for the very reason that is looked for.
    """
    attempts = [item for items in runs.attempts.values() for item in items]
    lost = {(item.run_id, item.token) for item in attempts if item.outcome == "lost"}
    workers = {item.worker for item in attempts}
    found = [
        lease.begun_at - lease.claimed_at
        for leases in read_leases(history, runs).values()
        for lease in leases
        if (lease.run.id, lease.token) not in lost and not _was_hindered(history, lease, workers)
    ]
    return min(max(_LEAST, *found), _MOST) if found else _LEAST


def _was_hindered(history: History, lease: Lease, workers: set[str]) -> bool:
    """Say whether a fault may have been between a claim and the job's first act.

    Whose worker it was is not known. A worker that a fault kept from beginning begins after the fault; what begins
    during it was not kept. A fault of a server or the store is in everybody's way.
    """
    return any(
        fault.at <= lease.begun_at
        and lease.claimed_at <= fault.until
        and (fault.target not in workers or fault.until <= lease.begun_at)
        for fault in history.faults
    )
