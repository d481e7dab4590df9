"""Decides which runs may be claimed, and by whom. Both SQL dialects do the same, by `stores/_sql/fragments.sql`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum

from mainspring.core.ids import LaneId
from mainspring.core.limits import LINED_UP
from mainspring.core.states import READY_STATES, RunState


def is_ready(state: RunState, *, is_parked: bool) -> bool:
    """Say whether a run waits only for its time, not for parents or in a line for room under its limits."""
    return state in READY_STATES and not is_parked


def must_be_alone(crashes: int) -> bool:
    """Say whether a run has crashed a worker, so that it must be claimed alone."""
    return crashes > 0


def is_expired(expires_at: datetime | None, now: datetime) -> bool:
    """Say whether it is too late to start the run."""
    return expires_at is not None and expires_at <= now


def may_start_at_once(
    *, is_plain: bool, due_at: datetime, expires_at: datetime | None, now: datetime
) -> bool:
    """Say whether a run may be claimed in the transaction that submits it.

    Args:
        is_plain: the submission has no key and no reason to skip the run.
    """
    return is_plain and due_at <= now and not is_expired(expires_at, now)


class Turn(StrEnum):
    """What a claim's number says about the claim."""

    NEW = "new"
    REPEAT = "repeat"
    LATE = "late"
    OUTDATED = "outdated"


def judge_turn(number: int, last: int, *, policy_epoch: int = 0, session_epoch: int = 0) -> Turn:
    """Compare a claim's number with the session's last one. A lower number is late: its caller has given it up.

    A new claim is outdated if what restricts claims has changed since its lanes were chosen.

    Args:
        policy_epoch: that of the claim.
        session_epoch: that of the session, which every change of the restrictions raises.
    """
    if number == last:
        return Turn.REPEAT
    if number < last:
        return Turn.LATE
    return Turn.NEW if policy_epoch == session_epoch else Turn.OUTDATED


def allowance(limit: int, *, is_quarantined: bool, is_busy: bool, is_busy_with_quarantined: bool) -> int:
    """Return how many runs a session may be given.

    Args:
        is_quarantined: the claim is for a run that must run alone.
        is_busy: the session is running something.
        is_busy_with_quarantined: it is running a quarantined run.
    """
    if is_quarantined:
        return 0 if is_busy else min(limit, 1)
    return 0 if is_busy_with_quarantined else limit


class Quotas:
    """How many runs each lane may still give in one call for claims. Requests with the same quotas share them."""

    def __init__(self) -> None:
        self._left: dict[int, dict[LaneId, int]] = {}

    def left(self, quotas: Mapping[LaneId, int], *, is_quarantined: bool) -> dict[LaneId, int]:
        """Return what is left of a request's quotas, for the caller to reduce. Other lanes have no bound.

        Args:
            is_quarantined: the request is for a quarantined run, to which quotas do not apply.
        """
        return {} if is_quarantined else self._left.setdefault(id(quotas), dict(quotas))


def accepts_route(
    route: str, *, types: frozenset[str], functions: frozenset[str], labels: frozenset[str]
) -> bool:
    """Say whether a worker with these abilities can run the jobs of a route (see `JobSpec.route`)."""
    parts = unfold_route(route)
    if not labels.issuperset(required_labels(parts)):
        return False
    kind, name = target_of(parts)
    return name in functions if kind == "function" else kind in types


def unfold_route(route: str) -> list[str]:
    """Return the parts of a route: what its target's type says, then what its runs need."""
    return [part.replace("%2B", "+").replace("%25", "%") for part in route.split("+")]


def target_of(parts: Sequence[str]) -> tuple[str, str]:
    """Return the target's type, and the name of its function; empty for other types."""
    kind, _, name = parts[0].partition(":")
    return kind, name


def required_labels(parts: Sequence[str]) -> frozenset[str]:
    """Return the labels that a worker must offer."""
    return frozenset(label for label in parts[1:] if label != LINED_UP)
