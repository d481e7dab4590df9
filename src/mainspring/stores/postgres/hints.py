"""`HintChannel` by LISTEN and NOTIFY, on a connection that nothing else uses.

A NOTIFY within the transaction that it announces would make all commits queue for one lock (design 6). So it is sent
after the commit, in a transaction of its own that writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import asyncpg

from mainspring.core.ids import KeyId
from mainspring.errors import StoreUnavailable
from mainspring.ports.hints import ANY, Hear, Hint, Ready
from mainspring.stores.postgres.connecting import LOST, ConnectionOptions, Dialer

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

_CHANNEL = "mainspring"
_PATIENCE = 5.0
"""How long the server may take to answer, in seconds. A hint that takes longer is useless."""
_LANE = "lane."
"""Begins the name of a lane. Releases before it leave such words out."""
_KEY = "key."
"""Begins the number of a limit's key. Releases before it leave such words out, too."""
_ANY = "any"
"""Stands for a name where others are given of the other kind."""
_WORDS = frozenset(hint.value for hint in Hint)
_SETTINGS = {
    "application_name": "mainspring-hints",
    "synchronous_commit": "off",  # nothing in it has to last
}


class PostgresHints:
    """Hints between the processes on one database.

    It does not check which server is the newest (ADR 0014). On a primary that a failover left behind but that still
    lives, hints may reach nobody until this connection breaks. Such hints count as lost, and polling makes up for
    them.

    Args:
        options: how to connect, or just a DSN. Its `listen_dsn` is preferred. It must not lead to a pooler in
            transaction mode: through that nothing is heard, and there is no error.
    """

    def __init__(self, options: ConnectionOptions | str) -> None:
        given = ConnectionOptions(options) if isinstance(options, str) else options
        self._dialer = Dialer(
            replace(given, dsn=given.listen_dsn or given.dsn, is_pooled=False, statement_cache=0)
        )
        self._connection: Connection | None = None
        self._mark = "by.nobody"
        self._hear: Hear = _ignore
        self._on_loss: Callable[[], None] | None = None

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection that is not known to be broken."""
        return self._connection is not None

    async def connect(self, hear: Hear, on_loss: Callable[[], None]) -> None:
        """Start to listen."""
        await self.close()
        self._hear = hear
        connection: Connection | None = None
        try:
            connection = await self._dialer.dial(settings=_SETTINGS, command_timeout=_PATIENCE)
            # Ask the server itself: a pooler in session mode reports a number of its own at the start.
            self._mark = f"by.{await connection.fetchval('SELECT pg_backend_pid()')}"
            await connection.add_listener(_CHANNEL, self._on_notification)
        except (*LOST, asyncpg.PostgresError) as error:
            if connection is not None:
                connection.terminate()
            raise _unavailable(error) from error
        if connection.is_closed():
            raise StoreUnavailable("PostgreSQL: the connection for hints broke at once")
        self._connection, self._on_loss = connection, on_loss
        connection.add_termination_listener(self._on_termination)

    async def send(self, hints: Collection[Hint], ready: Ready = ANY) -> None:
        """Send hints to all other processes."""
        connection = self._connection
        if connection is None:
            raise StoreUnavailable("PostgreSQL: there is no connection for hints")
        statement = f"NOTIFY {_CHANNEL}, '{self.notice(hints, ready)}'" if hints else "SELECT 1"
        try:
            await connection.execute(statement)
        except (*LOST, asyncpg.PostgresError) as error:
            self._forget(connection)
            connection.terminate()
            raise _unavailable(error) from error

    def notice(self, hints: Collection[Hint], ready: Ready = ANY) -> str:
        """Return the hints with this process's mark: it may hear them, and leaves them out."""
        return ",".join((*hints, *_words_of(ready), self._mark))

    async def close(self) -> None:
        """Stop listening and sending."""
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
        del connection, pid, channel
        words = str(payload).split(",")
        if self._mark in words:
            return
        ready = _read_ready(words)
        for word in words:
            if word in _WORDS:  # ignore those of other releases and of other senders
                self._hear(Hint(word), ready if word == Hint.RUNS else ANY)

    def _on_termination(self, connection: Any) -> None:
        del connection
        on_loss = self._on_loss
        self._connection = None
        self._on_loss = None
        if on_loss is not None:
            on_loss()


def _words_of(ready: Ready) -> Iterator[str]:
    """Yield the words for what a hint names. Without any, it may be any lane, as earlier releases understand it."""
    if ready.keys is None or ready.keys:
        yield from (_KEY + _ANY,) if ready.keys is None else (f"{_KEY}{key_id}" for key_id in ready.keys)
        if ready.lanes is None:
            yield _LANE + _ANY
    yield from (_LANE + mark for mark in ready.lanes or ())


def _read_ready(words: Sequence[str]) -> Ready:
    lanes = [word.removeprefix(_LANE) for word in words if word.startswith(_LANE)]
    keys = [word.removeprefix(_KEY) for word in words if word.startswith(_KEY)]
    is_any_lane = _ANY in lanes or not (lanes or keys)
    key_ids = [KeyId(int(key)) for key in keys if key.isascii() and key.isdigit()]
    return Ready(None if is_any_lane else lanes, None if _ANY in keys else key_ids)


def _ignore(hint: Hint, ready: Ready) -> None:
    del hint, ready


def _unavailable(error: BaseException) -> StoreUnavailable:
    return StoreUnavailable(f"PostgreSQL cannot carry hints: {str(error) or type(error).__name__}")
