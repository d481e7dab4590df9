"""Opening connections: where to, for which role, with which settings of the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

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
    WATCH = "watch"
    EDIT = "edit"
    READ = "read"
    UPKEEP = "upkeep"


_EASY = frozenset({Role.EDIT, Role.READ, Role.UPKEEP})
"""Roles whose plans are left to the planner."""

_COMMON_SETTINGS = {
    "timezone": "UTC",
    "jit": "off",
    "idle_in_transaction_session_timeout": "60s",  # a frozen process must not keep its row locks for ever
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
    """

    dsn: str
    connect_timeout: float = 5.0
    command_timeout: float = 30.0
    statement_cache: int = 200
    per_role: Mapping[Role, int] | None = None


async def dial(
    options: ConnectionOptions, *, settings: Mapping[str, str], command_timeout: float | None
) -> Connection:
    """Open a connection with these settings of the server."""
    return await asyncpg.connect(
        options.dsn,
        timeout=options.connect_timeout,
        command_timeout=command_timeout,
        statement_cache_size=options.statement_cache,
        max_cached_statement_lifetime=0,
        server_settings=dict(settings),
    )
