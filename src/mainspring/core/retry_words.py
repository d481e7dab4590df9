"""Retry policies in words: what follows a failure, and when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from mainspring.core.fields import show
from mainspring.core.retry import RetryPolicy, RetryRule, Then, apply_rule, preview

_MOST = 8
"""How many instants are told."""
_TENTH = timedelta(milliseconds=100)


def tell_retries(policy: RetryPolicy) -> str:
    """Return when the retries of a run follow its first failure, not counting what the attempts themselves take."""
    if not policy.max_retries:
        return "none; the first failure is final"
    found = preview(policy)
    text = f"after {_list([show(instant) for instant in found.instants])}"
    if policy.jitter:
        text += f", each wait ±{policy.jitter:.0%}"
    return f"{text}; gives up {show(_rounded(found.latest))} after the first failure at the latest"


def tell_rule(policy: RetryPolicy, rule: RetryRule) -> str:
    """Return what a rule of the policy does."""
    causes = " or ".join(rule.on)
    if rule.then is Then.FAIL:
        return f"{causes}: fails at once"
    if rule.then is Then.SNOOZE:
        return f"{causes}: called again after {show(rule.delay or timedelta(0))}, at most {rule.max_snoozes:,} times"
    return f"{causes}: retries {tell_retries(apply_rule(policy, rule))}"


def _list(words: Sequence[str]) -> str:
    if len(words) <= _MOST:
        return ", ".join(words)
    return f"{', '.join(words[: _MOST - 1])}, … {words[-1]} ({len(words):,} in all)"


def _rounded(duration: timedelta) -> timedelta:
    """Return a duration to the second; a short one to the tenth."""
    unit = _TENTH if duration < timedelta(seconds=10) else timedelta(seconds=1)
    return unit * -(-duration // unit)
