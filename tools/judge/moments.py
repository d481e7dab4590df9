"""How long it takes on the host from a claim to the job's first act: measured where nothing was in the way."""

from __future__ import annotations

from datetime import timedelta

from tools.judge.leases import read_leases
from tools.judge.model import History
from tools.judge.runs import Runs

_LEAST = timedelta(seconds=1)
"""What is granted to every host, however fast the others were."""
_MOST = timedelta(seconds=4)
"""No host is so busy that it would be granted more."""


def longest_moment(history: History, runs: Runs) -> timedelta:
    """Return the longest time from a claim to the job's first act, of attempts between which no fault lay.

    Lost attempts are left out: they may have begun late for the very reason that is looked for.
    """
    lost = {
        (item.run_id, item.token)
        for items in runs.attempts.values()
        for item in items
        if item.outcome == "lost"
    }
    found = (
        lease.begun_at - lease.claimed_at
        for leases in read_leases(history, runs).values()
        for lease in leases
        if (lease.run.id, lease.token) not in lost
        and not any(
            fault.at <= lease.begun_at and lease.claimed_at <= fault.until for fault in history.faults
        )
    )
    return min(max(_LEAST, max(found, default=_LEAST)), _MOST)
