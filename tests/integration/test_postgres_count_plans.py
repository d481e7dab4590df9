"""What ended lately is counted by the blocks that hold it, however much ended before."""

from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from mainspring.stores._sql.queries import load_queries
from mainspring.stores.postgres.connecting import Role, settings_for
from mainspring.stores.postgres.schema import PACKAGE
from tests.support.postgres import temporary_database
from tests.support.postgres_databases import template_database
from tests.support.postgres_plans import explain

pytestmark = pytest.mark.postgres

QUERIES = load_queries(PACKAGE)
# In one partition, because a day may begin during the test. Rows lie in the order in which they ended.
LARGE_HISTORY = """
INSERT INTO run_history (id, job_id, version, queue, route, tenant, priority, kind, state, due_at, created_at,
    finished_at, attempt, token, crashes)
SELECT n * 256, md5((n % 50)::text)::uuid, 1, 'q1', 'http', 'default', 1, 'manual', 'SUCCEEDED', ended, ended,
    ended, 1, 1, 0
FROM (SELECT n, timestamptz '2001-01-01' + n * interval '50 milliseconds' AS ended FROM generate_series(1, 200000) AS n)
    AS finished;
"""
END = "timestamptz '2001-01-01' + 200000 * interval '50 milliseconds'"
RECENT = f"{END} - interval '1 minute'"
NAMES = ["count_ended", "settle_ends"]


@pytest.fixture(scope="module")
def dsn(postgres_server: str) -> Iterator[str]:
    with (
        template_database(postgres_server) as template,
        temporary_database(postgres_server, template=template) as dsn,
    ):
        yield dsn


@pytest.fixture
async def connection(dsn: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """One with the settings of the census, over a history that is large and has been analyzed."""
    connection = await asyncpg.connect(dsn, server_settings=settings_for(Role.UPKEEP))
    if not await connection.fetchval("SELECT count(*) FROM run_history"):
        await connection.execute(LARGE_HISTORY)
        await connection.execute("VACUUM ANALYZE")
    yield connection
    await connection.close()


@pytest.mark.parametrize("role", [Role.BROWSE, Role.UPKEEP])
@pytest.mark.parametrize("name", NAMES)
async def test_few_blocks_are_read_for_what_ended_lately(
    dsn: str, connection: "asyncpg.Connection[asyncpg.Record]", role: Role, name: str
) -> None:
    values = {"tenant": "'default'", "since": RECENT, "until": END}
    nodes = await explain(dsn, role, QUERIES[name], values=values)
    large = [node for node in nodes if node.get("Relation Name") == "run_history_default"]
    assert [node["Node Type"] for node in large] == ["Bitmap Heap Scan"]
    indexes = {node["Index Name"] for node in nodes if node["Node Type"] == "Bitmap Index Scan"}
    [method] = await connection.fetch(
        "SELECT amname FROM pg_class JOIN pg_am ON pg_am.oid = relam WHERE relname = ANY($1) AND relname ~ 'default'",
        list(indexes),
    )
    assert method["amname"] == "brin"
    # Of the table's blocks, a few: those in which something ended within the minute.
    text, names = QUERIES["count_ended"].positional()
    await connection.execute(f"PREPARE counting AS {text}")
    given = ", ".join(values[each] for each in names)
    plan = await connection.fetch(
        f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT TEXT) EXECUTE counting({given})"
    )
    [blocks] = await connection.fetch("SELECT relpages FROM pg_class WHERE relname = 'run_history_default'")
    lossy = [line[0] for line in plan if "Heap Blocks" in line[0]]
    assert sum(int(line.rpartition("=")[2]) for line in lossy) < blocks["relpages"] / 10, plan


async def test_the_plan_stays_when_the_census_has_been_taken_many_times(
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    """From the sixth time on, PostgreSQL might keep a plan that is made for any instant."""
    text, names = QUERIES["count_ended"].positional()
    await connection.execute(f"PREPARE census AS {text}")
    given = ", ".join({"tenant": "NULL", "since": RECENT}[name] for name in names)
    for _ in range(8):
        await connection.execute(f"EXECUTE census({given})")
    plan = [row[0] for row in await connection.fetch(f"EXPLAIN EXECUTE census({given})")]
    assert not [line for line in plan if "Seq Scan on run_history_default" in line], plan
    assert [line for line in plan if "Bitmap Heap Scan on run_history_default" in line], plan
