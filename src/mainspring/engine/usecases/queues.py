"""Use cases on queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mainspring.core.actors import Actor
from mainspring.core.audit import AuditEntry, entries, show_settings
from mainspring.core.fields import read_word
from mainspring.core.lane_caps import CapKey, CapScope, LaneCap
from mainspring.core.queues import QUEUE_OPTIONS, Queue, change_queue
from mainspring.engine.usecases import auditing
from mainspring.engine.usecases.caps import CapSwitch
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store


class Queues:
    """What is set for queues. A queue need not be created: it is there when a job names it."""

    def __init__(self, store: Store, caps: CapSwitch, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._caps = caps

    async def get(self, name: str) -> Queue:
        """Return a queue's settings, the defaults if nothing was set.

        Raises:
            InvalidInput: this cannot be a queue's name.
        """
        found = (await self._read()).get(read_word(name, "queue"), Queue(name=name))
        [queue] = await self._with_caps([found])
        return queue

    async def list_page(self, *, after: str | None = None, limit: int = 100) -> list[Queue]:
        """Return a page of the queues for which something was set, by name."""
        queues = await self._read()
        names = sorted(name for name in queues if after is None or name > after)
        return await self._with_caps([queues[name] for name in names[:limit]])

    async def running(self, queues: Sequence[Queue]) -> list[int | None]:
        """Return how many runs of each are under way, as far as they have caps."""
        names = [queue.name for queue in queues]
        return [cap.running for cap in await self._caps.show(CapScope.QUEUE, names)]

    async def _with_caps(self, queues: Sequence[Queue]) -> list[Queue]:
        caps = await self._caps.read()
        return [replace(queue, max_running=caps.get(CapKey(CapScope.QUEUE, queue.name))) for queue in queues]

    async def put(self, name: str, body: Mapping[str, Any], *, by: Actor | None = None) -> tuple[Queue, bool]:
        """Set what a body says, and the defaults for what it leaves out. Return that, and whether nothing was set.

        Raises:
            InvalidInput: a value is wrong. Nothing is stored.
            Conflict: it has a cap on what runs, and programs of an older release are running, which would not keep it.
                Nothing is stored.
        """
        queue = change_queue(Queue(name=read_word(name, "queue")), body)
        await self._caps.set(LaneCap(CapKey(CapScope.QUEUE, name), queue.max_running), by=by)
        audit = () if by is None else await self._tell(by, queue)
        [is_new] = await self._store.write_queues([replace(queue, max_running=None)], audit=audit)
        return queue, is_new

    async def _tell(self, by: Actor, queue: Queue) -> tuple[AuditEntry, ...]:
        """Tell of settings but for the cap, which has been told of when it was set."""
        name = queue.name
        old = (await self._read()).get(name, Queue(name=name))
        return entries(
            by,
            auditing.shared("queue", name),
            at=self._clock.now(),
            before=_show(old),
            after=_show(queue),
        )

    async def _read(self) -> Mapping[str, Queue]:
        policies = await self._store.read_policies()
        assert policies is not None, "nothing is known, so all is read"
        return policies.queues


def _show(queue: Queue) -> dict[str, Any]:
    plain = show_settings(QUEUE_OPTIONS, queue)
    del plain["max_running"]
    return plain
