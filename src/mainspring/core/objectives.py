"""Objectives: how large a share of a queue's runs is to start in time, or to succeed; and how much of it is used up.

What an objective leaves is its error budget: of 0.999, one run of a thousand may fail. The burn rate says how fast the
budget is used: at 1, it lasts exactly as long as the objective's days. An alert fires when the rate is high over a long
and over a short time, as the workbook on Site Reliability Engineering has it: so it is about what matters, and it ends
soon after that does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from mainspring.core.alert_words import count, show_percent, show_roughly
from mainspring.core.alerting import Fact
from mainspring.core.alerts import AlertRule
from mainspring.core.fields import DAY, read_word, show
from mainspring.core.kinds import Choice, Number, Whole, Word
from mainspring.core.options import Option, Options
from mainspring.core.times import Duration
from mainspring.core.usage import BOUNDS, Usage
from mainspring.core.usage_facts import UsageSeen
from mainspring.core.values import value
from mainspring.errors import InvalidInput

MOST_OBJECTIVES = 100
"""Objectives that one tenant may have."""
LONGEST_DAYS = 90
FEWEST_RUNS = 10
"""Fewer runs than that within the long time say nothing of the rate at which a budget is used."""
MOST_WANTED = 0.9
"""No rule wants a larger share of runs to be bad: of an objective that allows many, the rate can never be high."""
SHORT_PART = 12
"""The short time of a rule is this part of its long one."""
HOUR, SIX_HOURS = timedelta(hours=1), timedelta(hours=6)
_ALLOWED = tuple(timedelta(seconds=bound) for bound in BOUNDS)


class ObjectiveKind(StrEnum):
    """What an objective is about."""

    START = "start"
    """Runs start at most `bound` after they were due."""
    SUCCESS = "success"
    """Runs succeed, after all their attempts."""


@value(kw_only=True)
class Objective:
    """How large a share of a queue's runs is to be good.

    Attributes:
        queue: None is all queues of the tenant.
        objective: the share.
        bound: how late a run may start, of the kind `start`.
        days: the time within which the share is to be reached, until now.
    """

    tenant: str
    name: str
    kind: ObjectiveKind
    queue: str | None = None
    objective: float
    bound: timedelta | None = None
    days: int = 30

    @property
    def budget(self) -> float:
        """The share of runs that may be bad."""
        return round(1 - self.objective, 9)

    @property
    def period(self) -> timedelta:
        """The time within which the share is to be reached."""
        return self.days * DAY


OBJECTIVE_OPTIONS = Options(
    Option(
        name="kind",
        kind=Choice(ObjectiveKind),
        summary="What is good: `start`, that a run starts in time; `success`, that it succeeds.",
        example="start",
    ),
    Option(
        name="queue",
        kind=Word(),
        default=None,
        is_nullable=True,
        summary="The queue whose runs count; all queues of the tenant if it names none.",
        example="mail",
    ),
    Option(
        name="objective",
        kind=Number(0.5, 0.99999),
        summary="The share of runs that is to be good.",
        example=0.999,
    ),
    Option(
        name="bound",
        kind=Duration(_ALLOWED[0], _ALLOWED[-1]),
        default=None,
        is_nullable=True,
        summary="How long after it was due a run may start, for the kind `start`: one of the bounds of the figures.",
        example="5s",
    ),
    Option(
        name="days",
        kind=Whole(1, LONGEST_DAYS),
        default=30,
        summary="Within how many days, until now, the share is to be reached.",
    ),
)


def make_objective(tenant: str, name: str, body: Mapping[str, Any]) -> Objective:
    """Return the objective that a body says.

    Raises:
        InvalidInput: a value is wrong or missing, or there is no such setting.
    """
    read = OBJECTIVE_OPTIONS.read_all(body, lambda option: option)
    bound: timedelta | None = read["bound"]
    if read["kind"] is ObjectiveKind.SUCCESS and bound is not None:
        raise InvalidInput("bound", "is for objectives of the kind start; one of the kind success has none")
    if read["kind"] is ObjectiveKind.START and bound not in _ALLOWED:
        wrong = "is missing; it must be" if bound is None else f"{show(bound)} is not"
        known = ", ".join(map(show, _ALLOWED))
        raise InvalidInput("bound", f"{wrong} one of the bounds by which late starts are counted: {known}")
    return Objective(tenant=tenant, name=read_word(name, "slo"), **read)


@value()
class RunTotals:
    """How many runs counted, and how many of them were bad."""

    total: int = 0
    bad: int = 0

    def __add__(self, other: RunTotals) -> RunTotals:
        """Count both."""
        return RunTotals(self.total + other.total, self.bad + other.bad)

    @property
    def bad_share(self) -> float:
        """How large a share of them was bad."""
        return self.bad / self.total if self.total else 0.0


def count_events(objective: Objective, usage: Usage) -> RunTotals:
    """Return how many runs counted, by the histogram's bounds exactly: a run is late if it started after the bound."""
    if objective.kind is ObjectiveKind.SUCCESS:
        return RunTotals(usage.succeeded + usage.failed, usage.failed)
    assert objective.bound is not None, "an objective for starts has a bound"
    place = bisect_left(BOUNDS, objective.bound.total_seconds())
    return RunTotals(usage.lags.count, sum(usage.lags.counts[place + 1 :]))


def add_events(objective: Objective, usages: Iterable[Usage]) -> RunTotals:
    """Return what usages come to."""
    return sum((count_events(objective, usage) for usage in usages), RunTotals())


@value(kw_only=True)
class ObjectiveStatus:
    """How an objective does.

    Attributes:
        whole: what counted within its days.
        hour, six_hours: what counted of late.
    """

    objective: Objective
    whole: RunTotals
    hour: RunTotals
    six_hours: RunTotals

    @property
    def share(self) -> float | None:
        """The share of good runs so far; None if there were none."""
        return None if not self.whole.total else 1 - self.whole.bad_share

    @property
    def budget_left(self) -> float:
        """The share of the budget that is left: 1 is all, 0 none; below, the objective is missed."""
        return 1 - self.rate(self.whole)

    def rate(self, events: RunTotals) -> float:
        """Return the burn rate of what counted: at 1, the budget lasts as long as the objective's days."""
        return events.bad_share / self.objective.budget

    @property
    def lasts(self) -> timedelta | None:
        """How long the budget lasts at the rate of the last hour, or else of the last six; None if it always does.

        What is bad leaves the objective's days again, so a rate of at most 1 never uses the budget up.
        """
        left = self.budget_left
        if left <= 0:
            return timedelta(0)
        rate = self.rate(self.hour if self.hour.total >= FEWEST_RUNS else self.six_hours)
        return None if rate <= 1 else left * self.objective.period / rate


def find_burning(
    rule: AlertRule,
    objectives: Sequence[Objective],
    seen: UsageSeen,
    now: datetime,
    firing: Collection[tuple[str, str]] = (),
) -> Iterator[Fact]:
    """Yield objectives whose budgets are used faster than the threshold says: within the period and its last part.

    Args:
        firing: tenants and subjects of which the rule fires: for these, half as many runs are enough.
    """
    long = rule.period or timedelta(0)
    for objective in objectives:
        if rule.queue not in {None, objective.queue}:
            continue
        slow = _events_within(objective, seen, long, now)
        fast = _events_within(objective, seen, long / SHORT_PART, now)
        rates = [events.bad_share / objective.budget for events in (slow, fast)]
        wanted = min(rule.threshold or 0, MOST_WANTED / objective.budget)
        subject = f"slo:{objective.name}"
        fewest = FEWEST_RUNS // 2 if (objective.tenant, subject) in firing else FEWEST_RUNS
        if slow.total < fewest or not min(rates) >= wanted:
            continue
        yield Fact(
            tenant=objective.tenant,
            subject=subject,
            value=round(rates[0], 2),
            summary=_explain(objective, slow, long, rates[0]),
        )


def _events_within(objective: Objective, seen: UsageSeen, period: timedelta, now: datetime) -> RunTotals:
    """Return what counted within a time until now. It is counted once a minute, for all rules and objectives."""
    own = seen.of(objective.tenant)
    minute = now.replace(second=0, microsecond=0)
    mark = (objective.kind, objective.queue, objective.bound, period, minute)
    known = own.totals.get(mark)
    if known is None:
        keys = own.all_keys if objective.queue is None else own.keys_of(objective.queue)
        known = own.totals[mark] = add_events(objective, (own.within(key, period, now) for key in keys))
    return known


def _explain(objective: Objective, events: RunTotals, period: timedelta, rate: float) -> str:
    what = (
        "failed"
        if objective.bound is None
        else f"started more than {show(objective.bound)} after they were due"
    )
    where = "" if objective.queue is None else f" in queue {objective.queue}"
    found = f"{show_percent(events.bad_share)} of {count(events.total, 'run')}{where} within {show(period)} {what}"
    lasts = f"the budget of {count(objective.days, 'day')} lasts {show_roughly(objective.period / rate)}"
    return (
        f"objective {objective.name} is at risk: {found}, {rate:,.3g} times what"
        f" {show_percent(objective.objective)} allows; at that rate, {lasts}"
    )
