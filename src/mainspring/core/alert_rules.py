"""The rules of alerts that every store has, and what the others may be."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from mainspring.core.alerts import RULE_OPTIONS, SHARED_KINDS, AlertRule, RuleKind
from mainspring.core.fields import DAY, show
from mainspring.core.notifications import Severity
from mainspring.core.rights import ALL_TENANTS
from mainspring.core.values import value
from mainspring.errors import InvalidInput

DEFAULT_RULES: Mapping[str, AlertRule] = MappingProxyType(
    {
        rule.name: rule
        for rule in (
            AlertRule(
                tenant=ALL_TENANTS,
                name="dead_letters",
                kind=RuleKind.DEAD_LETTERS,
                threshold=100,
                hold=timedelta(minutes=1),
                is_default=True,
            ),
            AlertRule(
                tenant=ALL_TENANTS,
                name="no_workers",
                kind=RuleKind.NO_WORKERS,
                threshold=0,
                period=timedelta(minutes=1),
                hold=timedelta(minutes=1),
                severity=Severity.CRITICAL,
                is_default=True,
            ),
            AlertRule(
                tenant=ALL_TENANTS,
                name="missed_run",
                kind=RuleKind.MISSED_RUN,
                period=timedelta(minutes=1),
                hold=timedelta(seconds=30),
                severity=Severity.CRITICAL,
                is_default=True,
            ),
            AlertRule(
                tenant=ALL_TENANTS,
                name="worker_lost",
                kind=RuleKind.WORKER_LOST,
                period=timedelta(hours=1),
                is_default=True,
            ),
            AlertRule(
                tenant=ALL_TENANTS,
                name="stuck_run",
                kind=RuleKind.STUCK_RUN,
                period=timedelta(minutes=5),
                severity=Severity.CRITICAL,
                is_default=True,
            ),
            AlertRule(
                tenant=ALL_TENANTS,
                name="token_expiry",
                kind=RuleKind.TOKEN_EXPIRY,
                period=timedelta(days=7),
                is_default=True,
            ),
            AlertRule(
                tenant=ALL_TENANTS,
                name="scheduler",
                kind=RuleKind.SCHEDULER,
                period=timedelta(hours=1),
                hold=timedelta(seconds=15),
                severity=Severity.CRITICAL,
                is_default=True,
            ),
            AlertRule(
                tenant=ALL_TENANTS,
                name="oldest_ready",
                kind=RuleKind.OLDEST_READY,
                period=timedelta(minutes=5),
                hold=timedelta(minutes=2),
                is_default=True,
            ),
            AlertRule(
                tenant=ALL_TENANTS,
                name="monitor",
                kind=RuleKind.MONITOR,
                severity=Severity.CRITICAL,
                is_default=True,
            ),
            AlertRule(
                tenant=ALL_TENANTS,
                name="start_lag",
                kind=RuleKind.START_LAG,
                threshold=60,
                period=timedelta(minutes=5),
                hold=timedelta(minutes=2),
                severity=Severity.CRITICAL,
                is_default=True,
            ),
            AlertRule(
                tenant=ALL_TENANTS,
                name="duration_spike",
                kind=RuleKind.DURATION_SPIKE,
                threshold=3,
                period=timedelta(minutes=10),
                hold=timedelta(minutes=5),
                is_default=True,
            ),
            AlertRule(
                tenant=ALL_TENANTS,
                name="failure_rate",
                kind=RuleKind.FAILURE_RATE,
                threshold=20,
                period=timedelta(minutes=10),
                is_default=True,
            ),
            AlertRule(
                tenant=ALL_TENANTS,
                name="budget",
                kind=RuleKind.BUDGET,
                threshold=14.4,
                period=timedelta(hours=1),
                severity=Severity.CRITICAL,
                is_default=True,
            ),
            AlertRule(
                tenant=ALL_TENANTS,
                name="budget_slow",
                kind=RuleKind.BUDGET,
                threshold=6,
                period=timedelta(hours=6),
                is_default=True,
            ),
            AlertRule(
                tenant=ALL_TENANTS,
                name="forecast",
                kind=RuleKind.FORECAST,
                threshold=90,
                period=timedelta(days=7),
                hold=timedelta(minutes=30),
                is_default=True,
            ),
            AlertRule(
                tenant=ALL_TENANTS,
                name="disk",
                kind=RuleKind.DISK,
                threshold=10,
                hold=timedelta(minutes=1),
                severity=Severity.CRITICAL,
                is_default=True,
            ),
        )
    }
)
"""The rules that every store has, by name. They watch all tenants and tell nobody before channels are named."""
_USUAL = {rule.kind: rule for rule in reversed(list(DEFAULT_RULES.values()))}
_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)


@value()
class _Bounds:
    """What a rule of a kind may judge by; `what` is its threshold in words."""

    what: str
    threshold: tuple[float, float]
    period: tuple[timedelta, timedelta] = (_MINUTE, DAY)


_BOUNDS = MappingProxyType(
    {
        RuleKind.START_LAG: _Bounds("a number of seconds", (0, 3600)),
        RuleKind.DURATION_SPIKE: _Bounds("how many times as long attempts take", (1, 1000)),
        RuleKind.FAILURE_RATE: _Bounds("a share in percent", (0, 100)),
        RuleKind.BUDGET: _Bounds("a burn rate", (0.1, 1000), (12 * _MINUTE, 3 * DAY)),
        RuleKind.FORECAST: _Bounds("a share in percent", (1, 1000), (DAY, 90 * DAY)),
        RuleKind.DISK: _Bounds("the share that must be free, in percent", (0, 100)),
    }
)
_BROKEN = frozenset(_BOUNDS)
"""Kinds whose threshold may be other than whole."""


def change_rule(tenant: str, name: str, body: Mapping[str, Any]) -> AlertRule:
    """Return the rule that a body says. What it leaves out is as in the rule that every store has of that kind.

    Raises:
        InvalidInput: a value is wrong or missing, or there is no such setting.
    """
    default = DEFAULT_RULES.get(name) if tenant == ALL_TENANTS else None
    given = dict(body)
    if default is not None:
        given.setdefault("kind", default.kind.value)
    read = RULE_OPTIONS.read_all(given, lambda option: option)
    kind: RuleKind = read["kind"]
    if default is not None and kind is not default.kind:
        raise InvalidInput("kind", f"the rule {name!r} watches {default.kind.value}; give it another name")
    if kind in SHARED_KINDS and tenant != ALL_TENANTS:
        raise InvalidInput("kind", f"{kind.value} is about what all tenants share: let it be a shared rule")
    namesake = DEFAULT_RULES.get(name)
    usual = namesake if namesake is not None and namesake.kind is kind else _USUAL[kind]
    for option in ("threshold", "period"):
        is_given = read[option] is not None
        if is_given and getattr(usual, option) is None:
            raise InvalidInput(option, f"a rule of kind {kind.value} judges by no {option}")
        if not is_given:
            read[option] = getattr(usual, option)
    _check_bounds(kind, read["threshold"], read["period"])
    for option in ("hold", "severity"):
        if RULE_OPTIONS.get(option).key not in given and option not in given:
            read[option] = getattr(usual, option)
    return AlertRule(tenant=tenant, name=name, is_default=default is not None, **read)


def _check_bounds(kind: RuleKind, threshold: int | float | None, period: timedelta | None) -> None:
    if kind not in _BROKEN and isinstance(threshold, float):
        raise InvalidInput("threshold", f"a rule of kind {kind.value} judges by a whole number")
    bounds = _BOUNDS.get(kind)
    if bounds is None:
        return
    low, high = bounds.threshold
    if threshold is not None and not low <= threshold <= high:
        raise InvalidInput(
            "threshold",
            f"a rule of kind {kind.value} judges by {bounds.what}: it must be from {low:g} to {high:g}",
        )
    shortest, longest = bounds.period
    if period is not None and not shortest <= period <= longest:
        raise InvalidInput(
            "period", f"must be from {show(shortest)} to {show(longest)} for a rule of kind {kind.value}"
        )
