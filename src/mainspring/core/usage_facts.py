"""What rules of alerts find in the usage of queues: runs that start late, attempts that take longer, runs that fail.

Times are known by bounds only (`mainspring.core.usage.BOUNDS`), so a quantile is exact to the two bounds that it lies
between. What an alert says names both.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from itertools import accumulate
from typing import TYPE_CHECKING

from mainspring.core.alert_words import count, show_percent
from mainspring.core.alerting import Fact
from mainspring.core.alerts import AlertRule
from mainspring.core.fields import show
from mainspring.core.rights import ALL_TENANTS
from mainspring.core.usage import BOUNDS, QueueKey, Times, Usage, UsageLine, add_all
from mainspring.core.values import value

if TYPE_CHECKING:
    from mainspring.core.objectives import RunTotals

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
FEWEST_ENDS = 20
"""Fewer runs than that, within the period, have no rate of failures."""
FEWEST_ATTEMPTS = 50
"""Fewer attempts than that, within the period or the day before, have no usual duration."""
SHORTEST_SPIKE = 0.1
"""Attempts that take less, in seconds, are not too long, however short they were before."""
SHARED = frozenset({"_other", "_unknown"})
"""Tenants under which runs are counted whose own figures are not kept, or not known."""
_START_SHARE, _DURATION_SHARE = 0.99, 0.95


@value()
class TimeBounds:
    """The two bounds that a time lies between, in seconds; `high` is None beyond the last bound."""

    low: float
    high: float | None

    def __str__(self) -> str:
        """Say both."""
        if self.high is None:
            return f"more than {_show_seconds(self.low)}"
        return f"{_show_seconds(self.low)} to {_show_seconds(self.high)}"


def span_of(times: Times, share: float) -> TimeBounds | None:
    """Return the bounds between which the time lies that so large a share did not exceed; None if there were none."""
    if not times.count:
        return None
    place = bisect_left(list(accumulate(times.counts)), share * times.count)
    low = BOUNDS[place - 1] if place else 0.0
    return TimeBounds(low, BOUNDS[place] if place < len(BOUNDS) else None)


@value()
class UsageSeen:
    """The usage of late, by parts of queues.

    Attributes:
        minutes: of the last hour, in order.
        hours: of the days before and of the hour that is, in order.
        totals: what was counted in it for objectives, by what these count.
    """

    minutes: Mapping[QueueKey, Sequence[tuple[datetime, Usage]]]
    hours: Mapping[QueueKey, Sequence[tuple[datetime, Usage]]]
    _sums: dict[tuple[QueueKey, datetime, timedelta], Usage] = field(default_factory=dict)
    _parts: dict[str, UsageSeen] = field(default_factory=dict, compare=False, repr=False)
    _of_queue: dict[str, list[QueueKey]] = field(default_factory=dict, compare=False, repr=False)
    totals: dict[Hashable, RunTotals] = field(default_factory=dict, compare=False, repr=False)

    def of(self, tenant: str) -> UsageSeen:
        """Return the usage of a tenant. All tenants are told apart at once, the first time that one is asked for."""
        if not self._parts:
            minutes, hours = _by_tenant(self.minutes), _by_tenant(self.hours)
            for one in {tenant, *minutes, *hours}:
                self._parts[one] = UsageSeen(minutes.get(one, {}), hours.get(one, {}), self._sums)
        return self._parts.get(tenant) or UsageSeen({}, {}, self._sums)

    @property
    def keys(self) -> Collection[QueueKey]:
        """The parts of queues in which something happened within the hour."""
        return self.minutes.keys()

    @property
    def all_keys(self) -> Collection[QueueKey]:
        """The parts of queues in which anything happened."""
        return self.minutes.keys() | self.hours.keys()

    def keys_of(self, queue: str) -> Collection[QueueKey]:
        """Return the parts of one queue in which anything happened."""
        if not self._of_queue:
            for key in self.all_keys:
                self._of_queue.setdefault(key.queue, []).append(key)
        return self._of_queue.get(queue, ())

    def within(self, key: QueueKey, period: timedelta, now: datetime) -> Usage:
        """Return what became of runs within a time until now.

        Up to an hour, it is counted by whole minutes. Longer times are by whole hours, so up to one hour is missing.
        """
        since = now.replace(second=0, microsecond=0) - period
        known = self._sums.get((key, since, period))
        if known is None:
            lines = (self.minutes if period <= HOUR else self.hours).get(key, ())
            known = add_all(usage for at, usage in lines if at >= since)
            self._sums[key, since, period] = known
        return known

    def before(self, key: QueueKey, period: timedelta, now: datetime) -> Usage:
        """Return what became of runs within the day before the time that `within` tells of."""
        until = now.replace(second=0, microsecond=0) - period
        mark = (key, until, -period)
        known = self._sums.get(mark)
        if known is None:
            lines = self.hours.get(key, ())
            known = add_all(usage for at, usage in lines if until - DAY <= at and at + HOUR <= until)
            self._sums[mark] = known
        return known


def _by_tenant(
    lines: Mapping[QueueKey, Sequence[tuple[datetime, Usage]]],
) -> dict[str, dict[QueueKey, Sequence[tuple[datetime, Usage]]]]:
    found: dict[str, dict[QueueKey, Sequence[tuple[datetime, Usage]]]] = {}
    for key, some in lines.items():
        found.setdefault(key.tenant, {})[key] = some
    return found


def gather(lines: Iterable[UsageLine]) -> dict[QueueKey, list[tuple[datetime, Usage]]]:
    """Return lines, which come in order, by parts of queues."""
    found: dict[QueueKey, list[tuple[datetime, Usage]]] = {}
    for line in lines:
        found.setdefault(line.key, []).append((line.at, line.usage))
    return found


def find_late_starts(rule: AlertRule, seen: UsageSeen, now: datetime) -> Iterator[Fact]:
    """Yield the queues in which more than one of 100 runs started later than the threshold, in seconds."""
    period = rule.period or timedelta(0)
    for key in _watched(rule, seen):
        lags = seen.within(key, period, now).lags
        late = lags.quantile(_START_SHARE)
        if late is None or not _exceeds(late, lags, rule.threshold or 0):
            continue
        span = span_of(lags, _START_SHARE)
        summary = (
            f"runs in queue {key.queue} start late: of {count(lags.count, 'run')} within {show(period)},"
        )
        yield _fact(key, late, f"{summary} one of 100 started {span} after it was due, or later")


def find_failures(
    rule: AlertRule, seen: UsageSeen, now: datetime, firing: Collection[tuple[str, str]] = ()
) -> Iterator[Fact]:
    """Yield the queues in which a larger share of the runs that ended has failed than the threshold, in percent.

    Args:
        firing: tenants and subjects of which the rule fires: for these, half as many runs are enough.
    """
    period = rule.period or timedelta(0)
    for key in _watched(rule, seen):
        usage = seen.within(key, period, now)
        ended = usage.succeeded + usage.failed
        fewest = FEWEST_ENDS // 2 if _name(key) in firing else FEWEST_ENDS
        if ended < fewest or 100 * usage.failed <= (rule.threshold or 0) * ended:
            continue
        share = usage.failed / ended
        summary = (
            f"{show_percent(share)} of the runs in queue {key.queue} fail: {usage.failed:,} of {ended:,}"
        )
        yield _fact(key, 100 * share, f"{summary} within {show(period)}")


def find_spikes(rule: AlertRule, seen: UsageSeen, now: datetime) -> Iterator[Fact]:
    """Yield the queues whose attempts take the threshold times as long as within the day before."""
    period = rule.period or timedelta(0)
    for key in _watched(rule, seen):
        recent = seen.within(key, period, now).durations
        usual = seen.before(key, period, now).durations if recent.count >= FEWEST_ATTEMPTS else Times()
        if usual.count < FEWEST_ATTEMPTS:
            continue
        times = _find_spike(recent, usual, rule.threshold or 1)
        if times is None:
            continue
        summary = (
            f"attempts in queue {key.queue} take longer: 95 of 100 take up to"
            f" {_show_seconds(_nearly_all(recent))}, and took up to {_show_seconds(_nearly_all(usual))}"
            f" in the day before, both to the bounds of the figures"
        )
        yield _fact(key, times, summary)


def _find_spike(recent: Times, usual: Times, threshold: float) -> float | None:
    """Return how many times as long attempts take; None if that is not known to be so much.

    Within two neighbouring bounds, both times may be nearly the same, however far apart they are taken to be. Then it
    counts only if the means, which are exact, have grown as much.
    """
    now, before = _nearly_all(recent), _nearly_all(usual)
    times = now / before
    if now < SHORTEST_SPIKE or times < threshold:
        return None
    steps = bisect_left(BOUNDS, now) - bisect_left(BOUNDS, before)
    means = (recent.total / recent.count) / max(usual.total / usual.count, 1e-9)
    return times if steps > 1 or means >= threshold else None


def _nearly_all(times: Times) -> float:
    return times.quantile(_DURATION_SHARE) or BOUNDS[0]


def _exceeds(value: float, times: Times, threshold: float) -> bool:
    """Say whether a quantile lies above a threshold. Beyond the last bound, it is above all that may be asked for."""
    return value > threshold or (value >= BOUNDS[-1] <= threshold and times.counts[-1] > 0)


def _watched(rule: AlertRule, seen: UsageSeen) -> list[QueueKey]:
    return sorted(key for key in seen.keys if rule.queue in {None, key.queue})


def _fact(key: QueueKey, value: float, summary: str) -> Fact:
    tenant, subject = _name(key)
    return Fact(tenant=tenant, subject=subject, value=round(value, 3), summary=summary)


def _name(key: QueueKey) -> tuple[str, str]:
    """Return the tenant and the subject of an alert about a part of a queue."""
    return ALL_TENANTS if key.tenant in SHARED else key.tenant, f"queue:{key.queue}"


def _show_seconds(seconds: float) -> str:
    """Return a time by two digits or three."""
    return show(timedelta(seconds=float(f"{seconds:.3g}")))
