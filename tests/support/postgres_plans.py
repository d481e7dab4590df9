"""The plans that PostgreSQL keeps for a statement, as tests look at them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import asyncpg

from mainspring.stores._sql.queries import Query
from mainspring.stores.postgres.connecting import Role, settings_for


def walk(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Give a node and all below it, from the top."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from walk(child)


async def explain(
    dsn: str, role: Role, query: Query, *, values: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Return the nodes of the plan of a query under a role's settings, from the top.

    Args:
        values: the parameters that are not NULL, as SQL, for the plan that is made for them; None for the generic plan.
    """
    text, names = query.positional()
    connection = await asyncpg.connect(dsn, server_settings=settings_for(role))
    try:
        if values is None:
            await connection.execute("SET plan_cache_mode = force_generic_plan")
        await connection.execute(f"PREPARE query AS {text}")
        given = [(values or {}).get(name, "NULL") for name in names]
        arguments = f"({', '.join(given)})" if names else ""
        answer = await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE query{arguments}")
    finally:
        await connection.close()
    return list(walk(json.loads(answer)[0]["Plan"]))
