"""Ends a process without keys as soon as another one has begun to encrypt their store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from inspect import iscoroutinefunction
from typing import Any, cast

import structlog

from mainspring.errors import InvalidInput, MainspringError, StoreUnavailable
from mainspring.ports.clock import Waiter
from mainspring.ports.store import Store

PERIOD = 2.0
"""Seconds between two looks: so long a process without keys may go on beside the first one with keys."""
_log = structlog.get_logger(__name__)


class KeyWatch:
    """Looks whether the store is encrypted meanwhile, and then breaks off what the process does.

    From that look on, nothing is written that would have to be encrypted. What is already encrypted is given out by no
    process without keys anyway.

    Attributes:
        store: stands for the store, and is to be used in its place.
    """

    name = "key_watch"

    def __init__(self, store: Store, *, waiter: Waiter) -> None:
        self._barred = _Barred(store)
        self.store: Store = cast("Store", self._barred)
        self.waiter: Waiter = waiter
        self._error: MainspringError | None = None
        self._task: asyncio.Task[Any] | None = None

    async def tick(self, now: datetime) -> float:
        """Look once."""
        del now
        if self._error is None and (keys := await self.store.list_encryption_keys()):
            self._break_off(keys[0].id)
        return PERIOD

    @asynccontextmanager
    async def breaking_off(self) -> AsyncIterator[None]:
        """Let the block be broken off.

        Raises:
            InvalidInput: the store is encrypted meanwhile.
        """
        if self._error is not None:
            raise self._error
        self._task = task = asyncio.current_task()
        try:
            yield
        except asyncio.CancelledError:
            if self._error is None or task is None or task.uncancel():
                raise
            raise self._error from None
        finally:
            self._task = None

    def _break_off(self, key_id: str) -> None:
        message = (
            f"is not set, but this store is encrypted since a moment ago, with the key {key_id!r};"
            " give the file that the other servers have, and start this process again"
        )
        self._error = InvalidInput("keys_file", message)
        self._barred.bar()
        _log.error("encryption_began_elsewhere", key=key_id, then="this process stops")
        if self._task is not None:
            self._task.cancel()


class _Barred:
    """Stands for a store. Once it is barred, the verbs refuse that write what users put in.

    The others go on, so that the process can hand back what it holds, and leave.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def bar(self) -> None:
        from mainspring.encryption.store import WRITING

        self.__dict__ |= dict.fromkeys(WRITING, _refuse)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if iscoroutinefunction(found):
            self.__dict__[name] = found  # so that it is found without coming here
        return found


async def _refuse(*args: object, **given: object) -> Any:
    """Refuse any verb."""
    del args, given
    raise StoreUnavailable("the store is encrypted, and this process has no keys_file; it stops")
