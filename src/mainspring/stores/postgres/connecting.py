"""Opens connections: to which host, for which role, with which server settings."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import asyncpg

from mainspring.core.values import value

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
"""The connection broke, or can no longer be used."""


class Role(StrEnum):
    """What a connection is for."""

    SUBMIT = "submit"
    CLAIM = "claim"
    CAPPED = "capped"
    APPLY = "apply"
    FIRE = "fire"
    FLOW = "flow"
    BEAT = "beat"
    PLAN = "plan"
    WATCH = "watch"
    LOG = "log"
    EDIT = "edit"
    READ = "read"
    BROWSE = "browse"
    UPKEEP = "upkeep"
    ARCHIVE = "archive"


_EASY = frozenset({Role.EDIT, Role.READ, Role.BROWSE, Role.UPKEEP, Role.ARCHIVE})
"""Roles for which PostgreSQL's planner is free to choose."""

_AT_START = frozenset({"timezone", "application_name"})
"""Settings that every pooler accepts from a connecting client and keeps for it. PgBouncer refuses all others there."""

_COMMON_SETTINGS = {
    "timezone": "UTC",
    "jit": "off",
    # A frozen process must not keep its row locks: others take its shards as soon as they know that it is silent, by
    # default after 4.2 to 5.6 s.
    "idle_in_transaction_session_timeout": "4s",
}

# The other roles find every row by index, in the order of the arguments. A plan made while the tables were empty, or
# from statistics that a burst has outdated, may do otherwise, and stays until the next ANALYZE: forbid it.
_PINNED_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
}

# A list has one statement for all its filters, and another plan for each combination of them.
# And which table holds a state is told by its CHECK constraint.
_BROWSING_SETTINGS = {"plan_cache_mode": "force_custom_plan", "constraint_exclusion": "on"}


def settings_for(role: Role) -> dict[str, str]:
    """Return the server settings of a role's connections."""
    own = _BROWSING_SETTINGS if role is Role.BROWSE else {} if role in _EASY else _PINNED_SETTINGS
    return {**_COMMON_SETTINGS, **own, "application_name": f"mainspring-{role.value}"}


@value()
class ConnectionOptions:
    """How to connect.

    Attributes:
        statement_cache: how many prepared statements each connection keeps; 0 for poolers that cannot keep them.
        per_role: how many connections a role has; for roles not named 1, and `browse_connections` to browse.
        is_pooled: a pooler in between lends server connections for one transaction at a time (PgBouncer in
            transaction mode). So nothing may be left on them, neither settings nor LISTEN.
        listen_dsn: the DSN to listen for hints, past a pooler; by default `dsn`.
        browse_timeout: how long a list or count may take, in seconds.
        browse_connections: how many connections read for lists and counts. With one, a list that takes long would
            hold up every other.
    """

    dsn: str
    connect_timeout: float = 5.0
    command_timeout: float = 30.0
    statement_cache: int = 200
    per_role: Mapping[Role, int] | None = None
    is_pooled: bool = False
    listen_dsn: str | None = None
    browse_timeout: float = 1.0
    browse_connections: int = 2

    @property
    def carries_hints(self) -> bool:
        """Whether LISTEN is possible."""
        return not self.is_pooled or self.listen_dsn is not None


def begin_with(options: ConnectionOptions, settings: Mapping[str, str]) -> str:
    """Return the statements that begin a transaction with these settings, in one message and one round trip."""
    if not options.is_pooled:
        return "BEGIN"
    return "; ".join(["BEGIN", *_assignments("SET LOCAL", settings)])


class Dialer:
    """Opens connections to the first suitable host of the DSN. The host that was suitable last time goes first.

    If there are several hosts, it looks for one that accepts writes, unless the DSN says otherwise
    (`target_session_attrs`): after a failover, the old primary may be back as a standby. Each host has the full time
    to connect, so that one that never answers does not use up the time of the next.

    Args:
        is_one_of_several: the DSN's only host is one of several; other dialers have the others.
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
        """Open a connection with these server settings. A pooled one gets them only from `begin_with`.

        Raises:
            OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError: no host was suitable;
                the error is that of the host tried last.
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
            raise  # before ValueError, because a certificate that does not verify is one, too
        except ValueError as error:
            # The driver cannot read the address or a PG… variable. Its message may quote the part, even a password.
            raise asyncpg.ClientConfigurationError("the address or a PG… variable cannot be read") from error
        later = _assignments("SET", settings)
        if later and not options.is_pooled:
            try:
                await connection.execute("; ".join(later), timeout=options.connect_timeout)
            except BaseException:  # a cancellation, too
                connection.terminate()
                raise
        return connection


def split_hosts(dsn: str) -> list[str]:
    """Return one DSN for each host that a DSN names: `…@a:5432,b:5433/db` gives one for a and one for b."""
    parts = urlsplit(dsn)
    user, at, hosts = parts.netloc.rpartition("@")
    if "," not in hosts:
        return [dsn]
    return [parts._replace(netloc=f"{user}{at}{host}").geturl() for host in hosts.split(",")]


def _assignments(verb: str, settings: Mapping[str, str]) -> list[str]:
    return [f"{verb} {name} TO '{value}'" for name, value in settings.items() if name not in _AT_START]
