"""The places of one role, and when each of its connections was last heard of."""

from __future__ import annotations

import asyncio
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
"""Seconds: a heartbeat on a connection that broke without a word must not use up the lease of everybody in it."""

LONGEST_WAIT = 3.0
"""Seconds that a client's request waits for its turn: less than clients wait for an answer."""
_FOR_CLIENTS = frozenset({Role.SUBMIT, Role.EDIT, Role.READ})
"""Roles whose calls are asked for by clients, without a limit to how many. What fires, claims, clocks and `/health`
need is read elsewhere: a busy API must hold up none of them."""


@dataclass(slots=True)
class _Talk:
    """When a connection was opened and last answered, and since when it is being asked; None where it is not."""

    opened_at: float
    answered_at: float
    asked_at: float | None = None


class Slots:
    """The connections of one role; the one used last is used first."""

    def __init__(self, role: Role, options: ConnectionOptions, servers: Servers) -> None:
        count = (options.per_role or {}).get(role, 1)
        self._options = options
        self._servers = servers
        self._settings = settings_for(role)
        self.begin = begin_with(options, self._settings)
        self._semaphore = asyncio.Semaphore(count)
        self._idle: list[Connection | None] = [None] * count
        self._opened: dict[Connection, _Talk] = {}
        self._is_for_beats = role is Role.BEAT
        self._longest_wait = LONGEST_WAIT if role in _FOR_CLIENTS else None

    @property
    def patience(self) -> float:
        """Seconds for one command."""
        longest = self._options.command_timeout
        return min(longest, BEAT_TIMEOUT) if self._is_for_beats else longest

    async def borrow(self) -> Connection | None:
        """Wait for a place of the role; its connection may still have to be opened.

        Raises:
            StoreUnavailable: there was none for so long that whoever asked has probably asked again meanwhile. To
                carry out what nobody waits for any more is how a server that had fallen behind stays behind.
        """
        if not self._semaphore.locked():
            await self._semaphore.acquire()  # at once: a timer for each call would take longer than that
            return self._idle.pop()
        try:
            async with asyncio.timeout(self._longest_wait):
                await self._semaphore.acquire()
        except TimeoutError:
            message = f"PostgreSQL is busy: nothing was done within {self._longest_wait} s; try again"
            raise StoreUnavailable(message) from None
        return self._idle.pop()

    def give_back(self, connection: Connection | None) -> None:
        """Free the place."""
        if talk := self._talk(connection):
            talk.asked_at = None
        self._idle.append(connection)
        self._semaphore.release()

    async def connect(self) -> Connection:
        """Open a connection.

        Raises:
            StoreUnavailable: the server answers, and refuses; its password was changed, say.
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
        """Note that a connection is asked something."""
        if talk := self._talk(connection):
            talk.asked_at = _time()

    def note_answer(self, connection: Connection | None) -> None:
        """Note that a connection has answered."""
        if talk := self._talk(connection):
            talk.answered_at = _time()

    def _talk(self, connection: Connection | None) -> _Talk | None:
        return None if connection is None else self._opened.get(connection)

    def has_heard(self, since: float) -> bool:
        """Say whether a connection that was open at an instant has answered after it."""
        return any(talk.opened_at < since <= talk.answered_at for talk in self._opened.values())

    def cut_silent(self, since: float, *, asked_by: float) -> None:
        """Cut connections that have not answered since an instant, unless they are being asked, and only since later.

        Args:
            since: by the loop's clock.
            asked_by: who was asked up to then has had time enough.
        """
        for connection, talk in self._opened.items():
            if talk.answered_at < since and (talk.asked_at is None or talk.asked_at <= asked_by):
                connection.terminate()

    def terminate(self) -> None:
        """Cut all connections, those in use as well."""
        for connection in self._opened:
            connection.terminate()

    async def close(self, timeout: float) -> None:
        """Disconnect what is idle, which after the last call is everything."""
        connections = [connection for connection in self._idle if connection is not None]
        self._idle = [None] * len(self._idle)
        for connection in connections:
            try:
                await connection.close(timeout=timeout)
            except (*LOST, asyncpg.PostgresError):
                connection.terminate()


def _time() -> float:
    return asyncio.get_running_loop().time()
