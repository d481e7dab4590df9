"""Looks at a store without opening it as `Store`: nothing is changed, whoever uses it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from mainspring.core.doctor import StoreLook


class StoreExaminer(Protocol):
    """A store that can be looked at as a whole."""

    async def look(self, *, monotonic: Callable[[], float], now: Callable[[], datetime]) -> StoreLook:
        """Return what is found. That it cannot be read, is found too.

        Args:
            monotonic: measures how long reads and writes take, in seconds.
            now: this host's clock, with which the store's is compared.
        """
        ...
