"""Exchanges wake-ups with the other processes on the store: merged, after the commit, and only if somebody waits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from mainspring.core.ids import KeyId
from mainspring.core.lane_marks import MOST_MARKS, mark_of
from mainspring.engine.common.wakeups import ANYTHING, Lanes, RunsNews, Wakeups
from mainspring.errors import StoreUnavailable
from mainspring.ports.clock import Clock, RandomSource, Waiter
from mainspring.ports.hints import ANY, Hint, HintChannel, Ready
from mainspring.ports.telemetry import Measure

MERGE = 0.005
"""Seconds between two sends, at least. The first hint goes at once; those that follow go together."""
SPREAD = 0.005
"""A process announces within this many seconds that it waits for runs, unless another one has done so by then."""
RENEW = 5.0
"""A process that waits says so again after this many seconds, or up to twice as many, since a hint may get lost."""
CHECK_PERIOD = 15.0
"""A connection that has carried nothing for this many seconds is tested: it may have broken silently."""


class HintExchange:
    """Sends this process's hints to the others, and passes theirs on within this process.

    All processes hear all hints, so each one knows whether workers wait somewhere: they do from WANTED until the next
    RUNS. A process that makes runs ready while no worker waits says nothing until another process says WANTED, because
    the last scan of that one may have been too early. So a busy cluster sends nothing, and an idle one answers at once.
    If a hint gets lost, polling finds the work.
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
        self._pending: dict[Hint, float] = {}  # with the monotonic instant from which it may be sent
        # The lanes of a RUNS that is pending, and the limits; None: too many, or not known.
        self._marks: set[str] | None = set()
        self._keys: set[KeyId] | None = set()
        self._is_wanted = True
        self._wanted_until = -1.0e9  # until then, WANTED need not be sent again
        self._used_at = -1.0e9
        wakeups.carry_by(self)
        self._sent = dict.fromkeys(Hint, 0)
        self._heard = dict.fromkeys(Hint, 0)

    def measures(self) -> Iterator[Measure]:
        """Yield how many hints were sent and heard."""
        for name, counts in (("hints_sent_total", self._sent), ("hints_heard_total", self._heard)):
            for hint, count in counts.items():
                yield Measure(name, count, (hint.value,))

    async def tick(self, now: datetime) -> float:
        """Connect if needed, send what is due, and test a connection that is silent."""
        del now
        if not self._channel.is_connected:
            await self._connect()
        at = self._clock.monotonic()
        due_in = self._due_in(at)
        if due_in > 0:
            return due_in
        batch = self._take(at)
        ready = self._take_ready(batch)
        try:
            await self._channel.send(batch, ready)
        except StoreUnavailable:
            for hint in batch:
                self._pending.setdefault(hint, at)
            if Hint.RUNS in batch:
                self._marks = self._keys = None
            raise
        self._count_sent(batch)
        self._used_at = self._clock.monotonic()
        return self._due_in(self._used_at)

    async def close(self) -> None:
        """Send the hints that are left (such as for leases handed back at the stop), and disconnect."""
        batch = [hint for hint in self._pending if hint is not Hint.WANTED]
        try:
            if batch and self._channel.is_connected:
                await self._channel.send(batch, self._take_ready(batch))
                self._count_sent(batch)
        except StoreUnavailable:
            pass  # the other processes poll
        finally:
            await self._channel.close()

    async def _connect(self) -> None:
        await self._channel.connect(self._on_heard, self.waiter.signal)
        self._used_at = self._clock.monotonic()
        # Hints that were sent in the meantime are lost, so assume that there was one of each.
        self._is_wanted = True
        self._wanted_until = -1.0e9
        self._wakeups.hear(Hint.RUNS, RunsNews(keys=None))
        for hint in (Hint.CLOCKS, Hint.CANCELS, Hint.RESTRICTIONS, Hint.FLOWS):
            self._wakeups.hear(hint)

    def _count_sent(self, batch: Iterable[Hint]) -> None:
        for hint in batch:
            self._sent[hint] += 1

    def notice(self, hint: Hint, lanes: Lanes | None = None) -> str | None:
        """Return the text by which a commit may carry a hint, which is faster than after it by several wake-ups.

        None where that must not or need not be: there is no connection, or nobody waits. A busy cluster sends nothing,
        so that its commits do not queue for the lock of notifications (design 6).
        """
        if not self._channel.is_connected or self._is_held(hint) or hint in self._pending:
            return None
        # It counts as sent from here on: an answer may come before that of the commit.
        self._count_sent((hint,))
        if hint is Hint.RUNS:
            self._unwant()
        marks: set[str] | None = set() if hint is Hint.RUNS else None
        return self._channel.notice((hint,), Ready(_with_marks(marks, lanes) or None))

    def take_back(self, hint: Hint) -> None:
        """Note that a notice was not sent after all, so whoever waited for it still waits."""
        self._sent[hint] -= 1
        if hint is Hint.RUNS:
            self._is_wanted = True

    def send_soon(self, hint: Hint, news: RunsNews = ANYTHING) -> None:
        """Send a hint with the next ones, at once if none was sent for a moment."""
        if hint is Hint.RUNS:
            self._marks = _with_marks(self._marks, news.lanes)
            self._keys = _with_keys(self._keys, news.keys)
        at = self._clock.monotonic()
        if hint in self._pending or (hint is Hint.WANTED and at < self._wanted_until):
            return
        self._pending[hint] = at + self._random.random() * SPREAD if hint is Hint.WANTED else at
        # Not without a connection: a signal would cut short the pause before the next try.
        if self._channel.is_connected and not self._is_held(hint):
            self.waiter.signal()

    def _on_heard(self, hint: Hint, ready: Ready) -> None:
        self._heard[hint] += 1
        if hint is Hint.WANTED:
            self._pending.pop(Hint.WANTED, None)
            self._want(self._clock.monotonic())
            if Hint.RUNS in self._pending:
                self.waiter.signal()
            return
        if hint is Hint.RUNS:
            self._unwant()
        self._wakeups.hear(hint, RunsNews(marks=ready.lanes or (), keys=ready.keys))

    def _want(self, at: float) -> None:
        self._is_wanted = True
        self._wanted_until = at + RENEW * (1 + self._random.random())

    def _unwant(self) -> None:
        self._is_wanted = False
        self._wanted_until = -1.0e9

    def _is_held(self, hint: Hint) -> bool:
        return hint is Hint.RUNS and not self._is_wanted

    def _due_in(self, at: float) -> float:
        """Return the seconds until a hint may be sent, or until the connection is to be tested."""
        instants = [instant for hint, instant in self._pending.items() if not self._is_held(hint)]
        if instants:
            return max(min(instants), self._used_at + MERGE) - at
        return self._used_at + CHECK_PERIOD - at

    def _take(self, at: float) -> list[Hint]:
        """Take the hints to send now. They count as sent from here on: an answer may come before `send` returns."""
        batch = [hint for hint, instant in self._pending.items() if instant <= at and not self._is_held(hint)]
        # WANTED goes last: hints are heard in the order in which they are sent, and a later RUNS would cancel it.
        batch.sort(key=lambda hint: hint is Hint.WANTED)
        for hint in batch:
            del self._pending[hint]
        if Hint.RUNS in batch:
            self._unwant()
        if Hint.WANTED in batch:
            self._want(at)
        return batch

    def _take_ready(self, batch: Collection[Hint]) -> Ready:
        """Return what the hints to send now name."""
        if Hint.RUNS not in batch:
            return ANY
        ready = Ready(self._marks if self._marks or self._keys else None, self._keys)
        self._marks, self._keys = set(), set()
        return ready


def _with_keys(known: set[KeyId] | None, keys: Collection[KeyId] | None) -> set[KeyId] | None:
    """Return limits with further ones; None if they are too many to name, or not known."""
    if known is None or keys is None:
        return None
    known.update(keys)
    return known if len(known) <= MOST_MARKS else None


def _with_marks(marks: set[str] | None, lanes: Lanes | None) -> set[str] | None:
    """Return marks with those of further lanes; None if they are too many to name, or not known."""
    if marks is None or lanes is None:
        return None
    for key in lanes():
        marks.add(mark_of(key))
        if len(marks) > MOST_MARKS:
            return None
    return marks
