"""Short names for lanes, for hints between processes that know them under no common number."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

from mainspring.core.model import LaneKey

MOST_MARKS = 50
"""Lanes that one hint names, at most. If runs of more are ready, it names none."""
_REMEMBERED = 65_536


@lru_cache(maxsize=_REMEMBERED)
def mark_of(key: LaneKey) -> str:
    """Return a lane's mark: 12 hexadecimal digits. Lanes that share one are only looked at once too often."""
    text = "\0".join((key.queue, key.route, key.tenant, str(int(key.priority))))
    return blake2b(text.encode(), digest_size=6).hexdigest()
