"""Decides which submissions are refused for the time being: full queues and tenants, and rates that are used up.

A cap on what waits is soft. A count is at most about a second old, and what came in since is not in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from math import ceil
from typing import NamedTuple

from mainspring.core.rates import Bucket
from mainspring.core.values import value
from mainspring.errors import TooMany

MOST_QUEUED = 1_000_000
"""Counting more would take too long."""
SHORTEST_WAIT = 1
LONGEST_WAIT = 60
USUAL_WAIT = 5
"""Seconds to wait as long as nothing is known about how fast a backlog shrinks."""


class WaitingScope(NamedTuple):
    """Whose waiting runs are counted: those of a queue, or those of a tenant.

    Attributes:
        owner: `queue` or `tenant`.
    """

    owner: str
    name: str


class WaitingCount(NamedTuple):
    """A count that is wanted.

    Attributes:
        most: where to stop.
    """

    scope: WaitingScope
    most: int


def count_for(scope: WaitingScope, cap: int) -> WaitingCount:
    """Return the count that a cap needs: beyond the cap, to know how much there is too much of, but not without end."""
    return WaitingCount(scope, 2 * cap)


@value(kw_only=True)
class Backlog:
    """How many runs of a scope waited when they were last counted.

    Attributes:
        is_all: they were counted to the end.
        per_second: how many of them left in each second before; None if that is not known.
    """

    waiting: int
    is_all: bool
    per_second: float | None = None


def next_backlog(
    before: Backlog | None, count: WaitingCount, found: int, *, came: int, seconds: float
) -> Backlog:
    """Return the backlog by a new count.

    Args:
        before: by the count before; None if this is the first.
        found: how many were found.
        came: how many came in since the count before, as far as this process knows.
        seconds: how long ago that was.
    """
    is_all = found < count.most
    if before is None or seconds <= 0 or not (is_all and before.is_all):
        return Backlog(waiting=found, is_all=is_all, per_second=None if before is None else before.per_second)
    return Backlog(waiting=found, is_all=is_all, per_second=max(before.waiting + came - found, 0) / seconds)


def refuse_if_full(
    caps: Mapping[WaitingScope, int],
    backlogs: Mapping[WaitingScope, Backlog],
    wanted: Mapping[WaitingScope, int],
) -> None:
    """Refuse submissions that find no room.

    Args:
        caps: how many may wait in each scope.
        backlogs: how many do. A scope that is not there has not been counted, and refuses nobody.
        wanted: how many more there would be in each scope.

    Raises:
        TooMany: there is no room for all of them.
    """
    for scope, more in wanted.items():
        backlog = backlogs.get(scope)
        if backlog is None or backlog.waiting + more <= caps[scope]:
            continue
        raise _full(scope, backlog, cap=caps[scope], more=more)


def _full(scope: WaitingScope, backlog: Backlog, *, cap: int, more: int) -> TooMany:
    owner = f"{scope.owner} {scope.name!r}"
    if backlog.waiting == 1 and backlog.is_all:
        sentence = f"1 run of {owner} waits, and its max_queued is {cap:,}"
    else:
        waiting = f"{'' if backlog.is_all else 'at least '}{backlog.waiting:,}"
        sentence = f"{waiting} runs of {owner} wait, and its max_queued is {cap:,}"
    if more > cap:
        sentence += f"; {more:,} submissions at once never fit, so send fewer in a request"
    elif more > 1:
        sentence += f"; {more:,} more do not fit"
    return TooMany("max_queued", sentence, retry_after=seconds_to_wait(backlog, backlog.waiting + more - cap))


def seconds_to_wait(backlog: Backlog, excess: int) -> int:
    """Return after how many seconds so many runs will probably have left: 1 to 60."""
    if backlog.per_second is None:
        return USUAL_WAIT
    if backlog.per_second * LONGEST_WAIT <= excess:
        return LONGEST_WAIT
    return max(ceil(excess / backlog.per_second), SHORTEST_WAIT)


def count_wanted(scopes: Iterable[WaitingScope]) -> dict[WaitingScope, int]:
    """Return how many runs each scope would get."""
    wanted: dict[WaitingScope, int] = {}
    for scope in scopes:
        wanted[scope] = wanted.get(scope, 0) + 1
    return wanted


def take_permits(bucket: Bucket, count: int, now: datetime) -> tuple[Bucket, datetime | None]:
    """Take permits for submissions that come together. All or nothing.

    More than ever fit into the bucket may come when it is full. They leave a debt, which later ones wait for.

    Returns:
        The bucket as it is then, and the instant to come again at; None if the permits were given.
    """
    bucket = bucket.at(now)
    needed = min(count, bucket.burst)
    if bucket.permits >= needed:
        return bucket.take(count), None
    assert bucket.level is not None, "a bucket at an instant has a level"
    wait = (needed - bucket.level) / bucket.rate.count * bucket.rate.per
    return bucket, now + wait


def rate_is_used_up(tenant: str, rate: str, *, until: datetime, now: datetime) -> TooMany:
    """Return the refusal of a submission that comes too soon."""
    return TooMany(
        "submit_rate",
        f"tenant {tenant!r} submits more than its submit_rate, {rate}",
        retry_after=bounded_wait(until - now),
    )


def bounded_wait(wait: timedelta) -> int:
    """Return a wait in whole seconds, 1 to 60."""
    return min(max(ceil(wait.total_seconds()), SHORTEST_WAIT), LONGEST_WAIT)
