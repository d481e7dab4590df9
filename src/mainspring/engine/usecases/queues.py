"""Use cases on queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.core.fields import read_word
from mainspring.core.queues import Queue, change_queue
from mainspring.ports.store import Store


class Queues:
    """What is set for queues. A queue need not be created: it is there when a job names it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, name: str) -> Queue:
        """Return a queue's settings, the defaults if nothing was set.

        Raises:
            InvalidInput: this cannot be a queue's name.
        """
        return (await self._read()).get(read_word(name, "queue"), Queue(name=name))

    async def list_page(self, *, after: str | None = None, limit: int = 100) -> list[Queue]:
        """Return a page of the queues for which something was set, by name."""
        queues = await self._read()
        names = sorted(name for name in queues if after is None or name > after)
        return [queues[name] for name in names[:limit]]

    async def put(self, name: str, body: Mapping[str, Any]) -> tuple[Queue, bool]:
        """Set what a body says, and the defaults for what it leaves out. Return that, and whether nothing was set.

        Raises:
            InvalidInput: a value is wrong. Nothing is stored.
        """
        queue = change_queue(Queue(name=read_word(name, "queue")), body)
        [is_new] = await self._store.write_queues([queue])
        return queue, is_new

    async def _read(self) -> Mapping[str, Queue]:
        policies = await self._store.read_policies()
        assert policies is not None, "nothing is known, so all is read"
        return policies.queues
