"""S36: a cluster starts when none of its servers lives, and then each job at start fires once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from tools.judge.model import Change, ClusterStart, Fault, History, Life, Violation
from tools.judge.oracle import Starts

_SETTLES = timedelta(seconds=5)
"""How long a server takes to see what it needs beside the silence of those before it, on a busy host."""
_ENDS = frozenset({"kill", "stop", "crash"})
_OF_ALL = frozenset({"outage", "full", "late"})
"""Faults that may deceive every server: a heartbeat that is carried out late makes one that is gone look alive."""


def tell_starts(changes: Iterable[Change], starts: Sequence[ClusterStart]) -> list[Change]:
    """Return the changes of jobs with the instants of all starts as the trigger of those that fire at start."""
    trigger = Starts(tuple(start.at for start in starts))
    return [
        replace(change, spec=replace(change.spec, trigger=trigger))
        if type(change.spec.trigger).__name__ == "AtStart"
        else change
        for change in changes
    ]


def judge_starts(history: History, counts: Counter[str]) -> Iterator[Violation]:
    """S36, as far as it is sure which servers lived untroubled. That the fires are right is for S1 and S2."""
    for before, start in zip((None, *history.starts), history.starts, strict=False):
        counts["cluster_starts"] += 1
        if before is None:
            continue
        counts["cluster_starts_again"] += 1
        member = _untroubled_member(history, before, start)
        if member is not None:
            why = f"{start.node} starts the cluster, though {member.process} lives since {member.since.isoformat()}"
            yield Violation("S36", start.node, (f"{start.at.isoformat()} {why}", *_tell(history)))
    for life in history.lives:
        by = life.since + _patience(history)
        if not _is_first(history, life) or not _is_untroubled(history, life, life.since, by):
            continue
        counts["cluster_starts_owed"] += 1
        if not any(life.since - history.slack <= start.at <= by for start in history.starts):
            why = f"{life.process} is alone from {life.since.isoformat()} on, and starts no cluster"
            yield Violation("S36", life.process, (why, *_tell(history)))


def _patience(history: History) -> timedelta:
    """Return how long it takes until the silence of the dead is noticed."""
    return 2 * history.lease + _SETTLES


def _untroubled_member(history: History, before: ClusterStart, start: ClusterStart) -> Life | None:
    """Return a server that was surely a member of the cluster of the start before, and lived untroubled until now."""
    members: list[Life] = []
    for life in history.lives:
        if life.process == before.node or any(_have_met(history, life, one, before.at) for one in members):
            members.append(life)
    silence = _patience(history)
    return next(
        (life for life in members if _is_untroubled(history, life, start.at - silence, start.at)), None
    )


def _have_met(history: History, one: Life, other: Life, since: datetime) -> bool:
    """Say whether two servers surely saw each other live when the later one began."""
    low = max(one.since, other.since, since)
    high = low + _patience(history)
    return _is_untroubled(history, one, low, high) and _is_untroubled(history, other, low, high)


def _is_first(history: History, life: Life) -> bool:
    """Say whether no server lived when this one began."""
    return not any(
        other.since < life.since and (other.until is None or other.until >= life.since - history.slack)
        for other in history.lives
    )


def _is_untroubled(history: History, life: Life, low: datetime, high: datetime) -> bool:
    """Say whether a server lived from one instant to the other, and nothing was done to it or to the store."""
    if life.since > low or (life.until is not None and life.until < high) or high > history.read_at:
        return False
    return not any(
        fault.at <= high and fault.until >= low - history.lease and _hits(fault, life)
        for fault in history.faults
    )


def _hits(fault: Fault, life: Life) -> bool:
    """Say whether a fault hits a server's process. What ended the process before it does not."""
    if fault.kind in _ENDS:
        return fault.target == life.node and fault.at >= life.since
    return fault.target == life.node or fault.kind in _OF_ALL


def _tell(history: History) -> tuple[str, ...]:
    lines = [(life.since, f"{life.process} begins") for life in history.lives]
    lines += [(life.until, f"{life.process} ends") for life in history.lives if life.until is not None]
    lines += [(start.at, f"{start.node} starts the cluster") for start in history.starts]
    return tuple(f"{at.isoformat()} {text}" for at, text in sorted(lines))
