"""Opening connections: where to, for which role, with which settings of the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import asyncpg

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

LOST = (
    OSError,  # TimeoutError among them
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,  # after a failover the old address may be a standby
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""The connection broke or is of no use any more."""


class Role(StrEnum):
    """What a connection is for."""

    SUBMIT = "submit"
    CLAIM = "claim"
    APPLY = "apply"
    FIRE = "fire"
    BEAT = "beat"
    PLAN = "plan"
    WATCH = "watch"
    EDIT = "edit"
    READ = "read"
    UPKEEP = "upkeep"


_EASY = frozenset({Role.EDIT, Role.READ, Role.UPKEEP})
"""Roles whose plans are left to the planner."""

_AT_START = frozenset({"timezone", "application_name"})
"""Settings that every pooler takes when a client connects, and keeps with it. Others PgBouncer refuses there."""

_COMMON_SETTINGS = {
    "timezone": "UTC",
    "jit": "off",
    # A frozen process must not keep its row locks: its shards are to be taken as soon as it is known to be silent,
    # which by default is after 4.2 to 5.6 s.
    "idle_in_transaction_session_timeout": "4s",
}

# The other roles find every row by index, in the order of the arguments. A plan made while the tables were empty, or
# by statistics that a burst has overtaken, may say otherwise and is kept until the next ANALYZE: forbid it.
_PINNED_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
}


def settings_for(role: Role) -> dict[str, str]:
    """Return the server settings of a role's connections."""
    pinned = {} if role in _EASY else _PINNED_SETTINGS
    return {**_COMMON_SETTINGS, **pinned, "application_name": f"mainspring-{role.value}"}


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """How to connect.

    Attributes:
        statement_cache: prepared statements kept per connection; 0 for poolers that cannot keep them.
        per_role: connections for a role, where it is not one.
        is_pooled: a pooler in between lends a server's connection for one transaction at a time (PgBouncer in
            transaction mode), so that nothing may be left on it: neither settings nor LISTEN.
        listen_dsn: where hints are listened for, if not at `dsn`: past a pooler.
    """

    dsn: str
    connect_timeout: float = 5.0
    command_timeout: float = 30.0
    statement_cache: int = 200
    per_role: Mapping[Role, int] | None = None
    is_pooled: bool = False
    listen_dsn: str | None = None

    @property
    def carries_hints(self) -> bool:
        """Whether there is a way to LISTEN."""
        return not self.is_pooled or self.listen_dsn is not None


def begin_with(options: ConnectionOptions, settings: Mapping[str, str]) -> str:
    """Return what begins a transaction with these settings: one message, one round trip."""
    if not options.is_pooled:
        return "BEGIN"
    return "; ".join(["BEGIN", *_assignments("SET LOCAL", settings)])


class Dialer:
    """Opens connections to the first of the DSN's hosts that will do; the one that did last time goes first.

    Of several hosts one that may be written to is looked for, unless the DSN says otherwise
    (`target_session_attrs`): after a failover the old primary may be there again, as a standby. Each host has the
    whole time to connect, so that one that swallows everything does not keep us from the next.

    Args:
        is_one_of_several: the DSN's only host is one of several, of which another dialer knows.
    """

    def __init__(self, options: ConnectionOptions, *, is_one_of_several: bool = False) -> None:
        self._options = options
        self._dsns = split_hosts(options.dsn)
        self._extra: dict[str, Any] = {}
        query = urlsplit(options.dsn).query
        is_one_of_several = is_one_of_several or len(self._dsns) > 1
        if is_one_of_several and not options.is_pooled and "target_session_attrs=" not in query:
            self._extra["target_session_attrs"] = "read-write"

    async def dial(self, *, settings: Mapping[str, str], command_timeout: float | None) -> Connection:
        """Open a connection with these settings of the server; a pooled one has them from `begin_with` alone.

        Raises:
            OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError: what went wrong at
                the host that was tried last.
        """
        dsns = list(self._dsns)
        for dsn in dsns:
            try:
                connection = await self._dial_one(dsn, settings, command_timeout)
            except LOST:
                if dsn is dsns[-1]:
                    raise
                continue
            if dsn is not dsns[0]:
                self._dsns = [dsn, *(other for other in dsns if other is not dsn)]
            return connection
        raise AssertionError("there is no DSN without a host")

    async def _dial_one(
        self, dsn: str, settings: Mapping[str, str], command_timeout: float | None
    ) -> Connection:
        options = self._options
        try:
            connection: Connection = await asyncpg.connect(
                dsn,
                timeout=options.connect_timeout,
                command_timeout=command_timeout,
                statement_cache_size=options.statement_cache,
                max_cached_statement_lifetime=0,
                server_settings={name: value for name, value in settings.items() if name in _AT_START},
                **self._extra,
            )
        except (OSError, asyncpg.InterfaceError):
            raise  # first: a certificate that does not verify is a ValueError as well
        except ValueError as error:
            # What the driver cannot read in the address or in PG… variables; it may quote the part, a password's even.
            raise asyncpg.ClientConfigurationError(
                "the address, or a PG… variable, cannot be read"
            ) from error
        later = _assignments("SET", settings)
        if later and not options.is_pooled:
            try:
                await connection.execute("; ".join(later), timeout=options.connect_timeout)
            except BaseException:  # a cancellation, too
                connection.terminate()
                raise
        return connection


def split_hosts(dsn: str) -> list[str]:
    """Return a DSN for each of the hosts that one names: `…@a:5432,b:5433/db` for a and for b."""
    parts = urlsplit(dsn)
    user, at, hosts = parts.netloc.rpartition("@")
    if "," not in hosts:
        return [dsn]
    return [parts._replace(netloc=f"{user}{at}{host}").geturl() for host in hosts.split(",")]


def _assignments(verb: str, settings: Mapping[str, str]) -> list[str]:
    return [f"{verb} {name} TO '{value}'" for name, value in settings.items() if name not in _AT_START]
