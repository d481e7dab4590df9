"""Finds the time zone that somebody probably meant."""

from __future__ import annotations

import zoneinfo
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from types import MappingProxyType

_CLOSE = 0.85
"""How alike two names must be, from 0 to 1: one letter wrong, missing or too many, and rarely another zone."""


def near_zone(key: str) -> str | None:
    """Return the zone with nearly this name, or of the town of this name; None if there is none."""
    known = _known()
    written = key.strip().replace(" ", "_").lower()
    if written in known:
        return known[written]
    close = get_close_matches(written, known, n=1, cutoff=_CLOSE)
    return known[close[0]] if close else None


@lru_cache(maxsize=1)
def _known() -> Mapping[str, str]:
    """Return the zones by their names in small letters, and by their towns where only one zone has that."""
    names = sorted(
        name for name in zoneinfo.available_timezones() if "/" in name and not name.startswith("Etc/")
    )
    towns: dict[str, list[str]] = {}
    for name in names:
        towns.setdefault(name.rpartition("/")[2].lower(), []).append(name)
    by_town = {town: found[0] for town, found in towns.items() if len(found) == 1}
    return MappingProxyType(by_town | {name.lower(): name for name in names})
