"""Every query of the PostgreSQL store is valid, and the hot ones take the plans they were written for.

The plans are those that production keeps: generic, under the settings of the verb's role. They are looked at in an
empty database, where a plan made on the first call would otherwise stay wrong for long; over a backlog; where ANALYZE
met the live table empty with its indexes full of dead entries, which a long transaction keeps there; and with the
statistics of a million live and ten million finished runs (benchmarks/scale has the runs themselves).
"""

from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from mainspring.stores._sql.queries import load_queries
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.schema import PACKAGE
from tests.support.postgres import temporary_database
from tests.support.postgres_databases import template_database
from tests.support.postgres_plans import explain, walk

pytestmark = pytest.mark.postgres

QUERIES = load_queries(PACKAGE)
BACKLOG = """
INSERT INTO lane (queue, route, tenant, priority)
SELECT 'q' || n, 'http', 'default', 1 FROM generate_series(1, 50) AS n;
INSERT INTO session (worker, host, pid, slots, queues, types, functions, labels, started_at, last_beat_at)
SELECT 'w', 'h', 1, 100, '{}', '{}', '{}', '{}', now(), now() FROM generate_series(1, 50);
INSERT INTO job (id, shard, tenant, name, version, created_at, updated_at)
SELECT md5(n::text)::uuid, n % 256, 'default', 'job ' || n, 1, now(), now() FROM generate_series(1, 5000) AS n;
INSERT INTO job_version (job_id, version, spec, created_at) SELECT id, 1, '\\x7b7d', now() FROM job;
INSERT INTO job_clock (job_id, shard, priority, revision, next_fire_at, due_at)
SELECT id, shard, get_byte(uuid_send(id), 0) % 3, 1, due_at, due_at
FROM (SELECT id, shard, now() + random() * interval '1 day' AS due_at FROM job) AS clock;
INSERT INTO run (id, job_id, version, lane_id, kind, state, due_at, ready_at, created_at, timeout_ms)
SELECT n * 256, md5((n % 5000 + 1)::text)::uuid, 1, n % 50 + 1, 'manual', 'PENDING', now(), now(), now(), 60000
FROM generate_series(1, 50000) AS n;
UPDATE run SET state = 'RUNNING', session_id = id / 256 % 50 + 1, token = 1, started_at = now(), deadline_at = now()
WHERE id <= 5000 * 256;
INSERT INTO run_history (id, job_id, version, queue, route, tenant, priority, kind, state, due_at, created_at,
    finished_at, attempt, token, crashes)
SELECT (n + 100000) * 256, md5((n % 5000 + 1)::text)::uuid, 1, 'q1', 'http', 'default', 1, 'manual', 'SUCCEEDED', now(),
    now(), now(), 1, 1, 0
FROM generate_series(1, 20000) AS n;
INSERT INTO dead_run (id, job_id, version, queue, route, tenant, priority, kind, state, due_at, created_at,
    finished_at, attempt, token, crashes, error, error_group, settled_at, settlement)
SELECT (n + 200000) * 256, md5((n % 5000 + 1)::text)::uuid, 1, 'q1', 'http', 'default', 1, 'manual', 'FAILED', now(),
    now(), now(), 1, 1, 0, 'no ' || n, 'no #', CASE WHEN n % 10 > 0 THEN now() END,
    CASE WHEN n % 10 > 0 THEN 'discarded' END
FROM generate_series(1, 20000) AS n;
INSERT INTO run_unique (tenant, job_id, key, run_id)
SELECT 'default', md5((n % 5000 + 1)::text)::uuid, decode(md5(n::text), 'hex'), n * 256
FROM generate_series(1, 20000) AS n;
INSERT INTO monitor (tenant, name, key_hash, monitor, due_at)
SELECT 'tenant ' || n % 50, 'dump ' || n, decode(md5(n::text), 'hex'), '{}', now() + n * interval '1 minute'
FROM generate_series(1, 5000) AS n;
INSERT INTO listener (job_id, kind, name, tenant)
SELECT md5(n::text)::uuid, 'topic', 'topic ' || n % 400, 'tenant ' || n % 50 FROM generate_series(1, 5000) AS n;
INSERT INTO audit (at, tenant, actor, actor_kind, action, subject_kind, subject_id, subject_name, outcome)
SELECT now() + n % 2 * interval '1 year', 'tenant ' || n % 50, 'ann', 'local', 'edit_job', 'job', 'job ' || n % 500,
    'report ' || n % 500, 'done'
FROM generate_series(1, 20000) AS n;
"""
LARGE = """
UPDATE pg_class SET reltuples = 1000000 WHERE relkind = 'r' AND relname IN ('run', 'job', 'job_version', 'job_clock');
UPDATE pg_class SET reltuples = 10000000 WHERE relkind = 'r' AND relname ~ '^run_history_[0-9]';
UPDATE pg_class SET reltuples = 100000 WHERE relkind = 'r' AND relname IN ('dead_run', 'idempotency', 'lane');
UPDATE pg_class SET reltuples = 1000000 WHERE relkind = 'r' AND relname = 'run_unique';
UPDATE pg_class SET reltuples = 1000 WHERE relkind = 'r' AND relname = 'session';
UPDATE pg_class SET reltuples = 1000000 WHERE relkind = 'i' AND relname ~ '^(run|job)_' AND relname !~ '^run_history';
"""
"""What ANALYZE would say of full tables; the planner scales it by the pages that there are."""
PAGE = {"tenant": "'default'", "lowest": "0", "before": "9223372036854775807", "limit": "100"}
JOB = "md5('7')::uuid"
BIG = {
    "run",
    "job_clock",
    "job",
    "job_version",
    "run_history",
    "lane",
    "idempotency",
    "session",
    "run_unique",
    "listener",
}


@pytest.fixture(scope="module", params=["empty", "backlog", "drained", "large"])
def database(request: pytest.FixtureRequest, postgres_server: str) -> Iterator[str]:
    with (
        template_database(postgres_server) as template,
        temporary_database(postgres_server, template=template) as dsn,
    ):
        yield f"{dsn}?{request.param}"


@pytest.fixture
async def dsn(database: str) -> str:
    dsn, _, kind = database.partition("?")
    connection = await asyncpg.connect(dsn)
    try:
        if kind != "empty" and not await connection.fetchval("SELECT count(*) FROM run_history"):
            await connection.execute(BACKLOG)
            if kind == "drained":
                await connection.execute("DELETE FROM run")
                await connection.execute("ANALYZE")
                await connection.execute(
                    "VACUUM dead_run"
                )  # else it depends on whether autovacuum has come by
            else:
                await connection.execute("VACUUM ANALYZE")
            if kind == "large":
                await connection.execute(LARGE)
    finally:
        await connection.close()
    return dsn


def indexes_of(nodes: list[dict[str, Any]]) -> set[str]:
    found = {node["Index Name"] for node in nodes if "Index Name" in node}
    return {"session_pkey" if name == "session_live" else name for name in found}  # either will do


def seq_scans_of(nodes: list[dict[str, Any]]) -> set[str]:
    scans = {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"}
    return {name for name in scans if name in BIG or name.startswith("run_history")}


@pytest.mark.parametrize("name", sorted(QUERIES))
async def test_query_can_be_prepared(watch: Any, name: str) -> None:
    text, names = QUERIES[name].positional()
    statement = await watch.prepare(text)
    assert len(statement.get_parameters()) == len(names)


@pytest.mark.parametrize(
    ("role", "name", "wanted"),
    [
        (Role.SUBMIT, "submit_runs", {"lane_pkey", "job_pkey"}),
        (Role.SUBMIT, "submit_one", {"lane_pkey", "job_pkey"}),
        (Role.SUBMIT, "hold_lanes", {"lane_pkey"}),
        (Role.SUBMIT, "find_lanes", {"lane_key"}),
        (Role.SUBMIT, "read_keys", {"idempotency_pkey"}),
        (Role.SUBMIT, "lock_unique_keys", {"run_unique_pkey"}),
        (Role.SUBMIT, "lock_holders", {"run_pkey"}),
        (Role.SUBMIT, "replace_waiting", {"run_pkey"}),
        (Role.SUBMIT, "release_keys", {"idempotency_pkey"}),
        (Role.SUBMIT, "list_listeners", {"listener_name", "job_pkey"}),
        (Role.SUBMIT, "reserve_event_ids", set()),
        (Role.SUBMIT, "add_events", set()),
        (Role.CLAIM, "claim_runs", {"session_pkey", "run_ready", "run_held_quarantined"}),
        (Role.CLAIM, "try_claim", {"session_pkey", "run_ready", "run_held_quarantined"}),
        (
            Role.SUBMIT,
            "submit_claimed",
            {"session_pkey", "lane_pkey", "job_pkey", "run_ready", "run_held_quarantined"},
        ),
        (Role.CLAIM, "claim_together", {"session_pkey", "run_ready", "run_held_quarantined"}),
        (Role.CLAIM, "begin_claims", {"session_pkey", "run_claimed", "run_held_quarantined"}),
        (Role.CLAIM, "pick_quarantined", {"run_quarantined"}),
        (Role.CAPPED, "pick_lined_up", {"run_line"}),
        (Role.CAPPED, "pick_plain", {"run_ready"}),
        (Role.CAPPED, "read_lines", {"run_line"}),
        (Role.CAPPED, "read_some_lines", {"run_line"}),
        (Role.CAPPED, "lock_keys", {"concurrency_key_pkey", "limit_rule_pkey"}),
        (Role.CAPPED, "read_batches", {"run_line", "concurrency_key_pkey", "limit_rule_pkey"}),
        (Role.CAPPED, "lock_batches", {"concurrency_key_pkey", "limit_rule_pkey"}),
        (Role.CAPPED, "count_holds", {"key_hold_pkey", "run_pkey"}),
        (Role.CAPPED, "pick_holders", {"run_pkey"}),
        (Role.CAPPED, "start_lined_up", {"concurrency_key_pkey", "key_hold_pkey"}),
        (Role.SUBMIT, "find_keys", {"limit_rule_name", "concurrency_key_key"}),
        (Role.SUBMIT, "intern_keys", {"limit_rule_name"}),
        (Role.APPLY, "apply_successes", {"run_pkey", "lane_pkey"}),
        (Role.APPLY, "lock_runs", {"run_pkey"}),
        (Role.APPLY, "finish_runs", {"run_pkey", "lane_pkey"}),
        (Role.APPLY, "bury_runs", {"run_pkey", "lane_pkey", "job_notify_pkey"}),
        (Role.APPLY, "requeue_runs", {"run_pkey"}),
        (Role.FIRE, "hold_shards", {"shard_lease_pkey"}),
        (Role.FIRE, "fire_clocks", {"job_clock_pkey"}),
        (Role.FIRE, "fire_outlined", {"job_clock_pkey", "shard_lease_pkey", "lane_pkey"}),
        (Role.FIRE, "find_busy_jobs", {"run_job"}),
        (Role.FIRE, "find_waiting_jobs", {"run_job"}),
        (Role.FIRE, "list_live_of_jobs", {"run_job"}),
        (Role.FIRE, "lock_clocks", {"job_clock_pkey"}),
        (Role.FIRE, "lock_backfills", {"backfill_pkey"}),
        (Role.FIRE, "count_backfills", {"backfill_pkey"}),
        (
            Role.WATCH,
            "read_backfill_work",
            {
                "backfill_open",
                "job_pkey",
                "fire_range_backfill",
                "fire_range_pkey",
                "run_fire_range",
                "run_job",
            },
        ),
        (Role.WATCH, "list_waiting_of_backfill", {"fire_range_backfill", "run_fire_range"}),
        (
            Role.WATCH,
            "read_fire_ranges",
            {"fire_range_draining", "fire_range_job", "job_pkey", "job_clock_pkey", "run_fire_range"},
        ),
        (Role.FIRE, "keep_permits", {"job_clock_pkey"}),
        (Role.FLOW, "start_flows", {"run_pkey", "key_hold_pkey"}),
        (Role.FLOW, "read_mail", {"mail_pkey", "flow_pkey"}),
        (Role.FLOW, "drop_mail", {"mail_pkey", "flow_pkey"}),
        (Role.FLOW, "read_flows", {"flow_pkey", "run_pkey", "lane_pkey"}),
        (Role.FLOW, "lock_flows", {"flow_pkey"}),
        (Role.FLOW, "remove_mail", {"mail_pkey"}),
        (Role.FLOW, "post_mail", {"flow_pkey"}),
        (Role.FLOW, "read_woken", {"flow_wake"}),
        (Role.FLOW, "save_flows", {"flow_pkey"}),
        (Role.FLOW, "delete_flows", {"flow_pkey"}),
        (Role.FLOW, "delete_flow_values", {"flow_value_pkey"}),
        (Role.FLOW, "read_flow_seeds", {"run_pkey"}),
        (Role.FLOW, "read_flow_values", {"flow_value_pkey"}),
        (Role.FLOW, "drop_waits", {"wait_pkey"}),
        (Role.FLOW, "find_step_runs", {"run_flow"}),
        (Role.FLOW, "request_cancels", {"run_pkey"}),
        (Role.UPKEEP, "count_overdue", {"job_clock_due"}),
        (Role.PLAN, "read_due", {"job_clock_due", "job_pkey"}),
        (Role.WATCH, "find_expired", {"run_expiring"}),
        (Role.WATCH, "read_held", {"run_pkey"}),
        (Role.LOG, "hold_logged_runs", {"run_pkey"}),
        (Role.LOG, "hold_checkpointed_runs", {"run_pkey"}),
        (Role.LOG, "list_checkpoints", {"checkpoint_pkey"}),
        (Role.LOG, "list_log_chunks", {"log_chunk_default_run_id_token_start_idx"}),
        (Role.LOG, "forget_log_chunks", {"log_chunk_default_run_id_token_start_idx"}),
        (Role.LOG, "get_run_progress", {"run_progress_pkey"}),
        (Role.BEAT, "lock_sessions", {"session_pkey"}),
        (Role.BEAT, "held_by_sessions", {"run_claimed"}),
        (Role.WATCH, "read_kept_waiting", {"lane_key", "run_ready"}),
        (Role.WATCH, "read_seated", {"session_pkey", "run_claimed", "lane_pkey"}),
        (Role.BEAT, "seek_slots", {"lane_pkey"}),
        (Role.BEAT, "mark_preempted", {"run_pkey"}),
        (Role.BEAT, "beat_sessions", {"session_pkey"}),
        (Role.BEAT, "pick_shards", {"shard_lease_pkey"}),
        (Role.BEAT, "take_shards", {"shard_lease_pkey"}),
        (Role.BEAT, "expire_nodes", {"node_pkey"}),
    ],
)
async def test_hot_query_walks_its_indexes_and_sorts_nothing(
    dsn: str, role: Role, name: str, wanted: set[str]
) -> None:
    nodes = await explain(dsn, role, QUERIES[name])
    assert indexes_of(nodes) == wanted
    assert seq_scans_of(nodes) == set()
    assert {node["Node Type"] for node in nodes} & {
        "Sort",
        "Hash Join",
        "Merge Join",
        "Bitmap Heap Scan",
    } == set()


@pytest.mark.parametrize(
    ("role", "name"),
    [
        (Role.APPLY, "apply_successes"),
        (Role.FIRE, "fire_clocks"),
        (Role.FIRE, "fire_outlined"),
        (Role.APPLY, "lock_runs"),
        (Role.FLOW, "start_flows"),
        (Role.SUBMIT, "lock_holders"),
        (Role.LOG, "hold_logged_runs"),
        (Role.LOG, "hold_checkpointed_runs"),
    ],
)
async def test_rows_are_locked_in_the_order_of_the_arguments(dsn: str, role: Role, name: str) -> None:
    """Law 6: the arguments are sorted, and are the outer side of the join or walk the index itself."""
    nodes = await explain(dsn, role, QUERIES[name])
    [scan] = [node for node in nodes if node.get("Index Name") in {"run_pkey", "job_clock_pkey"}]
    joins = [
        node["Plans"][0]["Node Type"]
        for node in nodes
        if node["Node Type"] == "Nested Loop" and scan in walk(node["Plans"][1])
    ]
    if joins:
        assert joins == ["Function Scan"]
    else:
        assert scan["Scan Direction"] == "Forward"
        assert "= ANY" in scan["Index Cond"]


async def test_looks_for_failing_jobs_read_only_what_is_watched(dsn: str) -> None:
    nodes = await explain(dsn, Role.WATCH, QUERIES["read_failing"])
    assert {"job_pkey", "dead_run_job"} <= indexes_of(nodes)
    assert seq_scans_of(nodes) <= {"failure_watch"}


async def test_looks_for_ended_runs_read_only_what_is_watched(dsn: str) -> None:
    nodes = await explain(dsn, Role.WATCH, QUERIES["read_ended"])
    assert {"job_pkey", "job_clock_pkey", "run_fire_key"} <= indexes_of(nodes)
    assert seq_scans_of(nodes) <= {"after_end"}
    nodes = await explain(dsn, Role.WATCH, QUERIES["find_fires"])
    assert {"run_fire_key", "dead_run_job"} <= indexes_of(nodes)
    assert any("run_history" in name and "job" in name for name in indexes_of(nodes))
    assert seq_scans_of(nodes) == set()
    assert not [node for node in nodes if node["Node Type"] == "Sort"]


async def test_claim_is_lazy_and_keeps_the_order_of_lanes(dsn: str) -> None:
    nodes = await explain(dsn, Role.CLAIM, QUERIES["claim_runs"])
    [walked] = [node for node in nodes if node.get("Index Name") == "run_ready"]
    assert walked["Node Type"] == "Index Scan"
    assert "ready_at" in walked["Index Cond"]
    sessions = [node for node in nodes if node.get("Index Name") in {"session_pkey", "session_live"}]
    assert [node["Scan Direction"] for node in sessions] == ["Backward"]  # the newest version comes first
    functions = [node for node in nodes if node["Node Type"] == "Function Scan"]
    assert [node["Parent Relationship"] for node in functions] == ["Inner"]  # of the one claimer
    assert {"LockRows", "Tid Scan"} <= {node["Node Type"] for node in nodes}


async def test_pages_are_read_along_the_ids(dsn: str, watch: Any) -> None:
    if not await watch.fetchval("SELECT count(*) FROM run"):
        return  # an empty table is read as it lies
    nodes = await explain(dsn, Role.BROWSE, QUERIES["list_runs_of_job"], values=PAGE | {"job_id": JOB})
    assert seq_scans_of(nodes) <= {"lane"}
    assert "run_job" in indexes_of(nodes)
    assert any("run_history" in name and "job" in name for name in indexes_of(nodes))


async def test_runs_of_a_backfill_are_found_by_its_job(dsn: str, watch: Any) -> None:
    if not await watch.fetchval("SELECT count(*) FROM run"):
        return  # an empty table is read as it lies
    values = PAGE | {"job_id": JOB, "backfill_id": "md5('8')::uuid"}
    nodes = await explain(dsn, Role.BROWSE, QUERIES["list_runs_of_job"], values=values)
    assert seq_scans_of(nodes) <= {"lane"}
    assert "run_job" in indexes_of(nodes)
    assert any("run_history" in name and "job" in name for name in indexes_of(nodes))


@pytest.mark.parametrize(
    ("state", "home"),
    [
        ("PENDING", "run"),
        ("RETRYING", "run"),
        ("BLOCKED", "run"),
        ("FAILED", "dead_run"),
        ("SUCCEEDED", "run_history"),
        ("CANCELLED", "run_history"),
        ("SKIPPED", "run_history"),
    ],
)
@pytest.mark.parametrize("name", ["list_runs", "list_runs_of_job"])
async def test_a_state_is_looked_for_in_the_table_that_holds_it(
    dsn: str, name: str, state: str, home: str
) -> None:
    values = PAGE | {"job_id": JOB, "state": f"'{state}'"}
    nodes = await explain(dsn, Role.BROWSE, QUERIES[name], values=values)
    tables = {node["Relation Name"] for node in nodes if "Relation Name" in node} - {"lane"}
    assert {"run_history" if table.startswith("run_history") else table for table in tables} == {home}


async def test_what_was_cancelled_is_found_among_what_did_not_succeed(dsn: str, watch: Any) -> None:
    if not await watch.fetchval("SELECT count(*) FROM run_history"):
        return  # an empty table is read as it lies
    nodes = await explain(dsn, Role.BROWSE, QUERIES["list_runs"], values=PAGE | {"state": "'CANCELLED'"})
    indexes = {name for name in indexes_of(nodes) if name.startswith("run_history")}
    assert indexes
    assert all("state_id" in name for name in indexes)


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"queue": "'q7'"},
        {"kind": "'backfill'"},
        {"since": "now() - interval '1 hour'", "until": "now()"},
        {"is_brief": "true"},
    ],
)
async def test_windows_are_walked_along_the_ids_whatever_is_wanted(
    dsn: str, watch: Any, filters: dict[str, str]
) -> None:
    if not await watch.fetchval("SELECT count(*) FROM run"):
        return  # an empty table is read as it lies
    window = {"lowest": "1000 * 256", "before": "3000 * 256"}
    nodes = await explain(dsn, Role.BROWSE, QUERIES["list_runs"], values=PAGE | window | filters)
    assert seq_scans_of(nodes) <= {"lane"}
    walked = {name for name in indexes_of(nodes) if name.startswith("run")}
    bounded = {node.get("Index Name") for node in nodes if "id <" in node.get("Index Cond", "")}
    assert "run_pkey" in walked
    assert len(walked) > 1  # the history's partitions
    assert walked <= bounded


DEAD = {
    "tenant": "'default'",
    "job_id": "NULL",
    "queue": "NULL",
    "reason": "NULL",
    "error": "NULL",
    "error_group": "NULL",
    "since": "NULL",
    "until": "NULL",
    "run_ids": "NULL",
    "is_settled": "false",
    "is_brief": "true",
    "before": "9223372036854775807",
    "after": "0",
    "limit": "100",
}


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("list_dead", "dead_run_open"),
        ("find_dead_to_discard", "dead_run_open"),
        ("count_dead", "dead_run_open"),
        ("group_dead", "dead_run_group"),
        ("find_dead_to_redrive", "dead_run_open"),
    ],
)
async def test_open_dead_letters_are_found_among_the_open_ones(
    dsn: str, watch: Any, name: str, index: str
) -> None:
    if not await watch.fetchval("SELECT count(*) FROM dead_run"):
        return  # an empty table is read as it lies
    nodes = await explain(dsn, Role.BROWSE, QUERIES[name], values=DEAD)
    assert index in indexes_of(nodes)


AUDIT = {
    "tenant": "'tenant 7'",
    "subject_kind": "'job'",
    "subject_id": "'job 7'",
    "subject_name": "'report 7'",
    "under": "9223372036854775807",
    "limit": "100",
}


@pytest.mark.parametrize(
    ("name", "values", "index"),
    [
        ("list_audit", AUDIT | {"subject_kind": "NULL"}, "pkey"),
        ("list_audit_of_tenant", AUDIT, "tenant_id_idx"),
        ("list_audit_of_subject", AUDIT | {"tenant": "NULL"}, "subject_kind_subject_id_id_idx"),
        ("list_audit_of_subject", AUDIT | {"tenant": "NULL"}, "subject_kind_subject_name_id_idx"),
        ("find_stray_entry", {"since": "now()"}, "seal_id_idx"),
    ],
)
async def test_entries_of_the_audit_are_found_by_what_they_are_about(
    dsn: str, watch: Any, name: str, values: dict[str, str], index: str
) -> None:
    if not await watch.fetchval("SELECT count(*) FROM audit"):
        return  # an empty table is read as it lies
    nodes = await explain(dsn, Role.BROWSE, QUERIES[name], values=values)
    month = await watch.fetchval("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMM')")
    for partition in (f"audit_{month}", "audit_default"):  # with as many rows each
        assert f"{partition}_{index}" in indexes_of(nodes), partition
        assert partition not in {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"}


@pytest.mark.parametrize(
    ("name", "values", "index"),
    [
        ("find_monitor", {"key_hash": r"'\\x00'"}, "monitor_key"),
        ("get_monitor", {"tenant": "'tenant 7'", "name": "'dump 7'"}, "monitor_name"),
        ("list_all_monitors", {"limit": "100"}, "monitor_name"),
        ("list_overdue_monitors", {"now": "now()", "limit": "1000"}, "monitor_due"),
    ],
)
async def test_monitors_are_found_by_key_name_and_deadline(
    dsn: str, watch: Any, name: str, values: dict[str, str], index: str
) -> None:
    if not await watch.fetchval("SELECT count(*) FROM monitor"):
        return  # an empty table is read as it lies
    nodes = await explain(dsn, Role.WATCH, QUERIES[name], values=values)
    assert index in indexes_of(nodes)


async def test_an_error_is_looked_for_among_dead_letters(dsn: str, watch: Any) -> None:
    values = PAGE | {"state": "'FAILED'", "error": "'ValueError'"}
    nodes = await explain(dsn, Role.BROWSE, QUERIES["list_runs"], values=values)
    assert {node["Relation Name"] for node in nodes if "Relation Name" in node} == {"dead_run"}


async def test_what_is_running_is_found_by_its_session(dsn: str, watch: Any) -> None:
    if not await watch.fetchval("SELECT count(*) FROM run"):
        return  # an empty table is read as it lies
    nodes = await explain(dsn, Role.BROWSE, QUERIES["list_held_runs"], values=PAGE | {"state": "'RUNNING'"})
    assert seq_scans_of(nodes) <= {"lane"}
    assert indexes_of(nodes) & {"run_claimed", "run_held_quarantined"} == {"run_claimed"}


@pytest.mark.parametrize("name", ["find_untold", "tell_again"])
async def test_runs_of_flows_are_found_by_their_flow(dsn: str, name: str) -> None:
    """Once in a while, all flows are looked at, and what there is of these runs is in an index of its own."""
    nodes = await explain(dsn, Role.FLOW, QUERIES[name])
    assert seq_scans_of(nodes) == set()
    found = indexes_of(nodes) - {"flow_pkey", "mail_pkey"}
    assert {"flow_id" in index or index.endswith("_flow") for index in found} == {True}


async def test_runs_of_a_flow_are_listed_by_their_flow(dsn: str, watch: Any) -> None:
    if not await watch.fetchval("SELECT count(*) FROM run"):
        return  # an empty table is read as it lies
    values = {"flow_id": "256", "after": "0", "limit": "100"}
    nodes = await explain(dsn, Role.BROWSE, QUERIES["list_flow_runs"], values=values)
    assert seq_scans_of(nodes) <= {"lane"}
    assert {"run_flow", "dead_run_flow", "run_pkey", "dead_run_pkey"} <= indexes_of(nodes)
    assert not {index for index in indexes_of(nodes) if "job" in index}


async def test_creations_are_looked_up_by_id(dsn: str, watch: Any) -> None:
    if not await watch.fetchval("SELECT count(*) FROM run"):
        return  # an empty table is read as it lies
    for name, values in (("read_creations", {"run_ids": "'{256,2560000}'"}), ("read_run_bounds", {})):
        nodes = await explain(dsn, Role.BROWSE, QUERIES[name], values=values)
        assert seq_scans_of(nodes) == set()
        assert "run_pkey" in indexes_of(nodes)


@pytest.mark.parametrize(
    ("name", "values", "index"),
    [
        ("list_jobs", {"tenant": "'default'", "after": JOB, "limit": "100"}, "job_page"),
        ("read_job_names", {"job_ids": f"ARRAY[{JOB}]"}, "job_pkey"),
        ("page_sessions", {"after": "5", "limit": "100", "tenant": "NULL"}, "session_pkey"),
        ("page_sessions", {"after": "5", "limit": "100", "tenant": "'shop'"}, "session_pkey"),
    ],
)
async def test_other_lists_walk_one_index(
    dsn: str, watch: Any, name: str, values: dict[str, str], index: str
) -> None:
    if not await watch.fetchval("SELECT count(*) FROM job"):
        return  # an empty table is read as it lies
    nodes = await explain(dsn, Role.BROWSE, QUERIES[name], values=values)
    assert seq_scans_of(nodes) - {"session"} == set()  # fifty sessions are one page
    assert index in indexes_of(nodes) or "session" in seq_scans_of(nodes)


async def test_what_waits_is_counted_by_index_lane_by_lane(dsn: str, watch: Any) -> None:
    if not await watch.fetchval("SELECT count(*) FROM run"):
        return  # an empty table is read as it lies
    values = {"queues": "'{q1,NULL}'", "tenants": "'{NULL,default}'", "mosts": "'{100,200}'"}
    nodes = await explain(dsn, Role.BROWSE, QUERIES["count_waiting"], values=values)
    assert seq_scans_of(nodes) <= {"lane"}  # it is small, and has no index by tenant
    assert {"run_ready", "run_waiting", "run_quarantined"} <= indexes_of(nodes)
    assert {node["Node Type"] for node in nodes} & {"Sort", "Hash Join", "Merge Join"} <= {"Sort"}


@pytest.mark.parametrize(
    ("name", "whole", "wanted"),
    [
        ("read_lanes", {"lane"}, {"run_ready", "run_quarantined"}),
        ("list_orphans", {"session"}, {"run_claimed"}),
        ("count_running", set(), {"run_claimed"}),
    ],
)
async def test_look_at_everything_reads_a_small_table_whole_and_runs_by_index(
    dsn: str, name: str, whole: set[str], wanted: set[str]
) -> None:
    nodes = await explain(dsn, Role.WATCH, QUERIES[name])
    assert seq_scans_of(nodes) <= whole
    assert indexes_of(nodes) - {"session_pkey", "lane_pkey"} == wanted
    assert "Sort" not in {node["Node Type"] for node in nodes}


@pytest.mark.parametrize(
    ("role", "name", "index", "bounds"),
    [
        (Role.CLAIM, "claim_runs", "run_ready", ("ready_at >=", "ready_at <=")),
        (Role.CLAIM, "try_claim", "run_ready", ("ready_at >=", "ready_at <=")),
        (Role.SUBMIT, "submit_claimed", "run_ready", ("ready_at >=", "ready_at <=")),
        (Role.WATCH, "read_lanes", "run_ready", ("ready_at >=",)),
        (Role.WATCH, "read_lanes", "lane_pkey", ("id >",)),
        (Role.WATCH, "read_some_lanes", "run_ready", ("ready_at >=",)),
        (Role.WATCH, "read_some_lanes", "lane_pkey", ("id =",)),
        (Role.WATCH, "read_some_lanes", "run_quarantined", ("lane_id =",)),
        (Role.WATCH, "read_ready_instants", "run_ready", ("ready_at >=", "ready_at <=")),
        (Role.PLAN, "read_due", "job_clock_due", ("priority =", "due_at >=", "due_at <=")),
        (Role.CLAIM, "begin_claims", "run_claimed", ("claim_number >=",)),
        (Role.CAPPED, "pick_lined_up", "run_line", ("key_id =", "lane_id =", "ready_at >=", "ready_at <=")),
        (Role.CAPPED, "pick_plain", "run_ready", ("lane_id =", "ready_at >=", "ready_at <=")),
        (Role.CAPPED, "count_holds", "key_hold_pkey", ("key_id =", "id >=")),
        (Role.BEAT, "held_by_sessions", "run_claimed", ("claim_number >=",)),
        (Role.WATCH, "list_orphans", "run_claimed", ("claim_number >=",)),
        (Role.WATCH, "list_overdue", "run_claimed", ("claim_number >=",)),
    ],
)
async def test_lower_bounds_are_sought_in_the_index(
    dsn: str, role: Role, name: str, index: str, bounds: tuple[str, ...]
) -> None:
    """What is long over is never passed, let alone filtered out."""
    nodes = await explain(dsn, role, QUERIES[name])
    [walked] = [node for node in nodes if node.get("Index Name") == index]
    assert all(bound in walked["Index Cond"] for bound in bounds)
