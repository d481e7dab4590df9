"""How what takes long lets others have their turn, and how long it rests before it looks again."""

from __future__ import annotations

from collections.abc import Generator
from types import coroutine

SHARE = 0.05
"""The share of the time that looks may take, unless something else is said."""


class Pacing:
    """Lets looks take a share of the time, as long as that keeps nobody waiting for too long.

    A single look that takes long does not count: it says more of a store or a machine that stalled than of what looks
    cost. So the next rest goes by the shorter one of the last two looks. But a look that failed counts: it would have
    taken even longer, and so would the next one.

    Args:
        longest: the most seconds to rest, however long looks take.
        share: of the time, greater than 0.
    """

    __slots__ = ("_before", "_longest", "_share")

    def __init__(self, *, longest: float, share: float = SHARE) -> None:
        self._longest = longest
        self._share = share
        self._before = 0.0

    def rest(self, took: float, *, has_failed: bool = False) -> float:
        """Return how many seconds to rest after a look that has just ended, or failed, after so many seconds."""
        usual = took if has_failed else min(took, self._before)
        self._before = took
        return min(usual / self._share, self._longest)


@coroutine
def give_way() -> Generator[None, None, None]:
    """Let everything else that is ready on this thread go first."""
    yield
