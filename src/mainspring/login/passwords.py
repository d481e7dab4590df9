"""Passwords by Argon2id, in a few threads of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from mainspring.errors import MissingExtra, TooMany

if TYPE_CHECKING:
    import argon2

T = TypeVar("T")
AT_ONCE = 2
"""Hashes that are made at once: each takes a core and 19 MiB for some ten milliseconds."""
MOST_WAITING = 32
"""Callers that wait for one. More are refused at once, so that guesses cannot pile up."""
_PASSES, _KIBIBYTES, _LANES = 2, 19 * 1024, 1
"""What OWASP recommends of Argon2id."""
_EMPTY = "no account has this one"


class Argon2Hasher:
    """`PasswordHasher` by Argon2id. Nothing is imported, and no thread started, before the first password."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="mainspring-password")
        self._hasher: argon2.PasswordHasher | None = None
        self._nobodys: str | None = None
        self._waiting = 0

    async def hash(self, password: str) -> str:
        """See `PasswordHasher`."""
        hasher = self._open()
        return await self._run(lambda: hasher.hash(password))

    async def verify(self, kept: str | None, password: str) -> bool:
        """See `PasswordHasher`."""
        hasher = self._open()
        if self._nobodys is None:
            self._nobodys = await self._run(lambda: hasher.hash(_EMPTY))
        against = self._nobodys if kept is None else kept
        return await self._run(lambda: _verify(hasher, against, password)) and kept is not None

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _open(self) -> argon2.PasswordHasher:
        if self._hasher is None:
            try:
                import argon2
            except ImportError:
                raise MissingExtra("signing in with a password", "login") from None
            self._hasher = argon2.PasswordHasher(
                time_cost=_PASSES, memory_cost=_KIBIBYTES, parallelism=_LANES, type=argon2.Type.ID
            )
        return self._hasher

    async def _run(self, work: Callable[[], T]) -> T:
        if self._waiting >= MOST_WAITING:
            raise TooMany("password", "too many sign in at this moment; try again", retry_after=1)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._waiting -= 1


def _verify(hasher: argon2.PasswordHasher, kept: str, password: str) -> bool:
    import argon2.exceptions as failures

    try:
        return hasher.verify(kept, password)
    except (failures.VerificationError, failures.InvalidHashError):
        return False
