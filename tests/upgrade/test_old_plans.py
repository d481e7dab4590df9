"""An older release's statements keep their indexes on the newer schema.

Without them they would be as right as before, so nothing else notices; but its heartbeats would walk all live runs, on
connections that are told to sort nothing.
"""

from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from mainspring.stores._sql.queries import Query, parse_fragments, parse_queries
from mainspring.stores.postgres.connecting import Role
from tests.support.postgres import temporary_database
from tests.support.postgres_databases import template_database
from tests.support.postgres_plans import explain
from tests.upgrade.versions import Version

pytestmark = pytest.mark.postgres

FILL = """
INSERT INTO lane (queue, route, tenant, priority)
SELECT 'q' || n, 'http', 'default', 1 FROM generate_series(1, 50) AS n;
INSERT INTO session (worker, host, pid, slots, queues, types, functions, labels, started_at, last_beat_at)
SELECT 'w', 'h', 1, 100, '{}', '{}', '{}', '{}', now(), now() FROM generate_series(1, 50);
INSERT INTO run (id, job_id, version, lane_id, kind, state, due_at, ready_at, created_at, timeout_ms)
SELECT n * 256, md5((n % 5000 + 1)::text)::uuid, 1, n % 50 + 1, 'manual', 'PENDING', now(), now(), now(), 60000
FROM generate_series(1, 50000) AS n;
UPDATE run SET state = 'RUNNING', session_id = id / 256 % 50 + 1, claim_number = 1, token = 1, started_at = now(),
    deadline_at = now()
WHERE id <= 1000 * 256;
VACUUM ANALYZE;
"""
HOT = {
    Role.CLAIM: ("claim_runs", "begin_claims", "pick_quarantined", "repeat_claim"),
    Role.APPLY: ("apply_successes", "lock_runs", "finish_runs", "requeue_runs"),
    Role.BEAT: ("lock_sessions", "held_by_sessions", "beat_sessions"),
    Role.FIRE: ("hold_shards", "fire_clocks", "find_busy_jobs"),
    Role.WATCH: ("read_lanes", "list_orphans", "read_held"),
    Role.PLAN: ("read_due",),
}
BEFORE = {"begin_claims": "claim_quarantined", "pick_quarantined": "claim_quarantined"}
"""What an older release has instead of a statement that is newer."""
WHOLE = {("list_orphans", "run_held"), ("begin_claims", "run_held_quarantined")}
"""All that is RUNNING, as it always was, up to a release; and the few runs that are RUNNING alone."""


@pytest.fixture(scope="module")
def filled(postgres_server: str) -> Iterator[str]:
    """A database with the schema of the code under test, and a backlog."""
    with (
        template_database(postgres_server) as template,
        temporary_database(postgres_server, template=template) as dsn,
    ):
        yield dsn


@pytest.fixture
async def dsn(filled: str) -> str:
    connection = await asyncpg.connect(filled)
    if not await connection.fetchval("SELECT EXISTS (SELECT FROM run)"):
        for statement in filter(str.strip, FILL.split(";\n")):
            await connection.execute(statement)
    await connection.close()
    return filled


def queries_of(version: Version) -> dict[str, Query]:
    assert version.python_path is not None
    stores: Path = version.python_path / "mainspring/stores"
    shared, own = stores / "_sql/fragments.sql", stores / "postgres/queries/fragments.sql"
    fragments: dict[str, str] = {}
    for file in (shared, own):
        if file.exists():
            fragments |= parse_fragments(file.read_text())
    return {
        query.name: query
        for path in sorted((stores / "postgres/queries").glob("*.sql"))
        if path != own
        for query in parse_queries(path.read_text(), fragments)
    }


@pytest.mark.parametrize(("role", "name"), [(role, name) for role, names in HOT.items() for name in names])
async def test_older_statement_walks_no_table_of_runs_on_the_newer_schema(
    dsn: str, older: Version, role: Role, name: str
) -> None:
    queries = queries_of(older)
    nodes = await explain(dsn, role, queries.get(name) or queries[BEFORE[name]])
    scans = [node for node in nodes if node.get("Relation Name") == "run"]
    walked = [
        node.get("Index Name", "the table")
        for node in scans
        if node["Node Type"] in {"Seq Scan", "Index Scan", "Index Only Scan"} and "Index Cond" not in node
    ]
    assert [index for index in walked if (name, index) not in WHOLE] == []
