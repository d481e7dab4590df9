"""What the rules of alerts judge by, and what each kind of rule finds in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from mainspring.core.alerting import MOST_SUBJECTS, Fact, Judgement
from mainspring.core.alerts import AlertRule, Channel, RuleKind, find_channel
from mainspring.core.census import Census
from mainspring.core.rights import ALL_TENANTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was read from the store, as of one look. None is what could not be read: nothing is judged by it.

    Attributes:
        census: the last count of all runs.
    """

    census: Census | None = None


def judge_rule(
    rule: AlertRule, seen: Seen, channels: Mapping[str, Channel], elsewhere: Collection[str], *, now: datetime
) -> Judgement:
    """Return what a rule finds.

    Args:
        channels: all channels, by key.
        elsewhere: tenants that have a rule of that name of their own, which holds for them in place of this one.
    """
    found = _JUDGES[rule.kind](rule, seen, now) if rule.enabled else ()
    facts = None if found is None else [fact for fact in found if _is_of(rule, fact, elsewhere)]
    if facts is not None:
        facts = sorted(facts, key=lambda fact: (fact.tenant, fact.subject))[:MOST_SUBJECTS]
    named = (find_channel(channels, rule.tenant, name) for name in rule.channels)
    return Judgement(
        tenant=rule.tenant,
        rule=rule.name,
        severity=rule.severity,
        hold=rule.hold,
        channels=tuple(channel.key for channel in named if channel is not None),
        facts=facts,
    )


def _is_of(rule: AlertRule, fact: Fact, elsewhere: Collection[str]) -> bool:
    if rule.tenant != ALL_TENANTS:
        return fact.tenant == rule.tenant
    return fact.tenant not in elsewhere


def _judge_dead_letters(rule: AlertRule, seen: Seen, now: datetime) -> Iterable[Fact] | None:
    del now
    return None if seen.census is None else _find_dead_letters(rule, seen.census)


def _find_dead_letters(rule: AlertRule, census: Census) -> Iterator[Fact]:
    for line in census.dead:
        if line.runs > (rule.threshold or 0) and rule.queue in {None, line.queue}:
            yield Fact(
                tenant=line.tenant,
                subject=f"queue:{line.queue}",
                value=float(line.runs),
                summary=f"{count(line.runs, 'open dead letter')} in queue {line.queue}",
            )


_JUDGES: Mapping[RuleKind, Callable[[AlertRule, Seen, datetime], Iterable[Fact] | None]] = MappingProxyType(
    {RuleKind.DEAD_LETTERS: _judge_dead_letters}
)


def count(number: int, noun: str) -> str:
    """Return a number with what it counts."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
