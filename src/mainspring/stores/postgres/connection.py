"""Pinned connections, one small set for each role, and what happens when one of them breaks.

A pool that resets connections would cost a query for every call. Here each role (submitting, claiming, …) has its
own connections, opened when first used, so that no verb waits behind another's and each keeps its prepared plans.

A call is carried out in a task of its own: a caller that is stopped in the middle leaves all of it behind, never half,
and no cancel request can hit the statement that comes after.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import asyncpg

from mainspring.errors import StoreUnavailable
from mainspring.ports.clock import RandomSource
from mainspring.stores._sql.queries import Query
from mainspring.stores.postgres.connecting import LOST, ConnectionOptions, Role
from mainspring.stores.postgres.failover import WrongServer
from mainspring.stores.postgres.pool import Slots
from mainspring.stores.postgres.refusals import STATEMENT_GONE, describe_loss, describe_pooler
from mainspring.stores.postgres.servers import UNSUPPORTED, Servers

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

R = TypeVar("R")

_TRANSIENT = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    # A newer program has changed the schema, and what was prepared before is no longer what comes back.
    asyncpg.InvalidCachedStatementError,
    asyncpg.OutdatedSchemaCacheError,
)
"""The server undid the transaction and asks for another try."""

_TRANSIENT_TRIES = 10
_LOST_TRIES = 4
_PATIENT_TRIES = 2
"""A call is not tried again after so many times the time of one command: a blackhole takes all of it each time."""
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.5


class Transaction:
    """A connection as one call sees it: named queries with their parameters."""

    __slots__ = ("_connection", "_statements")

    def __init__(self, connection: Connection, statements: Mapping[str, tuple[str, tuple[str, ...]]]) -> None:
        self._connection = connection
        self._statements = statements

    async def fetch(self, name: str, /, **values: Any) -> list[asyncpg.Record]:
        """Return the rows of a query."""
        text, names = self._statements[name]
        return await self._connection.fetch(text, *[values[parameter] for parameter in names])

    async def execute(self, name: str, /, **values: Any) -> int:
        """Carry out a statement and return how many rows it touched."""
        text, names = self._statements[name]
        status = await self._connection.execute(text, *[values[parameter] for parameter in names])
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0


Work = Callable[[Transaction], Awaitable[R]]


@dataclass(frozen=True, slots=True)
class _Call(Generic[R]):
    """What a caller asked for."""

    work: Work[R]
    is_repeatable: bool
    is_atomic: bool
    transient: tuple[type[BaseException], ...]


class _Progress:
    """How far a try has come: once it `is_sent`, nobody but the server knows whether it was committed."""

    __slots__ = ("is_sent", "is_under_way")

    def __init__(self) -> None:
        self.is_under_way = False
        self.is_sent = False


class Connections:
    """All connections of one store.

    Attributes:
        servers: opens them, and knows which server is the right one.
    """

    def __init__(
        self, options: ConnectionOptions, queries: Mapping[str, Query], random: RandomSource
    ) -> None:
        self._options = options
        self._statements = {name: query.positional() for name, query in queries.items()}
        self._random = random
        self.servers = Servers(options, queries)
        self._roles = {role: Slots(role, options, self.servers) for role in Role}
        self._settle = queries["settle"].text
        self._lost = 0  # calls whose connection broke when the commit may have been under way
        self._settled = 0
        self._calls: set[asyncio.Task[Any]] = set()
        self._closing = asyncio.Event()
        self._is_open = False

    def open(self) -> None:
        """Accept calls; connections are opened as they are needed."""
        self._closing.clear()
        self._is_open = True

    async def close(self) -> None:
        """Finish the calls under way, then disconnect."""
        self._is_open = False
        self._closing.set()
        if self._calls:
            await asyncio.wait(self._calls)
        for slots in self._roles.values():
            await slots.close(self._options.connect_timeout)

    async def fetch(
        self, role: Role, name: str, /, *, is_repeatable: bool, **values: Any
    ) -> list[asyncpg.Record]:
        """Carry out one statement as a transaction of its own and return its rows.

        Args:
            is_repeatable: doing it twice is as good as once, so a connection lost meanwhile costs only time.
        """

        async def work(transaction: Transaction) -> list[asyncpg.Record]:
            return await transaction.fetch(name, **values)

        return await self.run(role, work, is_repeatable=is_repeatable, is_atomic=True)

    async def transact(
        self,
        role: Role,
        work: Work[R],
        *,
        is_repeatable: bool = False,
        retry_on: tuple[type[asyncpg.PostgresError], ...] = (),
    ) -> R:
        """Carry out `work` in one transaction; after a deadlock, or one of `retry_on`, once more from the start."""
        return await self.run(role, work, is_repeatable=is_repeatable, retry_on=retry_on)

    async def run(
        self,
        role: Role,
        work: Work[R],
        *,
        is_repeatable: bool,
        is_atomic: bool = False,
        retry_on: tuple[type[asyncpg.PostgresError], ...] = (),
    ) -> R:
        """Carry out `work`, in a transaction unless it `is_atomic` by itself (one statement).

        Raises:
            StoreUnavailable: the server cannot be reached, or the connection broke when the commit may have been
                under way and the work is not repeatable.
        """
        if not self._is_open:
            raise StoreUnavailable("the store is closed")
        call = _Call(work, is_repeatable, is_atomic, (*_TRANSIENT, *retry_on))
        task = asyncio.create_task(self._carry_out(self._roles[role], call))
        self._calls.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    async def look(self) -> None:
        """See that these connections lead to the newest server; otherwise have all of them opened anew.

        Raises:
            StoreUnavailable: they do not, or it cannot be said.
        """
        slots = self._roles[Role.WATCH]
        connection = await slots.borrow()
        try:
            if connection is None or connection.is_closed():
                connection = await slots.connect()
            is_right, standing = await self.servers.look(connection)
        except STATEMENT_GONE as error:
            raise StoreUnavailable(describe_pooler(self._options)) from error
        except LOST as error:
            await _discard(connection, error, self._options.connect_timeout)
            connection = None
            raise StoreUnavailable(_describe(error, is_in_doubt=False)) from error
        finally:
            slots.give_back(connection)
        slots.note_answer(connection)
        # The place is free by now: others need not wait for hosts that do not answer.
        if not is_right or not await self.servers.is_newest(standing):
            for each in self._roles.values():
                each.terminate()
            raise WrongServer("the server was left behind by a failover; connecting to the newest one")

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may have gone; then nobody else would look

    async def _carry_out(self, slots: Slots, call: _Call[R]) -> R:
        connection = await slots.borrow()
        try:
            tries = 0
            deadline = asyncio.get_running_loop().time() + _PATIENT_TRIES * slots.patience
            while True:
                tries += 1
                progress = _Progress()
                began = asyncio.get_running_loop().time()
                try:
                    if connection is None or connection.is_closed():
                        connection = await slots.connect()
                    slots.note_question(connection)
                    if self._settled < self._lost:
                        await self._wait_until_settled(connection)
                    result = await self._try(connection, slots.begin, call, progress)
                    slots.note_answer(connection)
                    return result
                except STATEMENT_GONE as error:
                    if connection is not None:
                        connection.terminate()  # what it has prepared is not known any more
                    raise StoreUnavailable(describe_pooler(self._options)) from error
                except call.transient as error:
                    slots.note_answer(connection)
                    if tries >= _TRANSIENT_TRIES:
                        raise StoreUnavailable(
                            f"PostgreSQL: gave up after {tries} tries ({error})"
                        ) from error
                except (*LOST, WrongServer) as error:
                    if progress.is_under_way and isinstance(error, TimeoutError):
                        self._suspect(began)
                    await _discard(connection, error, self._options.connect_timeout)
                    connection = None
                    # A standby's refusal is an answer: after a failover the call goes to the new primary.
                    is_in_doubt = progress.is_sent and not isinstance(
                        error, asyncpg.ReadOnlySQLTransactionError
                    )
                    self._lost += is_in_doubt
                    may_retry = call.is_repeatable or not is_in_doubt
                    is_late = asyncio.get_running_loop().time() >= deadline
                    if tries >= _LOST_TRIES or is_late or not may_retry or self._closing.is_set():
                        if isinstance(error, WrongServer):
                            raise
                        raise StoreUnavailable(_describe(error, is_in_doubt=is_in_doubt)) from error
                await self._pause(tries)
        finally:
            slots.give_back(connection)

    def _suspect(self, since: float) -> None:
        """Cut all connections if none has answered since a call began that was given up.

        A host or a middlebox that goes without a word breaks them all, and each would be found out by a call of its
        own, after its own time: fires would wait for tens of seconds while heartbeats have long gone on. Where some
        answer, the server is there and only slow with the others, as with commits that wait for a standby.

        It is looked at once more after as long as a heartbeat takes, by what was heard since now: for what was asked
        only just before, and for a line that broke after others had answered while the call was under way.
        """

        def cut(since: float, *, asked_by: float) -> None:
            if any(slots.has_heard(since) for slots in self._roles.values()):
                return
            for slots in self._roles.values():
                slots.cut_silent(since, asked_by=asked_by)

        cut(since, asked_by=since)
        loop = asyncio.get_running_loop()
        loop.call_later(self._roles[Role.BEAT].patience, partial(cut, loop.time(), asked_by=math.inf))

    async def _wait_until_settled(self, connection: Connection) -> None:
        """Answer nothing from what a lost call may have committed before that is safe.

        A commit that waits for a synchronous standby can be read as soon as the wait is given up. On a primary that was
        left behind this never returns, which is right: nothing there will last.
        """
        lost = self._lost
        with suppress(*UNSUPPORTED):
            await connection.execute(self._settle)
        self._settled = max(self._settled, lost)

    async def _try(self, connection: Connection, begin: str, call: _Call[R], progress: _Progress) -> R:
        transaction = Transaction(connection, self._statements)
        progress.is_under_way = True
        # Through a pooler even one statement needs a transaction: for its settings, and because it is sent in two
        # messages, which would otherwise reach two connections of the server.
        if call.is_atomic and not self._options.is_pooled:
            progress.is_sent = True
            return await call.work(transaction)
        await connection.execute(begin)
        try:
            result = await call.work(transaction)
        except BaseException:  # cancelled at the end of the loop, too: the connection goes on to others
            await _roll_back(connection)
            raise
        progress.is_sent = True
        await connection.execute("COMMIT")
        return result

    async def _pause(self, tries: int) -> None:
        """Let others go first, for a random while; a store that is closing waits for nobody."""
        longest = min(_FIRST_PAUSE * 2**tries, _LONGEST_PAUSE)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), longest * self._random.random())


async def _roll_back(connection: Connection) -> None:
    """Leave the connection without a transaction, or not at all."""
    try:
        if not connection.is_closed():
            await connection.execute("ROLLBACK")
    except (*LOST, asyncpg.PostgresError):
        connection.terminate()


async def _discard(connection: Connection | None, error: BaseException, timeout: float) -> None:
    """Get rid of a connection; after a time-out the server is asked to stop what it does, and waited for."""
    if connection is None:
        return
    if isinstance(error, TimeoutError) and not connection.is_closed():
        with suppress(*LOST, asyncpg.PostgresError):
            await connection.close(timeout=timeout)
    connection.terminate()


def _describe(error: BaseException, *, is_in_doubt: bool) -> str:
    doubt = "; whether the last write took effect is not known" if is_in_doubt else ""
    return describe_loss(error) + doubt
