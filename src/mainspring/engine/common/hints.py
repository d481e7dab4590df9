"""Exchanges wake-ups with the other processes on the store: merged, after the commit, only where somebody waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from mainspring.engine.common.wakeups import Wakeups
from mainspring.errors import StoreUnavailable
from mainspring.ports.clock import Clock, RandomSource, Waiter
from mainspring.ports.hints import Hint, HintChannel
from mainspring.ports.telemetry import Measure

MERGE = 0.005
"""Seconds in which hints are sent once: the first goes at once, those that follow it go together."""
SPREAD = 0.005
"""A process says within so many seconds that it waits for runs, unless another one has said so by then."""
RENEW = 5.0
"""That somebody waits is said again after so many seconds to twice as many: a hint may have been lost."""
CHECK_PERIOD = 15.0
"""A connection that has carried nothing for so long is tried: it may have died without a word."""


class HintExchange:
    """Sends this process's hints to the others and passes theirs on inside.

    All processes hear all hints, so each knows whether workers wait somewhere: they do from WANTED until the next
    RUNS. A process that makes runs ready while no worker waits says nothing until another says WANTED, whose last scan
    may have been too early. So a busy cluster sends nothing, and an idle one answers at once. Whatever gets lost on
    the way, polling finds.
    """

    name = "hints"

    def __init__(
        self, channel: HintChannel, *, wakeups: Wakeups, clock: Clock, random: RandomSource, waiter: Waiter
    ) -> None:
        self._channel = channel
        self._wakeups = wakeups
        self._clock = clock
        self._random = random
        self.waiter = waiter
        self._pending: dict[Hint, float] = {}  # with the monotonic instant from which it may go
        self._is_wanted = True
        self._wanted_until = -1.0e9  # until then it need not be said again
        self._used_at = -1.0e9
        wakeups.forward_to(self._on_said)
        self._sent = dict.fromkeys(Hint, 0)
        self._heard = dict.fromkeys(Hint, 0)

    def measures(self) -> Iterator[Measure]:
        """Yield how many hints went out and came in."""
        for name, counts in (("hints_sent_total", self._sent), ("hints_heard_total", self._heard)):
            for hint, count in counts.items():
                yield Measure(name, count, (hint.value,))

    async def tick(self, now: datetime) -> float:
        """Connect where that is needed, send what is due, and check a connection that is silent."""
        del now
        if not self._channel.is_connected:
            await self._connect()
        at = self._clock.monotonic()
        due_in = self._due_in(at)
        if due_in > 0:
            return due_in
        batch = self._take(at)
        try:
            await self._channel.send(batch)
        except StoreUnavailable:
            for hint in batch:
                self._pending.setdefault(hint, at)
            raise
        self._count_sent(batch)
        self._used_at = self._clock.monotonic()
        return self._due_in(self._used_at)

    async def close(self) -> None:
        """Say what is left to say (leases that were handed back at the stop), and disconnect."""
        batch = [hint for hint in self._pending if hint is not Hint.WANTED]
        try:
            if batch and self._channel.is_connected:
                await self._channel.send(batch)
                self._count_sent(batch)
        except StoreUnavailable:
            pass  # the others poll
        finally:
            await self._channel.close()

    async def _connect(self) -> None:
        await self._channel.connect(self._on_heard, self.waiter.signal)
        self._used_at = self._clock.monotonic()
        # What was said meanwhile is lost: take it that everything was.
        self._is_wanted = True
        self._wanted_until = -1.0e9
        for hint in (Hint.RUNS, Hint.CLOCKS, Hint.CANCELS):
            self._wakeups.hear(hint)

    def _count_sent(self, batch: Iterable[Hint]) -> None:
        for hint in batch:
            self._sent[hint] += 1

    def _on_said(self, hint: Hint) -> None:
        at = self._clock.monotonic()
        if hint in self._pending or (hint is Hint.WANTED and at < self._wanted_until):
            return
        self._pending[hint] = at + self._random.random() * SPREAD if hint is Hint.WANTED else at
        # Not while there is no connection: the pause before the next try would be cut short.
        if self._channel.is_connected and not self._is_held(hint):
            self.waiter.signal()

    def _on_heard(self, hint: Hint) -> None:
        self._heard[hint] += 1
        if hint is Hint.WANTED:
            self._pending.pop(Hint.WANTED, None)
            self._want(self._clock.monotonic())
            if Hint.RUNS in self._pending:
                self.waiter.signal()
            return
        if hint is Hint.RUNS:
            self._unwant()
        self._wakeups.hear(hint)

    def _want(self, at: float) -> None:
        self._is_wanted = True
        self._wanted_until = at + RENEW * (1 + self._random.random())

    def _unwant(self) -> None:
        self._is_wanted = False
        self._wanted_until = -1.0e9

    def _is_held(self, hint: Hint) -> bool:
        return hint is Hint.RUNS and not self._is_wanted

    def _due_in(self, at: float) -> float:
        """Return the seconds until something may be sent, or the connection is to be tried."""
        instants = [instant for hint, instant in self._pending.items() if not self._is_held(hint)]
        if instants:
            return max(min(instants), self._used_at + MERGE) - at
        return self._used_at + CHECK_PERIOD - at

    def _take(self, at: float) -> list[Hint]:
        """Take what goes now. What it says of waiting counts from here: an answer may come before `send` returns."""
        batch = [hint for hint, instant in self._pending.items() if instant <= at and not self._is_held(hint)]
        # Those who wait after what is told here: WANTED goes last, for that is the order in which it is heard.
        batch.sort(key=lambda hint: hint is Hint.WANTED)
        for hint in batch:
            del self._pending[hint]
        if Hint.RUNS in batch:
            self._unwant()
        if Hint.WANTED in batch:
            self._want(at)
        return batch
