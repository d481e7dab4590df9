"""A worker's settings, counters and waiters."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from mainspring.ports.clock import Waiter
from mainspring.ports.gateway import Registration


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """How a worker behaves.

    Attributes:
        registration: what the worker offers.
        long_poll: how long one claim may wait for work.
        prefetch: how much work may wait in the worker for a slot, by how fast its attempts end; zero means none.
        report_batch: the most endings in one report.
        split_after: how long after it was due a run is that gets a trace of its own.
    """

    registration: Registration
    long_poll: timedelta = timedelta(seconds=20)
    prefetch: timedelta = timedelta(milliseconds=100)
    report_batch: int = 4000
    split_after: timedelta = timedelta(hours=1)


@dataclass(slots=True)
class WorkerCounters:
    """What a worker has done since it started.

    Attributes:
        ended: attempts that ended, reported or not.
    """

    ended: int = 0
    succeeded_or_failed: int = 0
    stale: int = 0
    dropped: int = 0
    handed_back: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerWaiters:
    """One waiter for each of the worker's loops."""

    claim: Waiter
    beat: Waiter
    report: Waiter
