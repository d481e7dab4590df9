"""Pinned connections, a small set for each role, and what happens when one breaks.

A pool that resets connections would cost a query for every call. Here each role (submitting, claiming, …) has its own
connections, opened on first use. So no role waits for another, and each keeps its prepared plans. Each call runs in a
task of its own, unless nobody cancels the caller's. So if its caller is cancelled, the call still runs to its end, and
no cancel request can hit the next statement.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import asyncpg

from mainspring.core.archive import NULL
from mainspring.core.values import value
from mainspring.errors import StoreUnavailable, TookTooLong
from mainspring.ports.calls import outlives_callers
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
    # A newer program has changed the schema, so that prepared statements return something else.
    asyncpg.InvalidCachedStatementError,
    asyncpg.OutdatedSchemaCacheError,
    # A day's partition was attached while the statement waited for the default one. See `_is_transient`.
    asyncpg.CheckViolationError,
)
"""The server rolled the transaction back; it can be tried again."""

_TRANSIENT_TRIES = 10
_LOST_TRIES = 4
_PATIENT_TRIES = 2
"""A call is not tried again after this many command time-outs: a blackhole uses up a whole one each time."""
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.5


class Transaction:
    """A connection as a call uses it: named queries with their parameters."""

    __slots__ = ("_connection", "_statements")

    def __init__(self, connection: Connection, statements: Mapping[str, tuple[str, tuple[str, ...]]]) -> None:
        self._connection = connection
        self._statements = statements

    async def fetch(self, name: str, /, **values: Any) -> list[asyncpg.Record]:
        """Return the rows of a query."""
        text, names = self._statements[name]
        return await self._connection.fetch(text, *[values[parameter] for parameter in names])

    async def execute(self, name: str, /, **values: Any) -> int:
        """Run a statement, and return how many rows it affected."""
        text, names = self._statements[name]
        status = await self._connection.execute(text, *[values[parameter] for parameter in names])
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def copy(
        self, name: str, sink: Callable[[bytes], Coroutine[Any, Any, None]], /, *, limit: float, **values: Any
    ) -> None:
        """Give the rows of a query to a sink, as CSV, where `core.archive.NULL` is NULL.

        Args:
            limit: how long that may take, in seconds.
        """
        text, names = self._statements[name]
        await self._connection.copy_from_query(
            text.rstrip().rstrip(";"),
            *[values[parameter] for parameter in names],
            output=sink,
            format="csv",
            null=NULL,
            timeout=limit,
        )


Work = Callable[[Transaction], Awaitable[R]]


@value()
class _Call(Generic[R]):
    """A call, with what may be done if it fails."""

    work: Work[R]
    is_repeatable: bool
    is_atomic: bool
    transient: tuple[type[BaseException], ...]


class _Progress:
    """How far a try has come. Once it `is_sent`, only the server knows whether it was committed."""

    __slots__ = ("is_sent", "is_under_way")

    def __init__(self) -> None:
        self.is_under_way = False
        self.is_sent = False


class Connections:
    """All connections of one store.

    Attributes:
        servers: opens the connections, and knows which server is the right one.
    """

    def __init__(
        self, options: ConnectionOptions, queries: Mapping[str, Query], random: RandomSource
    ) -> None:
        self._options = options
        self._statements = {name: query.positional() for name, query in queries.items()}
        self._random = random
        self.servers: Servers = Servers(options, queries, random)
        self._roles = {role: Slots(role, options, self.servers) for role in Role}
        self._settle = queries["settle"].text
        self._lost = 0  # calls whose connection broke when the commit may have been sent
        self._settled = 0
        self._calls: set[asyncio.Task[Any]] = set()
        self._closing = asyncio.Event()
        self._is_open = False

    def open(self) -> None:
        """Accept calls. Connections are opened when needed."""
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
        """Run one statement as a transaction of its own, and return its rows.

        Args:
            is_repeatable: twice has the same effect as once, so that a lost connection costs only time.
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
        """Run `work` in one transaction.

        After a deadlock, or an error in `retry_on`, start it again from the beginning.
        """
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
        """Run `work`, in a transaction unless it `is_atomic` by itself (one statement).

        Raises:
            StoreUnavailable: the server cannot be reached, or the connection broke when the commit may have been sent
                and the work is not repeatable.
            TookTooLong: the role is BROWSE, and the server stopped the work at the limit.
        """
        if not self._is_open:
            raise StoreUnavailable("the store is closed")
        if role is Role.BROWSE:
            work = _within_its_time(work)
        call = _Call(work, is_repeatable, is_atomic, (*_TRANSIENT, *retry_on))
        carrying = self._carry_out(self._roles[role], call)
        task = asyncio.current_task() if outlives_callers.get() else None
        if task is not None:
            self._calls.add(task)
            try:
                return await carrying
            finally:
                self._calls.discard(task)
        task = asyncio.create_task(carrying)
        self._calls.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    async def look(self) -> None:
        """Check that these connections lead to the newest server. If not, drop all of them, so that they are opened
        again.

        Raises:
            StoreUnavailable: they do not, or it cannot be found out.
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
        # The connection is given back by now, so that nobody waits for hosts that do not answer.
        if not is_right or not await self.servers.is_newest(standing):
            for each in self._roles.values():
                each.terminate()
            raise WrongServer("the server was left behind by a failover; connecting to the newest one")

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # retrieve it: the caller may be gone, and asyncio would complain

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
                        connection.terminate()  # what is prepared on it is no longer known
                    raise StoreUnavailable(describe_pooler(self._options)) from error
                except call.transient as error:
                    slots.note_answer(connection)
                    if not _is_transient(error):
                        raise
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
        """Cut all connections if none has answered since the start of a call that timed out.

        A host or a middlebox that vanishes silently breaks all of them. Each would be found out only by a call of its
        own, after its own time-out: fires would wait for tens of seconds while heartbeats have long recovered. If
        some connections answer, the server is alive and only slow on the others, as with commits that wait for a
        standby.

        The check is repeated after the time of one heartbeat, by what was heard since now. That covers calls that
        began only just before, and a line that broke after others had answered during the call.
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
        """Wait until what lost calls may have committed is safe, before anything that depends on it is answered.

        A commit that waits for a synchronous standby becomes visible as soon as the wait is given up. On a primary
        that a failover left behind, this never returns, which is right: nothing there will last.
        """
        lost = self._lost
        with suppress(*UNSUPPORTED):
            await connection.execute(self._settle)
        self._settled = max(self._settled, lost)

    async def _try(self, connection: Connection, begin: str, call: _Call[R], progress: _Progress) -> R:
        transaction = Transaction(connection, self._statements)
        progress.is_under_way = True
        # Through a pooler, even one statement needs a transaction: for the settings, and because it takes two
        # messages, which could otherwise reach two server connections.
        if call.is_atomic and not self._options.is_pooled:
            progress.is_sent = True
            return await call.work(transaction)
        await connection.execute(begin)
        try:
            result = await call.work(transaction)
        except BaseException:  # a cancellation at the end of the loop, too: others use the connection next
            await _roll_back(connection)
            raise
        progress.is_sent = True
        await connection.execute("COMMIT")
        return result

    async def _pause(self, tries: int) -> None:
        """Wait for a random time, so that others go first. A store that is closing does not wait."""
        longest = min(_FIRST_PAUSE * 2**tries, _LONGEST_PAUSE)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), longest * self._random.random())


def _is_transient(error: BaseException) -> bool:
    """Return whether a try may go better. Checks of a table have a name; the bounds of a partition have none."""
    return not isinstance(error, asyncpg.CheckViolationError) or error.constraint_name is None


def _within_its_time(work: Work[R]) -> Work[R]:
    """Tell the limit of a read apart from a connection that the server has cut."""

    async def limited(transaction: Transaction) -> R:
        try:
            return await work(transaction)
        except asyncpg.QueryCanceledError as error:
            raise TookTooLong(f"PostgreSQL: {error}") from error

    return limited


async def _roll_back(connection: Connection) -> None:
    """Roll back, or cut the connection if that fails."""
    try:
        if not connection.is_closed():
            await connection.execute("ROLLBACK")
    except (*LOST, asyncpg.PostgresError):
        connection.terminate()


async def _discard(connection: Connection | None, error: BaseException, timeout: float) -> None:
    """Drop a connection. After a time-out, first ask the server to stop what it is doing, and wait for that."""
    if connection is None:
        return
    if isinstance(error, TimeoutError) and not connection.is_closed():
        with suppress(*LOST, asyncpg.PostgresError):
            await connection.close(timeout=timeout)
    connection.terminate()


def _describe(error: BaseException, *, is_in_doubt: bool) -> str:
    doubt = "; it is not known whether the last write took effect" if is_in_doubt else ""
    return describe_loss(error) + doubt
