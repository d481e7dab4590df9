"""Limits: how many runs of a job, or of a key, may be under way at a time, and how often they may start.

A run with limits has up to three keys. It waits in the line of the first one, and starts when all of them have room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING
from uuid import UUID

from mainspring.core.batching import TAKES_BATCHES, LineSize, rule_name
from mainspring.core.ids import JobId
from mainspring.core.keypath import KeyPath, decode_for_key, parse
from mainspring.core.rates import Rate
from mainspring.core.values import value

if TYPE_CHECKING:
    from mainspring.core.model import JobSpec

MOST_LIMITS = 3
"""Limits of one job, at most."""
MOST_RUNNING = 100_000
CLUSTER = "*"
"""Stands for a tenant where rules are kept that hold for the whole cluster. No tenant can have this name."""
LINED_UP = "*keys"
"""The last part of the route of runs that wait in lines. It is no label, so releases that do not know of limits leave
the lanes of such runs alone."""


_HEX_DIGITS = 32


class Hold(StrEnum):
    """How long a run takes up its place under a limit."""

    ATTEMPT = "attempt"
    RUN = "run"


@value(kw_only=True)
class JobLimit:
    """One entry of a job's `concurrency`: a limit of its own, or the name of one that jobs share.

    Attributes:
        limit: how many may be under way at a time; None is no cap.
        key: text, or a path into the payload, which makes one line for each value; None is one line for all.
        rate: how often they may start; None is no bound.
        burst: how many may start at once after a pause; None is what the rate gives in a second.
        hold: until when a run counts: the end of its attempt, or its own end.
        use: the name of a shared limit, which then says all but the key.
    """

    limit: int | None = None
    key: str | None = None
    rate: Rate | None = None
    burst: int | None = None
    hold: Hold = Hold.ATTEMPT
    use: str | None = None


@value(kw_only=True)
class LimitRule:
    """What holds for all keys of one limit.

    Attributes:
        name: as users name it; that of a job's own limit is made of the job's id.
        job_id: the job whose own it is; None if it is shared.
        max_running: how many runs of one key may be under way at a time; None is no cap.
        burst: how many permits of the rate are kept; None is what the rate gives in a second.
        batch: not a limit, but how many runs of one key are given to one call; None is no batch.
    """

    name: str
    job_id: JobId | None = None
    max_running: int | None = None
    rate: Rate | None = None
    burst: int | None = None
    hold: Hold = Hold.ATTEMPT
    batch: LineSize | None = None

    @property
    def is_set(self) -> bool:
        """Whether it bounds anything. One that does not stays in the store for the runs that stand under it."""
        return self.max_running is not None or self.rate is not None or self.batch is not None

    def lifted(self) -> LimitRule:
        """Return the rule without its bounds."""
        return replace(self, max_running=None, rate=None, burst=None, batch=None)


@value()
class RunKey:
    """What a run is counted under: the name of the limit, and the key."""

    limit: str
    key: str


def own_limit_name(job_id: JobId, place: int) -> str:
    """Return the name of a job's own limit, by its place in `concurrency`. No user can give a name with a colon."""
    return f"{job_id.hex}:{place}"


def overlap_limit_name(job_id: JobId) -> str:
    """Return the name of the rule by which a job's runs follow one another. An edit of its limits does not move it."""
    return f"{job_id.hex}:overlap"


def line_key(job_id: JobId) -> RunKey:
    """Return the key of the line in which the runs of a job follow one another."""
    return RunKey(overlap_limit_name(job_id), "")


def job_of_limit(name: str) -> JobId | None:
    """Return the job whose own limit has this name; None if jobs share it, or it is the cap of a lane."""
    job, colon, _ = name.partition(":")
    return JobId(UUID(job)) if colon and len(job) == _HEX_DIGITS else None


def rules_of(job_id: JobId, spec: JobSpec) -> list[LimitRule]:
    """Return the rules of a job's own limits, that of its line if its runs follow one another, and of its batches."""
    if spec.batch is not None:
        size = LineSize(spec.batch.size, spec.batch.wait)
        return [LimitRule(name=rule_name(job_id), job_id=job_id, batch=size)]
    rules = [
        LimitRule(
            name=own_limit_name(job_id, place),
            job_id=job_id,
            max_running=limit.limit,
            rate=limit.rate,
            burst=limit.burst,
            hold=limit.hold,
        )
        for place, limit in enumerate(spec.concurrency)
        if limit.use is None
    ]
    if spec.overlap.lines_up:
        rules.append(LimitRule(name=overlap_limit_name(job_id), job_id=job_id, max_running=1, hold=Hold.RUN))
    return rules


def kept_rules(job_id: JobId, spec: JobSpec) -> list[str]:
    """Return the names of a job's own rules that keep their bounds when it gets this definition.

    Only `allow` opens a line. If the job skips overlaps from now on, the runs in its line still follow one another.
    """
    names = [rule.name for rule in rules_of(job_id, spec)]
    return [*names, overlap_limit_name(job_id)] if spec.overlap.keeps_line else names


def used_limits(limits: Sequence[JobLimit]) -> list[str]:
    """Return the names of the shared limits that a job uses."""
    return list(dict.fromkeys(limit.use for limit in limits if limit.use is not None))


class KeyMaker:
    """Makes the keys of a job's runs."""

    __slots__ = ("_job_payload", "_made", "_paths")

    def __init__(self, job_id: JobId, spec: JobSpec) -> None:
        self._job_payload = spec.payload
        found = [
            (
                limit.use or own_limit_name(job_id, place),
                parse(limit.key) if limit.key else KeyPath(""),
                f"concurrency[{place}].key",
            )
            for place, limit in enumerate(spec.concurrency)
        ]
        # The line of a run is that of the first limit with a key: a job's cap alone would make one long line.
        first = next((place for place, limit in enumerate(spec.concurrency) if limit.key), 0)
        self._paths = [*found[first : first + 1], *found[:first], *found[first + 1 :]]
        if spec.overlap.lines_up:  # but runs that follow one another stand in one, in their order
            self._paths.insert(0, (overlap_limit_name(job_id), KeyPath(""), "overlap"))
        if spec.batch is not None:
            path = parse(spec.batch.key) if spec.batch.key else KeyPath("")
            self._paths = [(rule_name(job_id), path, "batch.key")]
        is_fixed = not any(path.steps for _, path, _ in self._paths)
        self._made = self._make(None) if is_fixed else None

    def make(self, payload: bytes | None) -> tuple[RunKey, ...]:
        """Return the keys of a run, that of its line first.

        Args:
            payload: the run's own; None is the job's.

        Raises:
            InvalidInput: the payload has not what a key is made of.
        """
        if self._made is None:
            return self._make(decode_for_key(self._job_payload if payload is None else payload))
        return self._made

    def _make(self, payload: object) -> tuple[RunKey, ...]:
        # A job may use a limit twice, and both may come to the same key. The run has one place under it all the same.
        return tuple(
            dict.fromkeys(RunKey(limit, path.extract(payload, field)) for limit, path, field in self._paths)
        )


REASON_NO_KEY = "no_key"
"""The reason of an event's run that is skipped, because the event has not what a key of its job is made of."""


def keys_of(job_id: JobId, spec: JobSpec, payload: bytes | None = None) -> tuple[RunKey, ...]:
    """Return the keys of one run; none for most jobs.

    Raises:
        InvalidInput: the payload has not what a key is made of.
    """
    return KeyMaker(job_id, spec).make(payload) if spec.is_lined_up else ()


def is_lined_up(route: str) -> bool:
    """Say whether the runs of a route wait in lines."""
    return route.endswith(f"+{LINED_UP}")


def is_batched(route: str) -> bool:
    """Say whether one call takes many runs of a route."""
    return route.endswith(f"+{TAKES_BATCHES}+{LINED_UP}")
