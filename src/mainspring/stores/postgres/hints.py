"""`HintChannel` by LISTEN and NOTIFY, on a connection that nothing else uses.

NOTIFY in the transaction that it speaks of would make all commits queue for one lock (design 6). Here it is a
transaction of its own that writes nothing, after the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import asyncpg

from mainspring.errors import StoreUnavailable
from mainspring.ports.hints import Hint
from mainspring.stores.postgres.connecting import LOST, ConnectionOptions, Dialer

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

_CHANNEL = "mainspring"
_PATIENCE = 5.0
"""Seconds that the server has for an answer; a hint that takes longer helps nobody."""
_WORDS = frozenset(hint.value for hint in Hint)
_SETTINGS = {
    "application_name": "mainspring-hints",
    "synchronous_commit": "off",  # nothing in it has to last
}


class PostgresHints:
    """Hints between the processes on one database.

    Which server is the newest is not asked here (ADR 0014). Beside a primary that a failover left behind, and that
    still lives, hints may reach nobody until this connection breaks: others come by polling then, as any lost one.

    Args:
        options: where the database is, its `listen_dsn` first; a DSN alone will do. Not a pooler in transaction
            mode: through that nothing is heard, without an error.
    """

    def __init__(self, options: ConnectionOptions | str) -> None:
        given = ConnectionOptions(options) if isinstance(options, str) else options
        self._dialer = Dialer(
            replace(given, dsn=given.listen_dsn or given.dsn, is_pooled=False, statement_cache=0)
        )
        self._connection: Connection | None = None
        self._own_pid = 0
        self._hear: Callable[[Hint], None] = _ignore
        self._on_loss: Callable[[], None] | None = None

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection that is not known to be broken."""
        return self._connection is not None

    async def connect(self, hear: Callable[[Hint], None], on_loss: Callable[[], None]) -> None:
        """Begin to hear."""
        await self.close()
        self._hear = hear
        connection: Connection | None = None
        try:
            connection = await self._dialer.dial(settings=_SETTINGS, command_timeout=_PATIENCE)
            # Asked of the server: what a pooler in session mode says at the start is its own number.
            self._own_pid = await connection.fetchval("SELECT pg_backend_pid()")
            await connection.add_listener(_CHANNEL, self._on_notification)
        except (*LOST, asyncpg.PostgresError) as error:
            if connection is not None:
                connection.terminate()
            raise _unavailable(error) from error
        if connection.is_closed():
            raise StoreUnavailable("PostgreSQL: the connection for hints broke at once")
        self._connection, self._on_loss = connection, on_loss
        connection.add_termination_listener(self._on_termination)

    async def send(self, hints: Collection[Hint]) -> None:
        """Tell all other processes."""
        connection = self._connection
        if connection is None:
            raise StoreUnavailable("PostgreSQL: there is no connection for hints")
        statement = f"NOTIFY {_CHANNEL}, '{','.join(hints)}'" if hints else "SELECT 1"
        try:
            await connection.execute(statement)
        except (*LOST, asyncpg.PostgresError) as error:
            self._forget(connection)
            connection.terminate()
            raise _unavailable(error) from error

    async def close(self) -> None:
        """Hear and send no more."""
        connection = self._connection
        if connection is None:
            return
        self._forget(connection)
        try:
            await connection.close(timeout=_PATIENCE)
        except (*LOST, asyncpg.PostgresError):
            connection.terminate()

    def _forget(self, connection: Connection) -> None:
        connection.remove_termination_listener(self._on_termination)
        self._connection = None
        self._on_loss = None

    def _on_notification(self, connection: Any, pid: int, channel: str, payload: object) -> None:
        del connection, channel
        if pid == self._own_pid:
            return
        for word in str(payload).split(","):
            if word in _WORDS:  # not those of another release, or of whoever else may NOTIFY
                self._hear(Hint(word))

    def _on_termination(self, connection: Any) -> None:
        del connection
        on_loss = self._on_loss
        self._connection = None
        self._on_loss = None
        if on_loss is not None:
            on_loss()


def _ignore(hint: Hint) -> None:
    del hint


def _unavailable(error: BaseException) -> StoreUnavailable:
    return StoreUnavailable(f"PostgreSQL carries no hints: {str(error) or type(error).__name__}")
