"""The connections of one role, and when each last answered."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import asyncpg

from mainspring.errors import StoreUnavailable
from mainspring.stores.postgres.connecting import LOST, ConnectionOptions, Role, begin_with, settings_for
from mainspring.stores.postgres.refusals import STATEMENT_GONE
from mainspring.stores.postgres.servers import Servers

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

BEAT_TIMEOUT = 5.0
"""The limit for a heartbeat, in seconds.

On a connection that broke silently, it must not use up the leases of all workers that wait for it.
"""

LONGEST_WAIT = 3.0
"""How long a client's request waits for its turn, in seconds: less than clients wait for an answer."""
_FOR_CLIENTS = frozenset({Role.SUBMIT, Role.EDIT, Role.READ, Role.BROWSE})
"""Roles whose calls come from clients, in any number.

What fires, claims, clocks and `/health` need is read through other roles: a busy API must not delay any of them.
"""


@dataclass(slots=True)
class _Talk:
    """When a connection was opened, when it last answered, and since when it has been asked; None if it is not being
    asked.
    """

    opened_at: float
    answered_at: float
    asked_at: float | None = None


class Slots:
    """The connections of one role. The one that was used last is used first."""

    def __init__(self, role: Role, options: ConnectionOptions, servers: Servers) -> None:
        usual = options.browse_connections if role is Role.BROWSE else 1
        count = (options.per_role or {}).get(role, usual)
        self._options = options
        self._servers = servers
        self._settings = settings_for(role)
        if role is Role.BROWSE:
            self._settings["statement_timeout"] = f"{math.ceil(options.browse_timeout * 1000)}ms"
        self.begin: str = begin_with(options, self._settings)
        self._semaphore = asyncio.Semaphore(count)
        self._idle: list[Connection | None] = [None] * count
        self._opened: dict[Connection, _Talk] = {}
        self._is_for_beats = role is Role.BEAT
        self._longest_wait = LONGEST_WAIT if role in _FOR_CLIENTS else None

    @property
    def patience(self) -> float:
        """How long one command may take, in seconds."""
        longest = self._options.command_timeout
        return min(longest, BEAT_TIMEOUT) if self._is_for_beats else longest

    async def borrow(self) -> Connection | None:
        """Wait for a connection of the role. Return None if it still has to be opened.

        Raises:
            StoreUnavailable: none was free for so long that the caller has probably asked again meanwhile. A server
                that works on what nobody waits for any more never catches up.
        """
        if not self._semaphore.locked():
            await self._semaphore.acquire()  # without a timer, which would take longer than the call itself
            return self._idle.pop()
        try:
            async with asyncio.timeout(self._longest_wait):
                await self._semaphore.acquire()
        except TimeoutError:
            message = f"PostgreSQL is busy: nothing was done within {self._longest_wait} s; try again"
            raise StoreUnavailable(message) from None
        return self._idle.pop()

    def give_back(self, connection: Connection | None) -> None:
        """Give a connection back, or None if there is none."""
        if talk := self._talk(connection):
            talk.asked_at = None
        self._idle.append(connection)
        self._semaphore.release()

    async def connect(self) -> Connection:
        """Open a connection.

        Raises:
            StoreUnavailable: the server answers but refuses, for example because the password was changed.
        """
        try:
            connection = await self._servers.connect(settings=self._settings, command_timeout=self.patience)
        except (*LOST, *STATEMENT_GONE):
            raise
        except asyncpg.PostgresError as error:
            raise StoreUnavailable(f"PostgreSQL refused the connection: {error}") from error
        self._opened = {other: talk for other, talk in self._opened.items() if not other.is_closed()}
        self._opened[connection] = _Talk(_time(), _time())
        return connection

    def note_question(self, connection: Connection) -> None:
        """Note that a connection is being asked."""
        if talk := self._talk(connection):
            talk.asked_at = _time()

    def note_answer(self, connection: Connection | None) -> None:
        """Note that a connection has answered."""
        if talk := self._talk(connection):
            talk.answered_at = _time()

    def _talk(self, connection: Connection | None) -> _Talk | None:
        return None if connection is None else self._opened.get(connection)

    def has_heard(self, since: float) -> bool:
        """Say whether a connection that was open before an instant has answered since."""
        return any(talk.opened_at < since <= talk.answered_at for talk in self._opened.values())

    def cut_silent(self, since: float, *, asked_by: float) -> None:
        """Cut connections that have not answered since an instant, except those that were asked too recently.

        Args:
            since: the instant, by the loop's clock.
            asked_by: a connection asked up to this instant has had enough time to answer.
        """
        for connection, talk in self._opened.items():
            if talk.answered_at < since and (talk.asked_at is None or talk.asked_at <= asked_by):
                connection.terminate()

    def terminate(self) -> None:
        """Cut all connections, including those in use."""
        for connection in self._opened:
            connection.terminate()

    async def close(self, timeout: float) -> None:
        """Close the idle connections, which after the last call are all of them."""
        connections = [connection for connection in self._idle if connection is not None]
        self._idle = [None] * len(self._idle)
        for connection in connections:
            try:
                await connection.close(timeout=timeout)
            except (*LOST, asyncpg.PostgresError):
                connection.terminate()


def _time() -> float:
    return asyncio.get_running_loop().time()
