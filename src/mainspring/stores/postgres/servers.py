"""The servers that a DSN names, and which of them to use."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import asyncpg
import structlog

from mainspring.core.ids import RunId, format_run_id
from mainspring.core.values import value
from mainspring.ports.clock import RandomSource
from mainspring.ports.store import FailoverFacts
from mainspring.stores._sql.queries import Query
from mainspring.stores.postgres.connecting import (
    LOST,
    ConnectionOptions,
    Dialer,
    Role,
    settings_for,
    split_hosts,
)
from mainspring.stores.postgres.failover import Failover, Lineage, Recent, Standing, WrongServer

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

_log = structlog.get_logger(__name__)
_SHARDS = 256
_GRACE = 1.0
"""How long the other hosts have to answer after the first one did, in seconds.

An unreachable host must not delay us.
"""
_SHOWN = 20
"""How many lost runs are named. The rest are only counted."""
_KEPT = 20
"""How many failovers are listed one by one. All are counted."""
UNSUPPORTED = (
    asyncpg.InsufficientPrivilegeError,
    asyncpg.UndefinedFunctionError,
    asyncpg.FeatureNotSupportedError,
    asyncpg.ObjectNotInPrerequisiteStateError,
    asyncpg.InternalServerError,
)
"""The service does not report its server's timeline and position."""


@dataclass(slots=True)
class Losses:
    """What this process knows to have been lost in failovers.

    Attributes:
        failovers: how many it has noticed.
        runs: how many acknowledged submissions and fires the new server does not have.
        wal_bytes: how many bytes of WAL, at least, were written before a failover and are not in the new server's
            history.
        latest: the latest failovers, one by one.
    """

    failovers: int = 0
    runs: int = 0
    wal_bytes: int = 0
    latest: deque[FailoverFacts] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def add(self, facts: FailoverFacts) -> None:
        """Count a failover."""
        self.failovers += 1
        self.runs += facts.runs_lost
        self.wal_bytes += facts.missing_wal
        self.latest.append(facts)


@value()
class _Arrival:
    """A connection, with its server's standing if the server reports one."""

    connection: Connection
    standing: Standing | None
    since: Standing | None

    @property
    def rank(self) -> int:
        return self.standing.timeline if self.standing is not None else 0


class Servers:
    """Opens connections to the newest server, and never to one that a failover left behind.

    It asks all hosts every time, and the highest timeline wins, in whatever order the DSN names them. Connections are
    opened rarely, and the last server used may have been left behind since.

    Attributes:
        recent: the runs that were acknowledged lately.
        losses: what failovers have lost.
        on_failover: called when a failover is noticed, before anything else is asked of the new server. The new
            server may reuse ids that the old one gave out.
    """

    def __init__(
        self, options: ConnectionOptions, queries: Mapping[str, Query], random: RandomSource
    ) -> None:
        dsns = split_hosts(options.dsn)
        self._hosts = [Dialer(replace(options, dsn=dsn), is_one_of_several=len(dsns) > 1) for dsn in dsns]
        self._options = options
        self._queries = {
            name: queries[name].positional()[0]
            for name in ("read_standing", "find_lost_runs", "pass_run_sequence", "note_failover")
        }
        self._process = f"{int(random.random() * 2**52):x}"
        self._unexamined: deque[Failover] = deque()
        self._unwritten: deque[FailoverFacts] = deque()
        self._preferred = 0
        self._is_untold = False
        self._lineage = Lineage()
        self.recent: Recent = Recent()
        self.losses: Losses = Losses()
        self.on_failover: list[Callable[[], None]] = []

    async def connect(self, *, settings: Mapping[str, str], command_timeout: float | None) -> Connection:
        """Open a connection to the newest server.

        Raises:
            WrongServer: all servers that answer were left behind, are standbys, or belong to another system.
        """
        arrivals = await self._dial_all(range(len(self._hosts)), settings, command_timeout)
        return await self._choose(arrivals)

    async def look(self, connection: Connection) -> tuple[bool, Standing | None]:
        """Check that a connection's server was not left behind, as far as that server knows; see also `is_newest`.

        Returns:
            False if it was left behind, so that all connections have to be opened again; and its standing, if it
            reports one.
        """
        since = self._lineage.newest
        standing = await self._ask(connection)
        self.recent.turn()
        try:
            if standing is not None:
                await self._account(connection, self._lineage.admit(standing, since=since))
        except WrongServer as error:
            _log.warning("server_left_behind", error=str(error))
            return False, standing
        return True, standing

    async def is_newest(self, standing: Standing | None) -> bool:
        """Ask the other hosts whether one of them is newer. An unreachable host uses up the whole time-out."""
        others = [place for place in range(len(self._hosts)) if place != self._preferred]
        return standing is None or not others or not await self._is_newer_among(others, standing)

    async def _is_newer_among(self, places: Sequence[int], own: Standing) -> bool:
        settings = settings_for(Role.READ)
        arrivals = await self._dial_all(places, settings, self._options.connect_timeout)
        newer = False
        for place in places:
            arrival = arrivals[place]
            if isinstance(arrival, _Arrival):
                arrival.connection.terminate()
                found = arrival.standing
                newer = newer or (
                    found is not None and found.system == own.system and found.timeline > own.timeline
                )
        if newer:
            _log.warning("newer_server_found", timeline=own.timeline)
        return newer

    async def _dial_all(
        self, places: Sequence[int], settings: Mapping[str, str], command_timeout: float | None
    ) -> dict[int, _Arrival | Exception]:
        dials = {
            place: asyncio.create_task(self._dial(self._hosts[place], settings, command_timeout))
            for place in places
        }
        waiting = set(dials.values())
        try:
            while waiting and not any(isinstance(task.result(), _Arrival) for task in _ended(dials)):
                _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if waiting:
                await asyncio.wait(waiting, timeout=_GRACE)
        except BaseException:  # a cancellation, too: nobody would close the new connections
            for task in dials.values():
                task.cancel()
                task.add_done_callback(_part_with)
            raise
        for task in waiting:
            task.cancel()
        answers = await asyncio.gather(*dials.values(), return_exceptions=True)
        silent = TimeoutError("no answer")
        return {
            place: answer if isinstance(answer, _Arrival | Exception) else silent
            for place, answer in zip(dials, answers, strict=True)
        }

    async def _dial(
        self, host: Dialer, settings: Mapping[str, str], command_timeout: float | None
    ) -> _Arrival | Exception:
        """Connect to one host, and ask for its standing. A failure is an answer, too: other hosts may succeed."""
        since = self._lineage.newest
        try:
            connection = await host.dial(settings=settings, command_timeout=command_timeout)
            try:
                return _Arrival(connection, await self._ask(connection), since)
            except BaseException:  # a cancellation, too
                connection.terminate()
                raise
        except (*LOST, asyncpg.PostgresError, WrongServer) as error:
            return error

    async def _choose(self, arrivals: Mapping[int, _Arrival | Exception]) -> Connection:
        """Choose the newest server, and close the connections to the others."""
        here = {place: found for place, found in arrivals.items() if isinstance(found, _Arrival)}
        order = sorted(here, key=lambda place: here[place].rank, reverse=True)
        for place in order[1:]:
            here[place].connection.terminate()
        if not order:
            errors = [found for found in arrivals.values() if isinstance(found, Exception)]
            # Why an answering server is unsuitable says more than that another one is down.
            telling = (WrongServer, asyncpg.TargetServerAttributeNotMatched)
            raise next((error for error in errors if isinstance(error, telling)), errors[0])
        best = here[order[0]]
        try:
            if best.standing is not None:
                failover = self._lineage.admit(best.standing, since=best.since)
                await self._account(best.connection, failover)
        except BaseException:  # a cancellation, too
            best.connection.terminate()
            raise
        self._preferred = order[0]
        return best.connection

    async def _ask(self, connection: Connection) -> Standing | None:
        """Ask a server for its standing; None if it does not report one.

        Raises:
            WrongServer: it is a standby.
        """
        try:
            [row] = await asyncio.wait_for(
                self._fetch(connection, "read_standing"), self._options.connect_timeout
            )
        except UNSUPPORTED as error:
            if not self._is_untold:
                self._is_untold = True
                _log.warning("failovers_cannot_be_seen", error=str(error))
            return None
        if row["timeline"] is None:
            raise WrongServer("the server is a standby")
        return Standing(row["system"], row["timeline"], row["position"], row["replayed"], row["now"])

    async def _fetch(self, connection: Connection, name: str, *values: object) -> list[asyncpg.Record]:
        """Return a query's rows. Through a pooler, use a transaction, which keeps the messages together."""
        if not self._options.is_pooled:
            return await connection.fetch(self._queries[name], *values)
        async with connection.transaction():
            return await connection.fetch(self._queries[name], *values)

    async def _account(self, connection: Connection, failover: Failover | None) -> None:
        """Find out what a failover has lost, report it, and note it in the store, from where it is told.

        What does not get an answer is tried again over the next connection that is looked at.
        """
        if failover is not None:
            for forget in self.on_failover:
                forget()
            self._unexamined.append(failover)
        while self._unexamined:
            failover = self._unexamined.popleft()
            try:
                facts = await self._examine(connection, failover)
            except BaseException:  # a cancellation, too
                self._unexamined.appendleft(failover)
                raise
            self.losses.add(facts)
            _log_failover(facts)
            # All of them: the new server may lack what was noted before.
            self._unwritten = deque(self.losses.latest)
        while self._unwritten:
            facts = self._unwritten.popleft()
            try:
                await self._note(connection, facts)
            except BaseException:
                self._unwritten.appendleft(facts)
                raise

    async def _note(self, connection: Connection, facts: FailoverFacts) -> None:
        await self._fetch(
            connection,
            "note_failover",
            *(facts.noticed_at, self._process, facts.from_timeline, facts.to_timeline),
            *(facts.missing_wal, facts.runs_lost),
        )

    async def _examine(self, connection: Connection, failover: Failover) -> FailoverFacts:
        """Find out what a failover has lost."""
        told = list(self.recent.told())
        ids = [run_id for run_id, _ in told]
        lost: list[int] = []
        if told:
            instants = [instant for _, instant in told]
            rows = await self._fetch(connection, "find_lost_runs", ids, instants)
            lost = [row["id"] for row in rows]
            await self._fetch(connection, "pass_run_sequence", max(ids) // _SHARDS + 1)
        return FailoverFacts(
            noticed_at=failover.after.seen_at,
            from_timeline=failover.before.timeline,
            to_timeline=failover.after.timeline,
            last_position=failover.before.position,
            shared_position=failover.after.begins_at,
            missing_wal=failover.missing_wal,
            runs_checked=len(ids),
            are_all_checked=self.recent.is_complete,
            runs_lost=len(lost),
            lost_run_ids=tuple(RunId(run_id) for run_id in lost[:_SHOWN]),
        )


def _log_failover(facts: FailoverFacts) -> None:
    told = {
        "from_timeline": facts.from_timeline,
        "to_timeline": facts.to_timeline,
        "missing_wal_bytes": facts.missing_wal,
        "runs_checked": facts.runs_checked,
        "are_all_checked": facts.are_all_checked,  # of the last minute
    }
    if facts.runs_lost:
        shown = [format_run_id(run_id) for run_id in facts.lost_run_ids]
        _log.error("acknowledged_runs_lost", count=facts.runs_lost, runs=shown, **told)
    elif facts.missing_wal:
        _log.error("acknowledged_writes_perhaps_lost", **told)
    else:
        _log.warning("failed_over", **told)


def _ended(
    dials: Mapping[int, asyncio.Task[_Arrival | Exception]],
) -> list[asyncio.Task[_Arrival | Exception]]:
    return [task for task in dials.values() if task.done()]


def _part_with(task: asyncio.Task[_Arrival | Exception]) -> None:
    """Close a connection that nobody waits for any more."""
    if not task.cancelled() and isinstance(found := task.result(), _Arrival):
        found.connection.terminate()
