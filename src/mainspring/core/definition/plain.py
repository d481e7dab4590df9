"""The full form of a definition, and back: an exact round trip."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from mainspring.core.cron import Cron
from mainspring.core.model import Delivery, JobSpec, Misfire, MisfireRule, Overlap, Priority, Target
from mainspring.core.retry import Backoff, RetryPolicy
from mainspring.core.triggers import Interval, Once, Trigger

_REMEMBERED = 1024
"""Policies and durations of which one value serves all definitions: most are alike, and a scheduler holds many."""


def plain_from_spec(spec: JobSpec) -> dict[str, Any]:
    """Return the full form: dicts, lists, strings, numbers and None only."""
    return {
        "name": spec.name,
        "target": {"type": spec.target.type, **spec.target.params},
        "trigger": _plain_trigger(spec.trigger),
        "payload": None if spec.payload is None else json.loads(spec.payload),
        "priority": spec.priority.name,
        "queue": spec.queue,
        "labels": list(spec.labels),
        "retry": _plain_retry(spec.retry),
        "misfire": {
            "policy": spec.misfire.policy.value,
            "grace_seconds": _seconds(spec.misfire.grace),
            "max_count": spec.misfire.max_count,
            "max_age_seconds": _seconds(spec.misfire.max_age),
        },
        "overlap": spec.overlap.value,
        "delivery": spec.delivery.value,
        "timeout_seconds": _seconds(spec.timeout),
        "soft_timeout_seconds": _optional_seconds(spec.soft_timeout),
        "jitter_seconds": _seconds(spec.jitter),
        "expires_after_seconds": _optional_seconds(spec.expires_after),
        "poison_limit": spec.poison_limit,
    }


def spec_from_plain(plain: Mapping[str, Any]) -> JobSpec:
    """Read a full form that `plain_from_spec` wrote; it is trusted, not checked."""
    target = dict(plain["target"])
    retry, misfire = plain["retry"], plain["misfire"]
    payload = plain["payload"]
    return JobSpec(
        name=plain["name"],
        target=Target(target.pop("type"), target),
        trigger=_trigger(plain["trigger"]),
        payload=None if payload is None else encode_payload(payload),
        priority=Priority[plain["priority"]],
        queue=plain["queue"],
        labels=tuple(plain["labels"]),
        retry=_retry(
            retry["max_retries"],
            retry["backoff"],
            retry["delay_seconds"],
            retry["cap_seconds"],
            tuple(retry["delays_seconds"]),
            retry["jitter"],
        ),
        misfire=_misfire(
            misfire["policy"], misfire["grace_seconds"], misfire["max_count"], misfire["max_age_seconds"]
        ),
        overlap=Overlap(plain["overlap"]),
        delivery=Delivery(plain["delivery"]),
        timeout=_duration(plain["timeout_seconds"]),
        soft_timeout=_optional_duration(plain["soft_timeout_seconds"]),
        jitter=_duration(plain["jitter_seconds"]),
        expires_after=_optional_duration(plain["expires_after_seconds"]),
        poison_limit=plain["poison_limit"],
    )


def encode_payload(value: object) -> bytes:
    """Return the one JSON text of a payload that is kept: compact, in UTF-8.

    Raises:
        ValueError: it holds NaN or an infinity, or text that is not Unicode.
        RecursionError: it is nested too deep.
    """
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _plain_trigger(trigger: Trigger | None) -> dict[str, Any] | None:
    match trigger:
        case None:
            return None
        case Once():
            return {"type": "once", "at": trigger.at.isoformat()}
        case Interval():
            return {
                "type": "interval",
                "every_seconds": _seconds(trigger.every),
                "anchor": trigger.anchor.isoformat(),
            }
        case Cron():
            return {"type": "cron", "expression": trigger.expression, "tz": trigger.tz, "dst": trigger.dst}


def _trigger(plain: Mapping[str, Any] | None) -> Trigger | None:
    if plain is None:
        return None
    if plain["type"] == "once":
        return Once(datetime.fromisoformat(plain["at"]))
    if plain["type"] == "interval":
        return Interval(_duration(plain["every_seconds"]), datetime.fromisoformat(plain["anchor"]))
    return Cron.kept(plain["expression"], plain["tz"], plain["dst"])


def _plain_retry(retry: RetryPolicy) -> dict[str, Any]:
    return {
        "max_retries": retry.max_retries,
        "backoff": retry.backoff.value,
        "delay_seconds": _seconds(retry.delay),
        "cap_seconds": _seconds(retry.cap),
        "delays_seconds": [_seconds(delay) for delay in retry.delays],
        "jitter": retry.jitter,
    }


@lru_cache(maxsize=_REMEMBERED)
def _retry(
    max_retries: int, backoff: str, delay: float, cap: float, delays: tuple[float, ...], jitter: float
) -> RetryPolicy:
    return RetryPolicy(
        max_retries=max_retries,
        backoff=Backoff(backoff),
        delay=_duration(delay),
        cap=_duration(cap),
        delays=tuple(_duration(delay) for delay in delays),
        jitter=jitter,
    )


@lru_cache(maxsize=_REMEMBERED)
def _misfire(policy: str, grace: float, max_count: int, max_age: float) -> MisfireRule:
    return MisfireRule(
        policy=Misfire(policy), grace=_duration(grace), max_count=max_count, max_age=_duration(max_age)
    )


@lru_cache(maxsize=_REMEMBERED)
def _seconds(duration: timedelta) -> int | float:
    """Return whole seconds as an int, others as the float that gives the same duration back."""
    whole, rest = divmod(duration, timedelta(seconds=1))
    return whole if not rest else duration / timedelta(seconds=1)


@lru_cache(maxsize=_REMEMBERED)
def _duration(seconds: float) -> timedelta:
    return timedelta(microseconds=round(seconds * 1_000_000))


def _optional_seconds(duration: timedelta | None) -> int | float | None:
    return None if duration is None else _seconds(duration)


def _optional_duration(seconds: float | None) -> timedelta | None:
    return None if seconds is None else _duration(seconds)
