"""A cluster under trial: PostgreSQL, servers and workers, each a process, with a breakable line between any two."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import asyncpg

from tests.chaos.client import Noted
from tests.chaos.cluster.server import ClusterServer, free_ports
from tests.chaos.collect import FinalRead, read_postgres
from tests.chaos.failpoints import Failpoint, read_notes
from tests.chaos.fuses import REFUSALS
from tests.chaos.processes import Ended, Process, Worker
from tests.chaos.receiver import Receiver
from tests.chaos.trials import Scene, stop_all
from tests.failover.servers import DATABASE, Programs, Server
from tests.support.proxy import Proxy

SHARDS = 256
_PATIENCE = 60.0
_LOOK = 0.1
_TRIES = 20
_REST = 1.0
_OWNERS = """
    SELECT n.pid, count(*) AS shards
    FROM shard_lease AS s JOIN node AS n ON n.id = s.node_id
    GROUP BY n.pid ORDER BY shards DESC, n.pid
"""
_LEASES = (
    "SELECT count(*) AS leases FROM run AS r JOIN session AS s ON s.id = r.session_id WHERE s.pid = {pid}"
)
_DEAD = "SELECT pid FROM session WHERE state = 'dead'"
_SESSIONS = "SELECT pid FROM session WHERE state = 'live'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many processes a cluster has, and how they beat.

    Attributes:
        remote: workers over HTTP, each of which knows all servers.
        direct: workers straight on the store.
        slots: of each worker.
        beat_period: seconds between the heartbeats of a worker.
        node_period: seconds between those of a server.
    """

    servers: int = 3
    remote: int = 2
    direct: int = 2
    slots: int = 8
    beat_period: float = 0.5
    node_period: float = 0.5

    @property
    def all_slots(self) -> int:
        """Attempts that can be carried out at a time."""
        return (self.remote + self.direct) * self.slots

    @property
    def worker_lease(self) -> float:
        """Seconds after which a silent worker is declared dead: three periods, and one until somebody looks."""
        return 4 * self.beat_period

    @property
    def node_lease(self) -> float:
        """Seconds after which a silent server's shards are taken."""
        return 4 * self.node_period


class Unsettled(RuntimeError):
    """The cluster did not come back to what it should be."""


@dataclass(slots=True, kw_only=True)
class Cluster(Scene):
    """The processes of a cluster.

    Attributes:
        lines: what each process speaks through, by its name: a server or a worker on the store to PostgreSQL, a
            worker over HTTP to each of the servers. Empty where they speak directly.
        settle_times: seconds from each fault's end to the moment at which all was as before.
        last_trouble: what was last found not to be as before.
    """

    size: Size
    database: Server
    servers: list[ClusterServer]
    lines: dict[str, list[Proxy]] = field(default_factory=dict)
    settle_times: list[float] = field(default_factory=list)
    last_trouble: str = ""
    _turn: int = 0

    @property
    def address(self) -> str:
        """The next server's, of those that run."""
        self._turn += 1
        running = [server for server in self.servers if server.is_running] or self.servers
        return running[self._turn % len(running)].address

    @property
    def dsn(self) -> str:
        """The database, directly."""
        return self.database.database

    def is_to_store(self, name: str) -> bool:
        """Say whether a process's line leads to PostgreSQL, not to the servers."""
        return self.lines[name][0].url.startswith("postgresql:")

    def way_to_store(self, name: str) -> str:
        """Return the DSN by which a process reaches PostgreSQL."""
        return self.lines[name][0].dsn if name in self.lines else self.dsn

    def place_at_store(self, name: str) -> list[str]:
        """Return the options of a worker straight on the store."""
        return ["--store", self.way_to_store(name), "--beat-period", str(self.size.beat_period)]

    def place_at_servers(self, name: str) -> list[str]:
        """Return the options of a worker over HTTP."""
        line = self.lines.get(name)
        ways = [proxy.url for proxy in line] if line else [server.address for server in self.servers]
        return [part for way in ways for part in ("--server", way)]

    async def start(self) -> None:
        """Start PostgreSQL with an empty database, the lines, the servers, the workers."""
        await asyncio.to_thread(self.database.initialise)
        await self.start_database()
        await asyncio.to_thread(self.database.ask, f"CREATE DATABASE {DATABASE}")
        for proxy in self.proxies:
            await proxy.start()
        await asyncio.to_thread(self.servers[0].start)  # the one that makes the schema
        await asyncio.gather(*(asyncio.to_thread(server.start) for server in self.servers[1:]))
        await asyncio.gather(*(asyncio.to_thread(worker.start) for worker in self.workers))
        await self.settle()

    async def start_database(self) -> None:
        """Start PostgreSQL and wait until it answers."""
        await asyncio.to_thread(self.database.start)

    @property
    def proxies(self) -> list[Proxy]:
        """All of all lines."""
        return [proxy for line in self.lines.values() for proxy in line]

    async def stop(self) -> None:
        await stop_all(self.workers)
        await stop_all(self.servers)

    async def read(self, noted: Iterable[Noted]) -> FinalRead:
        return await read_postgres(self.dsn, noted)

    def check(self) -> str:
        """Say `ok` where no table's index misses a row."""
        return check_indexes(self.database)

    async def ask(self, query: str) -> list[Any]:
        """Return a query's rows, straight from PostgreSQL."""
        connection = await asyncpg.connect(self.dsn)
        try:
            return list(await connection.fetch(query))
        finally:
            await connection.close()

    async def find_owner(self) -> ClusterServer:
        """Return the server that owns most shards."""
        for row in await self.ask(_OWNERS):
            for server in self.servers:
                if server.is_running and server.pid == row["pid"]:
                    return server
        raise Unsettled("no running server owns a shard")

    async def count_leases(self, worker: Worker) -> int:
        """Return how many leases a worker's session holds."""
        [row] = await self.ask(_LEASES.format(pid=worker.pid))
        count: int = row["leases"]
        return count

    async def count_false_deaths(self) -> int:
        """Return how many workers were declared dead whose processes nobody had killed or stopped."""
        harmed = {pid for worker in self.workers for pid in worker.harmed}
        return sum(row["pid"] not in harmed for row in await self.ask(_DEAD))

    async def settle(self) -> None:
        """Wait until all processes run, every shard is owned by a living server, and every worker has its session.

        Raises:
            Unsettled: it does not come to that.
        """
        began = time.monotonic()
        while (why := await self._trouble()) is not None:
            self.last_trouble = why
            if time.monotonic() - began > _PATIENCE:
                healths = [await asyncio.to_thread(_ask_health, server) for server in self.servers]
                raise Unsettled("\n".join([f"after {_PATIENCE} s: {why}", *healths]))
            await asyncio.sleep(_LOOK)
        self.settle_times.append(time.monotonic() - began)

    async def _trouble(self) -> str | None:
        dead = [process.name for process in (*self.servers, *self.workers) if not process.is_running]
        if dead:
            return f"{', '.join(dead)} not running"
        try:
            owners = {row["pid"]: row["shards"] for row in await self.ask(_OWNERS)}
            sessions = {row["pid"] for row in await self.ask(_SESSIONS)}
        except (OSError, asyncpg.PostgresError) as error:
            return f"PostgreSQL: {error}"
        alive = {server.pid for server in self.servers}
        if set(owners) != alive or sum(owners.values()) != SHARDS:
            return f"shards are owned by {owners}, alive are {alive}"
        lost = [worker.name for worker in self.workers if worker.pid not in sessions]
        return f"no session of {', '.join(lost)}" if lost else None

    async def revive(
        self,
        process: Process,
        kind: str,
        at: float,
        *,
        failpoint: Failpoint | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start a process that was ended at an instant, and note that fault as over."""
        began = time.monotonic()
        if isinstance(process, ClusterServer):
            if failpoint is None:
                await self._start_server(process, environment)
            else:
                await asyncio.to_thread(process.start, failpoint, environment)
            self.restarts.append(time.monotonic() - began)
        elif isinstance(process, Worker):
            await self._start_worker(process)
        self.blame(kind, process.name, at, time.time())

    async def _start_server(self, server: ClusterServer, environment: Mapping[str, str] | None) -> None:
        for _ in range(_TRIES):
            try:
                await asyncio.to_thread(server.start, None, environment)
                return
            except Ended:
                # It gives up when the store is away while it starts; whoever runs it starts it again.
                self.reached["server gave up its start"] += 1
                await asyncio.sleep(_REST)
        raise Ended(f"{server.name} did not start: see {server.log.name}")

    async def _start_worker(self, worker: Worker) -> None:
        for _ in range(_TRIES):
            try:
                await asyncio.to_thread(worker.start)
                return
            except Ended:
                # It gives up when it loses the server while it starts; whoever runs it starts it again.
                self.reached["worker gave up its start"] += 1
        raise Ended(f"{worker.name} did not start: see {worker.log.name}")

    async def kill(self, process: Process) -> float:
        """Kill a process; say when."""
        at = await asyncio.to_thread(process.kill)
        if isinstance(process, ClusterServer):
            self.fallen.append(datetime.fromtimestamp(at, UTC))
        return at

    def refusals_since(self, at: float) -> int:
        """Return how many writes the store refused as stale since an instant."""
        notes = read_notes(self.effects.parent / "notes")
        return sum(what in REFUSALS and instant >= at for instant, what in notes)


def _ask_health(server: ClusterServer) -> str:
    """Return what a server says of itself, for whoever has to find out what is wrong."""
    try:
        with urlopen(f"{server.address}/health", timeout=5) as answer:
            return f"{server.name}, process {server.pid}: {answer.read().decode()}"
    except OSError as error:
        return f"{server.name}, process {server.pid}: {error}"


def check_indexes(database: Server) -> str:
    """Say `ok` where every index holds exactly its table's rows, else what PostgreSQL says."""
    try:
        database.ask("CREATE EXTENSION IF NOT EXISTS amcheck", database=DATABASE)
        database.ask(
            "SELECT bt_index_check(c.oid, true) FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid "
            "JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'btree' AND c.relkind = 'i' "
            "AND c.relnamespace = 'public'::regnamespace",
            database=DATABASE,
        )
    except asyncpg.PostgresError as error:
        return str(error)
    return "ok"


@asynccontextmanager
async def open_cluster(
    folder: Path, size: Size, *, has_lines: bool = True, settings: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[Cluster, Receiver]]:
    """Provide the processes, not started yet, and end what is left of them.

    Args:
        has_lines: whether all of them speak through lines that can be broken.
        settings: of PostgreSQL.
    """
    receiver = Receiver(folder / "effects")
    await receiver.start()
    place = _make_place()
    cluster = Cluster(
        size=size,
        workers=[],
        effects=folder / "effects",
        database=Server(Programs(), place / "postgres", settings=settings),
        servers=[],
    )
    _people(cluster, folder, size, receiver.address)
    if has_lines:
        _lay_lines(cluster, size.remote)
    try:
        yield cluster, receiver
    finally:
        for process in (*cluster.workers, *cluster.servers):
            await asyncio.to_thread(process.close)
        for proxy in cluster.proxies:
            await proxy.stop()
        await asyncio.to_thread(cluster.database.close)
        shutil.rmtree(place, ignore_errors=True)
        await receiver.stop()


def _make_place() -> Path:
    """Make a folder where PostgreSQL's user can get to."""
    place = Path(tempfile.mkdtemp(prefix="mainspring-cluster-"))
    place.chmod(0o755)
    return place


def _people(cluster: Cluster, folder: Path, size: Size, receiver: str) -> None:
    """Give a cluster its servers and workers."""
    for index, port in enumerate(free_ports(size.servers)):
        name = f"server-{index}"
        cluster.servers.append(
            ClusterServer(
                folder,
                name=name,
                store=partial(cluster.way_to_store, name),
                port=port,
                receiver=receiver,
                beat_period=size.beat_period,
                node_period=size.node_period,
            )
        )
    for index in range(size.remote + size.direct):
        name = f"worker-{index}"
        find_place = cluster.place_at_servers if index < size.remote else cluster.place_at_store
        worker = Worker(
            folder, name=name, place=partial(find_place, name), receiver=receiver, slots=size.slots
        )
        cluster.workers.append(worker)


def _lay_lines(cluster: Cluster, remote: int) -> None:
    for process in (*cluster.servers, *cluster.workers[remote:]):
        cluster.lines[process.name] = [Proxy(cluster.dsn)]
    for worker in cluster.workers[:remote]:
        cluster.lines[worker.name] = [Proxy(server.address) for server in cluster.servers]
