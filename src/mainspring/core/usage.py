"""What became of the runs of a queue within a minute or an hour: counts, and how late and how long they were."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple

from mainspring.core.values import value

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""Upper bounds of what is counted by how long it took, in seconds. What took longer is counted last."""
_NOTHING = (0,) * (len(BOUNDS) + 1)


class UsageStep(StrEnum):
    """How long the time is that one figure is of."""

    MINUTE = "minute"
    HOUR = "hour"

    @property
    def length(self) -> timedelta:
        """The time itself."""
        return timedelta(minutes=1) if self is UsageStep.MINUTE else timedelta(hours=1)

    def start_of(self, at: datetime) -> datetime:
        """Return when the minute or hour began in which an instant lies."""
        at = at.astimezone(UTC).replace(second=0, microsecond=0)
        return at if self is UsageStep.MINUTE else at.replace(minute=0)


@value(kw_only=True)
class Times:
    """Lengths of time, counted by `BOUNDS`.

    Attributes:
        counts: how many were at or below each bound and above the one before; a last one for those above all.
        total: their sum, in seconds.
    """

    counts: tuple[int, ...] = _NOTHING
    total: float = 0.0

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self.counts)

    def __add__(self, other: Times) -> Times:
        """Count both."""
        counts = tuple(mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True))
        return Times(counts=counts, total=self.total + other.total)

    def __sub__(self, other: Times) -> Times:
        """Return what came to `other` since."""
        counts = tuple(mine - theirs for mine, theirs in zip(self.counts, other.counts, strict=True))
        return Times(counts=counts, total=self.total - other.total)

    def quantile(self, share: float) -> float | None:
        """Return the time that so large a share did not exceed, in seconds; None if there were none.

        It is exact to the bounds: within two of them, times count as evenly spread. Beyond the last one it is that.
        """
        if not self.count:
            return None
        wanted = share * self.count
        place, below = 0, 0
        for place, upto in enumerate(accumulate(self.counts)):  # noqa: B007 -- the place goes on
            if upto >= wanted and upto > below:
                break
            below = upto
        if place == len(BOUNDS):
            return BOUNDS[-1]
        low = BOUNDS[place - 1] if place else 0.0
        return low + (BOUNDS[place] - low) * max(wanted - below, 0.0) / self.counts[place]


@value(kw_only=True)
class Usage:
    """What became of runs.

    Attributes:
        submitted: runs made by submissions, by hand or by repetition.
        fired: runs made by fires of triggers.
        started: first attempts that were given to workers.
        succeeded, failed, cancelled: runs that ended so with an attempt's report.
        retried: attempts after which another one follows.
        lags: how long after they were due runs were started.
        durations: how long attempts took, from when they were given to a worker until their report was stored.
    """

    submitted: int = 0
    fired: int = 0
    started: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    retried: int = 0
    lags: Times = Times()
    durations: Times = Times()

    def __add__(self, other: Usage) -> Usage:
        """Count both."""
        return add_all([self, other])

    def __sub__(self, other: Usage) -> Usage:
        """Return what came to `other` since."""
        return Usage(**{name: getattr(self, name) - getattr(other, name) for name in _FIELDS})

    @property
    def ended(self) -> int:
        """Runs that have ended."""
        return self.succeeded + self.failed + self.cancelled


_FIELDS = tuple(field.name for field in fields(Usage))
COUNTS = _FIELDS[:-2]
"""The names of the counts, in the order in which they are stored."""
NO_USAGE = Usage()


class QueueKey(NamedTuple):
    """A tenant's part of a queue."""

    tenant: str
    queue: str


@value(kw_only=True)
class UsageLine:
    """What became of the runs of a tenant in a queue, within a minute or an hour.

    Attributes:
        at: when the minute or hour began.
    """

    at: datetime
    tenant: str
    queue: str
    usage: Usage

    @property
    def key(self) -> QueueKey:
        """Whose it is."""
        return QueueKey(self.tenant, self.queue)


@value(kw_only=True)
class UsageReport:
    """What became of runs within a time.

    Attributes:
        since, until: the time, in whole minutes or hours.
        steps: by the minute or hour, in order; those without anything are left out.
        queues: by queue, in order of their names.
    """

    since: datetime
    until: datetime
    step: UsageStep
    total: Usage
    steps: list[tuple[datetime, Usage]]
    queues: list[tuple[str, Usage]]


def add_all(usages: Iterable[Usage]) -> Usage:
    """Return what usages come to. Numbers are added column by column, as there may be ten thousands of them."""
    rows = [
        (
            *(usage.submitted, usage.fired, usage.started, usage.succeeded, usage.failed, usage.cancelled),
            *(usage.retried, usage.lags.total, usage.durations.total),
            *usage.lags.counts,
            *usage.durations.counts,
        )
        for usage in usages
    ]
    if not rows:
        return NO_USAGE
    summed = tuple(map(sum, zip(*rows, strict=True)))
    counts, (lag_total, duration_total) = summed[: len(COUNTS)], summed[len(COUNTS) : len(COUNTS) + 2]
    times = tuple(map(int, summed[len(COUNTS) + 2 :]))
    middle = len(times) // 2
    return Usage(
        **dict(zip(COUNTS, map(int, counts), strict=True)),
        lags=Times(counts=times[:middle], total=lag_total),
        durations=Times(counts=times[middle:], total=duration_total),
    )


def sum_usage(lines: Iterable[UsageLine]) -> Usage:
    """Return what lines come to."""
    return add_all(line.usage for line in lines)


def sum_to_hours(lines: Iterable[UsageLine]) -> list[UsageLine]:
    """Return what minutes come to by the hour, for each tenant and queue."""
    found: defaultdict[tuple[datetime, QueueKey], list[Usage]] = defaultdict(list)
    for line in lines:
        found[UsageStep.HOUR.start_of(line.at), line.key].append(line.usage)
    return [
        UsageLine(at=at, tenant=key.tenant, queue=key.queue, usage=add_all(found[at, key]))
        for at, key in sorted(found)
    ]
