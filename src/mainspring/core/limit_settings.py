"""What is set for a limit that jobs share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.core.kinds import Choice, Whole
from mainspring.core.limits import MOST_RUNNING, Hold, LimitRule
from mainspring.core.options import Option, Options
from mainspring.core.rates import MOST_PER_PERIOD, RateText
from mainspring.errors import InvalidInput

MAX_RUNNING = Option(
    name="max_running",
    kind=Whole(1, MOST_RUNNING),
    default=None,
    is_nullable=True,
    summary="How many runs of one key may be under way at a time.",
)
RATE = Option(
    name="rate",
    kind=RateText(),
    default=None,
    is_nullable=True,
    summary="How often runs of one key may start.",
    detail="In any time, at most `burst` and what the rate gives in that time.",
    example="10/s",
)
BURST = Option(
    name="burst",
    kind=Whole(1, MOST_PER_PERIOD),
    default=None,
    is_nullable=True,
    summary="How many may start at once after a pause.",
    detail="As many as the rate gives in a second, and at least one, if nothing is said.",
)
HOLD = Option(
    name="hold",
    kind=Choice(Hold),
    default=Hold.ATTEMPT,
    summary="Until when a run counts.",
    detail="`attempt`: while an attempt is under way. `run`: until the run has ended, its retries included.",
)
LIMIT_OPTIONS = Options(MAX_RUNNING, RATE, BURST, HOLD)


def read_limit(name: str, body: Mapping[str, Any]) -> LimitRule:
    """Return the rule that a body describes.

    Raises:
        InvalidInput: a value is wrong, or it bounds nothing.
    """
    rule = LimitRule(name=name, **LIMIT_OPTIONS.read_all(body, lambda field: field))
    if not rule.is_set:
        raise InvalidInput("max_running", "is missing; a limit needs max_running, a rate, or both")
    if rule.burst is not None and rule.rate is None:
        raise InvalidInput("burst", "goes with a rate, which is not given")
    return rule
