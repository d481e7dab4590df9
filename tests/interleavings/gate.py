"""Verbs of several stores on one database, held before every statement and let go in a chosen order.

Each side is a `PostgresStore` of its own whose connections stop at a gate before they send a statement; COMMIT has a
gate too, BEGIN has none (it takes no snapshot and no lock). A controller opens one gate at a time and goes on when the
side stands at its next gate, has ended, or waits for a lock that another side holds.

A statement that is a transaction of its own is sent as BEGIN, statement, COMMIT, with a gate before the COMMIT: else no
order could show that another side comes while its locks are held.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from mainspring.stores.postgres import PostgresStore
from mainspring.stores.postgres.connection import Connections

_UNGATED = frozenset({"BEGIN", "ROLLBACK"})
_SOON = 0.002
"""Seconds until a statement that has not answered is looked up in the server's lock table."""

_LOCKS = """
SELECT coalesce(pg_partition_root(class.oid)::regclass::text, class.relname,
        concat_ws(' ', lock.locktype, lock.classid, lock.objid, lock.objsubid)) AS what,
    max(array_position(ARRAY['AccessShareLock', 'RowShareLock', 'RowExclusiveLock'], lock.mode)) AS strength,
    bool_or(lock.locktype = 'relation' AND lock.mode NOT IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock'))
        AS is_of_all
FROM pg_locks AS lock LEFT JOIN pg_class AS class ON class.oid = lock.relation
LEFT JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
WHERE lock.pid = pg_backend_pid() AND lock.locktype NOT IN ('virtualxid', 'transactionid')
    AND (class.oid IS NULL OR class.relkind <> 'i')
    AND (namespace.nspname IS NULL OR namespace.nspname NOT IN ('pg_catalog', 'pg_toast'))
GROUP BY 1
"""
"""What a transaction has locked so far: each table and sequence that it has read or written, and advisory locks.

Partitions count as the table that they are part of.
"""

Verb = Callable[[PostgresStore], Awaitable[Any]]


class NoDelay:
    """A source of chance that makes the store try again at once."""

    def random(self) -> float:
        return 0.0


class Gated:
    """A connection that asks its side before it sends a statement."""

    def __init__(self, connection: Any, side: "Side") -> None:
        self._connection = connection
        self._side = side
        self._is_in_transaction = False

    async def fetch(self, text: str, *values: Any) -> Any:
        return await self._send(self._connection.fetch, text, values)

    async def execute(self, text: str, *values: Any) -> Any:
        if text in _UNGATED:
            self._is_in_transaction = text == "BEGIN"
            if text == "ROLLBACK":
                await self._note_locks()
            return await self._connection.execute(text)
        if text == "COMMIT":
            self._is_in_transaction = False
            return await self._ask(self._connection.execute, text, ())
        return await self._send(self._connection.execute, text, values)

    async def _send(self, send: Callable[..., Awaitable[Any]], text: str, values: tuple[Any, ...]) -> Any:
        if self._is_in_transaction:
            return await self._ask(send, text, values)
        await self._connection.execute("BEGIN")
        try:
            answer = await self._ask(send, text, values)
        except BaseException:
            await self._connection.execute("ROLLBACK")
            raise
        await self._ask(self._connection.execute, "COMMIT", ())
        return answer

    async def _ask(self, send: Callable[..., Awaitable[Any]], text: str, values: tuple[Any, ...]) -> Any:
        await self._side.stop(self._connection.get_server_pid(), text)
        if text == "COMMIT":
            await self._note_locks()
        try:
            return await send(text, *values)
        except asyncpg.PostgresError as error:
            self._side.errors.append(error)
            raise

    async def _note_locks(self) -> None:
        # A transaction that failed has no locks left to be read; whoever watches sees the error.
        if self._side.touched is None or self._side.errors:
            return
        for row in await self._connection.fetch(_LOCKS):
            self._side.touched.note(row["what"], is_read=row["strength"] == 1, is_of_all=row["is_of_all"])

    def is_closed(self) -> bool:
        return bool(self._connection.is_closed())

    async def close(self, *, timeout: float | None = None) -> None:
        await self._connection.close(timeout=timeout)

    def terminate(self) -> None:
        self._connection.terminate()


@dataclass
class Touched:
    """What a verb's statements have touched: tables, sequences and advisory locks, by PostgreSQL's table of locks.

    Each statement locks every table that it names, and that its triggers and foreign keys name, until its transaction
    ends; so nothing that it reads or writes is missing here.

    Attributes:
        changes: what it locked for more than reading: it wrote rows there, locked some, or would have.
        is_of_all: it locked a table against others as a whole.
    """

    reads: set[str] = field(default_factory=set)
    changes: set[str] = field(default_factory=set)
    is_of_all: bool = False

    def note(self, what: str, *, is_read: bool, is_of_all: bool) -> None:
        (self.reads if is_read else self.changes).add(what)
        self.is_of_all |= is_of_all

    def disturbs(self, other: "Touched") -> bool:
        """Return whether it could change what the other one reads, or make it wait."""
        return self.is_of_all or bool(self.changes & (other.reads | other.changes))


class Side:
    """One store, and where its verb stands.

    Attributes:
        touched: gathers what the verb touches, where that is asked for.
    """

    def __init__(self, name: str, dsn: str) -> None:
        self.name = name
        self.store = PostgresStore(dsn, random=NoDelay())
        self.errors: list[asyncpg.PostgresError] = []
        self.touched: Touched | None = None
        self.statements = 0
        self.pid = 0
        self.text = ""
        self._changed = asyncio.Event()
        self._gate: asyncio.Future[None] | None = None
        self._task: asyncio.Future[Any] | None = None
        self._names = {text: name for name, (text, _) in self.store._connections._statements.items()}
        self._gate_connections(self.store._connections)

    def _gate_connections(self, connections: Connections) -> None:
        for slots in connections._roles.values():

            async def connect(make: Callable[[], Awaitable[Any]] = slots.connect) -> Any:
                return Gated(await make(), self)

            slots.connect = connect  # type: ignore[method-assign]  # a stand-in for a connection

    async def stop(self, pid: int, text: str) -> None:
        """Wait at the gate, while a verb is under control."""
        if self._task is None:
            return
        self.pid = pid
        self.text = self._names.get(text, text)
        self._gate = asyncio.get_running_loop().create_future()
        self._changed.set()
        await self._gate

    def start(self, verb: Verb) -> None:
        self.errors = []
        self.statements = 0
        self.pid = 0
        self._gate = None
        self._changed.clear()
        self._task = asyncio.ensure_future(verb(self.store))
        self._task.add_done_callback(lambda _: self._changed.set())

    @property
    def is_at_gate(self) -> bool:
        return self._gate is not None

    @property
    def is_done(self) -> bool:
        return self._task is not None and self._task.done()

    @property
    def is_settled(self) -> bool:
        return self.is_at_gate or self.is_done

    def go(self) -> None:
        """Let the next statement out."""
        assert self._gate is not None
        gate, self._gate = self._gate, None
        self.statements += 1
        gate.set_result(None)

    async def change(self, timeout: float) -> bool:
        """Wait for the next gate or the end; say whether it came in time."""
        if self.is_settled:
            return True
        self._changed.clear()
        try:
            async with asyncio.timeout(timeout):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def result(self) -> Any:
        """Return what the verb answered, or raise what it raised."""
        assert self._task is not None
        task, self._task = self._task, None
        return task.result()


@dataclass
class Played:
    """What came of one order.

    Attributes:
        trace: who sent a statement, one letter each; lower case where it then waited for a lock.
        options: at each point where more than one side could go: who, and who went.
        ended: the sides in the order in which their verbs returned.
    """

    trace: str = ""
    script: list[str] = field(default_factory=list)
    options: list[tuple[str, str]] = field(default_factory=list)
    ended: str = ""
    results: tuple[Any, ...] = ()
    counts: tuple[int, ...] = ()
    errors: tuple[asyncpg.PostgresError, ...] = ()


class Controller:
    """Lets the sides of one database go in a given order."""

    def __init__(self, sides: Sequence[Side], watch: Any) -> None:
        self.sides = tuple(sides)
        self.watch = watch

    async def play(self, verbs: Sequence[Verb], order: str) -> Played:
        """Carry out a verb on each side.

        Args:
            order: who goes where several could; letters of sides that cannot go just then are passed over, and
                where the order has no more letters the first side that can goes.
        """
        played = Played()
        sides = self.sides[: len(verbs)]
        letters = iter(order)
        for side, verb in zip(sides, verbs, strict=True):
            side.start(verb)
        for side in sides:
            await self._settle(side, sides)
        while not all(side.is_done for side in sides):
            ready = {side.name: side for side in sides if side.is_at_gate}
            if not ready:  # each waits for another: the server finds the deadlock, and one comes back
                for side in sides:
                    await side.change(0.05)
                await self._note(played, sides)
                continue
            names = "".join(ready)
            name = names[0]
            if len(ready) > 1:
                name = next((letter for letter in letters if letter in ready), name)
                played.options.append((names, name))
            side = ready[name]
            played.script.append(f"{name}:{side.text}")
            side.go()
            await self._settle(side, sides)
            played.trace += name if side.is_settled else name.lower()
            await self._note(played, sides)
        played.counts = tuple(side.statements for side in sides)
        played.errors = tuple(error for side in sides for error in side.errors)
        played.results = tuple(side.result() for side in sides)
        return played

    async def _note(self, played: Played, sides: Sequence[Side]) -> None:
        for side in sides:
            if not side.is_settled:
                await self._settle(side, sides, at_once=True)
        for side in sides:
            if side.is_done and side.name not in played.ended:
                played.ended += side.name

    async def _settle(self, side: Side, sides: Sequence[Side], *, at_once: bool = False) -> None:
        """Wait until a side stands at a gate, has ended, or waits for a lock of another side."""
        others = [other.pid for other in sides if other is not side and other.pid]
        while not side.is_settled:
            if not at_once and await side.change(_SOON):
                return
            at_once = False
            if side.pid and await self._waits(side.pid, others):
                return

    async def _waits(self, pid: int, others: Sequence[int]) -> bool:
        # Stricter than pg_stat_activity.wait_event_type, which still says Lock for a moment after the lock was given.
        return bool(
            await self.watch.fetchval("SELECT pg_blocking_pids($1::integer) && $2::integer[]", pid, others)
        )


@asynccontextmanager
async def open_controller(dsn: str, names: str = "AB") -> AsyncIterator[Controller]:
    """Open a gated store for each letter."""
    async with AsyncExitStack() as stack:
        watch = await asyncpg.connect(dsn)
        stack.push_async_callback(watch.close)
        sides = []
        for name in names:
            side = Side(name, dsn)
            await side.store.open()
            stack.push_async_callback(side.store.close)
            sides.append(side)
        yield Controller(sides, watch)
