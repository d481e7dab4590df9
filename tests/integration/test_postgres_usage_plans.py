"""Usage is found by its time, however much of it is kept."""

from collections.abc import Iterator

import asyncpg
import pytest

from mainspring.stores._sql.queries import load_queries
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.schema import PACKAGE
from tests.support.postgres import temporary_database
from tests.support.postgres_databases import template_database
from tests.support.postgres_plans import explain

pytestmark = pytest.mark.postgres
QUERIES = load_queries(PACKAGE)
KEPT = """
INSERT INTO usage_minute (at, tenant, queue, process, body)
SELECT now() - make_interval(mins => n / 20), 'shop', 'q' || n % 20, 'p', '{}'
FROM generate_series(1, 60000) AS n;
INSERT INTO usage_hour (at, tenant, queue, body)
SELECT now() - make_interval(hours => n / 10), 'shop', 'q' || n % 10, '{}' FROM generate_series(1, 60000) AS n;
"""


@pytest.fixture(scope="module")
def dsn(postgres_server: str) -> Iterator[str]:
    with (
        template_database(postgres_server) as template,
        temporary_database(postgres_server, template=template) as dsn,
    ):
        yield dsn


@pytest.mark.parametrize(
    "name", ["list_usage_minutes", "list_usage_hours", "prune_usage_minutes", "prune_usage_hours"]
)
async def test_usage_is_found_by_its_time(dsn: str, name: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        if not await connection.fetchval("SELECT count(*) FROM usage_minute"):
            await connection.execute(KEPT)
            await connection.execute("ANALYZE usage_minute, usage_hour")
    finally:
        await connection.close()
    before = "now() - interval '7 days'" if "minutes" in name else "now() - interval '400 days'"
    values = {"since": "now() - interval '1 hour'", "until": "now()", "before": before, "limit": "1000"}
    values = {key: value for key, value in values.items() if key in QUERIES[name].positional()[1]}
    nodes = await explain(
        dsn, Role.BROWSE if name.startswith("list") else Role.UPKEEP, QUERIES[name], values=values
    )
    assert not [node for node in nodes if node["Node Type"] == "Seq Scan"]
    table = f"usage_{name.rpartition('_')[2].removesuffix('s')}"
    assert f"{table}_pkey" in {node.get("Index Name") for node in nodes}
