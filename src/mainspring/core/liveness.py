"""Decides who is alive, by counters and the judge's monotonic clock, never by time stamps (design 5).

A heartbeat raises a counter. A judge declares a loss only if it has itself seen the same counter for three periods,
and all of its reads in that time succeeded. So neither a store outage nor a clock jump makes a live owner count as
dead.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar

from mainspring.core.values import value

PERIODS_OF_SILENCE = 3
_MAX_READ_GAP = 1.5
"""Reads further apart than this many periods interrupt the watch."""

K = TypeVar("K")


class Pulse(NamedTuple):
    """A counter as read, and the period in seconds at which its owner promised to raise it."""

    beats: int
    period: float


@value()
class Sighting:
    """A pulse, and when its counter was first seen at this value (in monotonic seconds).

    Attributes:
        alive_since: since when the owner has been watched without a silence.
    """

    pulse: Pulse
    since: float
    alive_since: float


@value()
class Watch(Generic[K]):
    """What a judge remembers from one check to the next."""

    sightings: Mapping[K, Sighting]
    observed_at: float


def observe(watch: Watch[K] | None, pulses: Mapping[K, Pulse], *, at: float) -> tuple[Watch[K], list[K]]:
    """Compare all counters with the last check, and say which owners have been silent for three of their periods.

    Args:
        watch: the result of the previous check; None at the first one.
        pulses: the counters that were just read successfully.
        at: the judge's monotonic clock, in seconds.

    Returns:
        What to remember, and the keys that are silent, in the order of `pulses`.
    """
    observed_at = watch.observed_at if watch is not None else -math.inf
    known = watch.sightings if watch is not None else {}
    sightings: dict[K, Sighting] = {}
    silent: list[K] = []
    for key, pulse in pulses.items():
        is_watching = at - observed_at <= pulse.period * _MAX_READ_GAP
        seen = known.get(key) if is_watching else None
        if seen is None:
            seen = Sighting(pulse, at, at)
        elif seen.pulse != pulse:
            was_silent = _is_silent(seen, observed_at)
            seen = Sighting(pulse, at, at if was_silent else seen.alive_since)
        elif _is_silent(seen, at):
            silent.append(key)
        sightings[key] = seen
    return Watch(sightings, at), silent


def list_settled(watch: Watch[K]) -> list[K]:
    """Return the keys whose counters have kept rising for three periods.

    Trusting a node takes as long as giving it up.
    """
    return [
        key
        for key, seen in watch.sightings.items()
        if seen.since - seen.alive_since >= PERIODS_OF_SILENCE * seen.pulse.period
        and not _is_silent(seen, watch.observed_at)
    ]


def _is_silent(seen: Sighting, at: float) -> bool:
    return at - seen.since >= PERIODS_OF_SILENCE * seen.pulse.period


def forget(watch: Watch[K], keys: Collection[K]) -> Watch[K]:
    """Return the watch without these keys, because they gave a sign of life that no counter shows."""
    left = {key: seen for key, seen in watch.sightings.items() if key not in keys}
    return replace(watch, sightings=left)
