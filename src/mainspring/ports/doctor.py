"""Looks at a store without opening it as `Store`: nothing is changed, whoever uses it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from mainspring.core.ciphertexts import KeyUses
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

    async def count_key_uses(self, key_ids: Sequence[str]) -> Mapping[str, KeyUses]:
        """Return what cannot be read without each of these keys; nothing if it cannot be counted.

        It reads all jobs, live runs and dead letters, so it is for keys that are missing.
        """
        ...
