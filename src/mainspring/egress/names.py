"""Looks up host names in such a way that names without an answer delay no others.

It uses the system's resolver, because containers rely on its files and modules (`/etc/hosts`, nsswitch, mDNS). The
resolver blocks and cannot be stopped, so each look-up needs a thread. This module decides how many threads there are,
and which look-ups get one.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import socket
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

Resolve = Callable[[str], list[str]]
"""Returns the addresses of a host in order of preference. It blocks, and raises `OSError` if there are none."""

MAX_LOOKUPS = 256
"""The most look-ups at a time, each of another host. Each has a thread of some 20 kB."""
MAX_UNPROVEN = 192
"""How many of them may be for hosts that have given no address lately. The others are reserved for hosts that have."""
MAX_PROVEN = 10_000
"""How many hosts are remembered for having given an address."""

_log = logging.getLogger(__name__)


class SlowName(OSError):
    """A host name was not resolved within the limit."""

    def __init__(self, limit: timedelta) -> None:
        super().__init__(f"not resolved within {limit.total_seconds():g} s")
        self.limit = limit


@dataclass(eq=False, slots=True)
class _Lookup:
    """One look-up, and the callers that wait for it.

    Attributes:
        is_begun: it has a thread.
        is_unproven: its host has not given an address lately.
    """

    host: str
    is_unproven: bool
    waiters: set[asyncio.Future[list[str]]] = field(default_factory=set)
    is_begun: bool = False


class NameLookups:
    """Looks up names on threads, one look-up at a time for each host. Callers that ask meanwhile share the answer.

    Every method is called on one event loop's thread.

    Args:
        resolve: resolves a host; by default the system's resolver.
        limit: how long one caller waits for an answer. The look-up itself goes on, because it cannot be stopped.
    """

    def __init__(self, resolve: Resolve | None = None, *, limit: timedelta = timedelta(seconds=10)) -> None:
        self._resolve = resolve or resolve_by_system
        self._limit = limit
        self._lookups: dict[str, _Lookup] = {}
        self._waiting: tuple[deque[_Lookup], deque[_Lookup]] = (deque(), deque())  # proven, unproven
        self._proven: OrderedDict[str, None] = OrderedDict()
        self._begun = 0
        self._begun_unproven = 0
        self._threads = 0
        self._tasks: queue.SimpleQueue[tuple[asyncio.AbstractEventLoop, _Lookup] | None] = queue.SimpleQueue()

    async def __call__(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host.

        Raises:
            SlowName: there is no answer within the limit.
            OSError: the name has no address, or the resolver failed.
        """
        del port  # a host has the same addresses for every port
        lookup = self._lookups.get(host)
        if lookup is None:
            lookup = self._lookups[host] = _Lookup(host, is_unproven=host not in self._proven)
            self._waiting[lookup.is_unproven].append(lookup)
        future: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        lookup.waiters.add(future)
        self._begin_next()
        try:
            async with asyncio.timeout(self._limit.total_seconds()):
                return await future
        except TimeoutError:
            self._proven.pop(host, None)
            raise SlowName(self._limit) from None
        finally:
            lookup.waiters.discard(future)
            self._drop_if_unwanted(lookup)

    def close(self) -> None:
        """Let the threads end when they are free. Threads that wait for the resolver end with the process."""
        for _ in range(self._threads):
            self._tasks.put(None)
        self._threads = 0

    def _drop_if_unwanted(self, lookup: _Lookup) -> None:
        if not lookup.waiters and not lookup.is_begun:
            self._lookups.pop(lookup.host, None)
            self._waiting[lookup.is_unproven].remove(lookup)

    def _begin_next(self) -> None:
        """Begin waiting look-ups, as far as there is room. Hosts that gave an address lately come first."""
        proven, unproven = self._waiting
        while proven and self._begun < MAX_LOOKUPS:
            self._begin(proven.popleft())
        while unproven and self._begun < MAX_LOOKUPS and self._begun_unproven < MAX_UNPROVEN:
            self._begin(unproven.popleft())

    def _begin(self, lookup: _Lookup) -> None:
        lookup.is_begun = True
        self._begun += 1
        self._begun_unproven += lookup.is_unproven
        self._tasks.put((asyncio.get_running_loop(), lookup))
        if self._begun > self._threads:
            self._threads += 1
            threading.Thread(target=self._work, name="mainspring-names", daemon=True).start()

    def _end(self, lookup: _Lookup, answer: list[str] | Exception) -> None:
        self._begun -= 1
        self._begun_unproven -= lookup.is_unproven
        self._lookups.pop(lookup.host, None)
        if isinstance(answer, Exception):
            self._proven.pop(lookup.host, None)
        else:
            self._proven[lookup.host] = None
            self._proven.move_to_end(lookup.host)
            if len(self._proven) > MAX_PROVEN:
                self._proven.popitem(last=False)
        for future in lookup.waiters:
            _settle(future, answer)
        self._begin_next()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            loop, lookup = task
            answer: list[str] | Exception
            try:
                answer = self._resolve(lookup.host)
            except Exception as error:  # noqa: BLE001 -- the callers get it
                answer = error
            try:
                loop.call_soon_threadsafe(self._end, lookup, answer)
            except RuntimeError:
                _log.debug("a name was resolved after the worker's loop was closed")
                return


def resolve_by_system(host: str) -> list[str]:
    """Return the addresses of a host from the system's resolver.

    Raises:
        OSError: there is none.
    """
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return _without_repeats(with_zone(entry[4]) for entry in found)


def with_zone(address: tuple[Any, ...]) -> str:
    """Return the text of a socket address's host, with the zone of a link-local one."""
    host = str(address[0])
    has_zone = len(address) == 4 and address[3] and "%" not in host
    return f"{host}%{address[3]}" if has_zone else host


def _without_repeats(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _settle(future: asyncio.Future[list[str]], answer: list[str] | Exception) -> None:
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
