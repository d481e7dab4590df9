"""Who is alive, told by counters and the judge's own monotonic clock, never by time stamps (design 5).

A heartbeat raises a counter. Whoever judges declares a loss only after it has itself seen the same counter
through three periods, with successful reads all along: neither a store outage nor a jump of any clock declares
anybody dead.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

PERIODS_OF_SILENCE = 3
_MAX_READ_GAP = 1.5
"""Reads further apart than this many periods do not count as watching all along."""

K = TypeVar("K")


class Pulse(NamedTuple):
    """A counter as it was read, and how many seconds apart whoever raises it said to do so."""

    beats: int
    period: float


@dataclass(frozen=True, slots=True)
class Sighting:
    """A pulse and when (monotonic seconds) its counter was first seen at this value.

    Attributes:
        alive_since: when its owner was first seen; it was watched, and never silent, since.
    """

    pulse: Pulse
    since: float
    alive_since: float


@dataclass(frozen=True, slots=True)
class Watch(Generic[K]):
    """What a judge remembers from one look to the next."""

    sightings: Mapping[K, Sighting]
    looked_at: float


def look(watch: Watch[K] | None, pulses: Mapping[K, Pulse], *, at: float) -> tuple[Watch[K], list[K]]:
    """Take a look at all counters and say who has been silent for three periods of its own.

    Args:
        watch: what the previous look returned; None at the first one.
        pulses: what was just read successfully.
        at: the judge's monotonic clock, seconds.

    Returns:
        What to remember, and the keys that are silent, in the order of `pulses`.
    """
    looked_at = watch.looked_at if watch is not None else -math.inf
    known = watch.sightings if watch is not None else {}
    sightings: dict[K, Sighting] = {}
    silent: list[K] = []
    for key, pulse in pulses.items():
        is_watching = at - looked_at <= pulse.period * _MAX_READ_GAP
        seen = known.get(key) if is_watching else None
        if seen is None:
            seen = Sighting(pulse, at, at)
        elif seen.pulse != pulse:
            was_silent = _is_silent(seen, looked_at)
            seen = Sighting(pulse, at, at if was_silent else seen.alive_since)
        elif _is_silent(seen, at):
            silent.append(key)
        sightings[key] = seen
    return Watch(sightings, at), silent


def list_settled(watch: Watch[K]) -> list[K]:
    """Return the keys whose counters were seen to rise over three periods: as long to be trusted as to be given up."""
    return [
        key
        for key, seen in watch.sightings.items()
        if seen.since - seen.alive_since >= PERIODS_OF_SILENCE * seen.pulse.period
        and not _is_silent(seen, watch.looked_at)
    ]


def _is_silent(seen: Sighting, at: float) -> bool:
    return at - seen.since >= PERIODS_OF_SILENCE * seen.pulse.period


def forget(watch: Watch[K], keys: Collection[K]) -> Watch[K]:
    """Return the watch without what it has seen of these keys: they gave a sign of life that is in no counter."""
    left = {key: seen for key, seen in watch.sightings.items() if key not in keys}
    return replace(watch, sightings=left)
