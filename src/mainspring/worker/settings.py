"""A worker's settings, counters and waiters."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from mainspring.core.values import value
from mainspring.ports.clock import Waiter
from mainspring.ports.gateway import Registration


@value(kw_only=True)
class WorkerSettings:
    """How a worker behaves.

    Attributes:
        registration: what the worker offers.
        long_poll: how long one claim may wait for work.
        prefetch: how much work may wait in the worker for a slot, by how fast its attempts end; zero means none.
        report_batch: the most endings in one report.
        log_flush: how long what an attempt writes waits until it is sent.
        log_limit: the most bytes that are kept of what an attempt writes, but for the newest ones.
        split_after: how long after it was due a run is that gets a trace of its own.
    """

    registration: Registration
    long_poll: timedelta = timedelta(seconds=20)
    prefetch: timedelta = timedelta(milliseconds=100)
    report_batch: int = 4000
    split_after: timedelta = timedelta(hours=1)
    log_flush: timedelta = timedelta(seconds=1)
    log_limit: int = 10 * 1024 * 1024


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


@value(kw_only=True)
class WorkerWaiters:
    """One waiter for each of the worker's loops. Without the last one, no output is sent while attempts run."""

    claim: Waiter
    beat: Waiter
    report: Waiter
    log: Waiter | None = None
