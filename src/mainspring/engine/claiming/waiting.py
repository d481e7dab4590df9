"""The claim calls that wait at a matcher, kept in such a way that no tick has to examine all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, nsmallest
from itertools import count, islice
from operator import attrgetter
from typing import Protocol

from mainspring.core.ids import KeyId, RunId, SessionId
from mainspring.core.values import value
from mainspring.errors import StoreUnavailable
from mainspring.ports.gateway import ClaimCall
from mainspring.ports.store.claims import ClaimedRun

_SPARE_ENDS = 64
_MOST_LINES = 8
_arrival = attrgetter("arrival")


@value()
class ClaimAnswer:
    """The claimed runs for one call; see `ClaimReply`.

    Attributes:
        keys: of the runs that have limits, the keys that they stand under.
    """

    runs: tuple[ClaimedRun, ...] = ()
    is_session_live: bool = True
    is_quarantined_waiting: bool = False
    keys: Mapping[RunId, tuple[KeyId, ...]] = field(default_factory=dict)


class ClaimLine(Hashable, Protocol):
    """What the sessions in one line have in common.

    Attributes:
        width: for how many of them it is worth asking the store at a time.
    """

    width: int


@dataclass(eq=False, slots=True)
class Waiting:
    """A call that waits, and the future that gets its answer.

    Attributes:
        until: when it gets an answer in any case, in monotonic seconds.
        arrival: its place in the order of arrival.
        line: the line in which it waits, once that is known.
        is_in_doubt: the store is asked for it, or was and did not answer.
    """

    call: ClaimCall
    future: asyncio.Future[ClaimAnswer]
    until: float
    arrival: int = 0
    line: ClaimLine | None = None
    is_in_doubt: bool = False


@dataclass(slots=True)
class WaitingCalls:
    """The calls that wait, one per session: by session, by line in order of arrival, and by the end of their wait.

    A call is new until it stands in a line, and again after it is renewed. The matcher examines new calls whether or
    not anything is ready.
    """

    _calls: dict[SessionId, Waiting] = field(default_factory=dict)
    _new: dict[Waiting, None] = field(default_factory=dict)
    _lines: dict[ClaimLine, dict[Waiting, None]] = field(default_factory=dict)
    _over: dict[Waiting, None] = field(default_factory=dict)
    # Not the calls themselves, because a call that was answered long ago would keep its runs in memory.
    _ends: list[tuple[float, int, SessionId]] = field(default_factory=list)
    _arrivals: count[int] = field(default_factory=count)

    def __len__(self) -> int:
        return len(self._calls)

    def get(self, session_id: SessionId) -> Waiting | None:
        """Return a session's call, or None."""
        return self._calls.get(session_id)

    def add(self, item: Waiting) -> None:
        """Add the call of a session that has no other one waiting."""
        item.arrival = next(self._arrivals)
        session_id = item.call.session_id
        self._calls[session_id] = item
        self._new[item] = None
        heappush(self._ends, (item.until, item.arrival, session_id))
        if len(self._ends) > 2 * len(self._calls) + _SPARE_ENDS:
            self._ends = [(one.until, one.arrival, key) for key, one in self._calls.items()]
            heapify(self._ends)

    def remove(self, item: Waiting) -> None:
        """Remove a call, whether or not it still waits."""
        if self._calls.get(item.call.session_id) is item:
            del self._calls[item.call.session_id]
        self._new.pop(item, None)
        self._over.pop(item, None)
        if item.line is not None:
            line = self._lines.get(item.line)
            if line is not None:
                line.pop(item, None)
                if not line:
                    del self._lines[item.line]

    def close(self) -> None:
        """Give all calls empty answers, because the engine is stopping.

        A call in doubt gets an error instead, and so does a repeat. The store may have given it runs, or may be about
        to. With an empty answer the worker would take its number for used. Now it asks again, and gets them.
        """
        for item in self.all():
            self.remove(item)
            if item.future.done():
                continue
            if item.is_in_doubt or item.call.limit == 0:
                item.future.set_exception(StoreUnavailable("the engine is stopping"))
            else:
                item.future.set_result(ClaimAnswer())

    def renew(self, session_id: SessionId) -> None:
        """Make a session's call new again, if it has one."""
        item = self._calls.get(session_id)
        if item is not None:
            self._new[item] = None

    def line_up(self, item: Waiting, line: ClaimLine) -> None:
        """Put a waiting call at the end of a line, unless it stands in one. It is not new any more."""
        self._new.pop(item, None)
        if item.line is None:
            item.line = line
            self._lines.setdefault(line, {})[item] = None

    def all(self) -> list[Waiting]:
        """Return all calls, the longest waiting first."""
        return list(self._calls.values())

    def new(self) -> list[Waiting]:
        """Return the calls that are new."""
        return list(self._new)

    def over(self, at: float) -> list[Waiting]:
        """Return the calls whose wait has ended by `at`, in monotonic seconds."""
        while self._ends and self._ends[0][0] <= at:
            _, arrival, session_id = heappop(self._ends)
            item = self._calls.get(session_id)
            if item is not None and item.arrival == arrival:
                self._over[item] = None
        return list(self._over)

    def first_of_each(self) -> list[Waiting]:
        """Return as many calls of each line as are worth asking for, the longest waiting first."""
        return [item for line, items in self._lines.items() for item in islice(items, line.width)]

    def first_in_line(self) -> Waiting | None:
        """Return the longest waiting call of a line; None if no call stands in one."""
        return min(self._firsts(), key=_arrival, default=None)

    def first_in_lines(self) -> list[Waiting]:
        """Return the first call of each line, but not of too many lines, the longest waiting first."""
        return nsmallest(_MOST_LINES, self._firsts(), key=_arrival)

    def _firsts(self) -> Iterator[Waiting]:
        return (next(iter(items)) for items in self._lines.values() if items)

    def first_end(self) -> float:
        """Return when the first wait ends, in monotonic seconds.

        Raises:
            LookupError: no call waits.
        """
        if self._over:
            return next(iter(self._over)).until
        while self._ends:
            until, arrival, session_id = self._ends[0]
            item = self._calls.get(session_id)
            if item is not None and item.arrival == arrival:
                return until
            heappop(self._ends)
        raise LookupError("no call waits")
