"""The hot queries of the SQLite store walk the indexes they were written for.

Plans are looked at in an empty database and over a backlog; the store keeps no statistics, so both must be the same.
"""

import apsw
import pytest

from mainspring.stores._sql.queries import load_queries
from mainspring.stores.sqlite.store import migrate

QUERIES = load_queries("mainspring.stores.sqlite")
KEY = "INTEGER PRIMARY KEY"
BIG = (
    "run",
    "run_history",
    "dead_run",
    "job_clock",
    "job",
    "attempt",
    "idempotency",
    "run_unique",
    "audit",
    "alert",
    "notification",
    "monitor",
    "flow",
    "flow_value",
    "mail",
    "artifact",
    "checkpoint",
    "event",
    "listener",
    "wait",
    "log_chunk",
    "run_progress",
)
BACKLOG = """
WITH RECURSIVE series (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < 2000)
INSERT INTO run (id, job_id, version, lane_id, kind, state, due_at, ready_at, created_at, timeout_ms, session_id)
SELECT n * 256, CAST(n % 50 AS BLOB), 1, n % 5 + 1, 'manual', iif(n % 4, 'PENDING', 'RUNNING'), n, n, n, 1000,
    iif(n % 4, NULL, n % 10)
FROM series;
INSERT INTO lane (id, queue, route, tenant, priority) VALUES (1, 'q', 'r', 'default', 1);
INSERT INTO job_clock (job_id, shard, priority, revision, next_fire_at, due_at)
SELECT CAST(id AS BLOB), 0, id % 3, 1, id, id FROM run;
INSERT INTO run_history (id, job_id, version, queue, route, tenant, priority, kind, state, due_at, created_at,
    finished_at, attempt, token, crashes)
SELECT id + 1000000, job_id, 1, 'q', 'r', 'default', 1, 'manual', 'SUCCEEDED', 1, 1, id, 1, 1, 0 FROM run;
"""


@pytest.fixture(params=["empty", "backlog"])
def database(request: pytest.FixtureRequest) -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    with connection:
        migrate(connection)
        if request.param == "backlog":
            connection.execute(BACKLOG)
    return connection


def plan_of(connection: apsw.Connection, name: str) -> list[str]:
    query = QUERIES[name]
    rows = connection.execute(f"EXPLAIN QUERY PLAN {query.text}", dict.fromkeys(query.parameters))
    return [str(row[3]) for row in rows]


def walks_of(plan: list[str]) -> list[str]:
    """Return what is looked up in the big tables: table and index, in the plan's order."""
    found = []
    for step in plan:
        verb, _, rest = step.partition(" ")
        table, _, how = rest.partition(" USING ")
        if verb in {"SEARCH", "SCAN"} and table in BIG:
            index = how.removeprefix("COVERING ").removeprefix("INDEX ").partition(" (")[0]
            found.append(f"{verb} {table} {index}".strip())
    return found


PAGE = [f"SEARCH {table} {KEY}" for table in ("run", "run_history", "dead_run")]
PAGE_OF_JOB = ["SEARCH run run_job", "SEARCH run_history run_history_job", "SEARCH dead_run dead_run_job"]
CLOCK_KEY = "SEARCH job_clock sqlite_autoindex_job_clock_1"
JOB_KEY = "SEARCH job sqlite_autoindex_job_1"


@pytest.mark.parametrize(
    ("name", "walks"),
    [
        ("find_ready", ["SEARCH run run_ready"]),
        ("pick_quarantined", ["SEARCH run run_quarantined"]),
        ("pick_lined_up", ["SEARCH run run_line"]),
        ("pick_plain", ["SEARCH run run_ready"]),
        ("read_batch", ["SEARCH run run_line"]),
        ("read_filling", ["SEARCH run run_line"]),
        ("is_holding", ["SEARCH run run_held"]),
        ("is_holding_quarantined", ["SEARCH run run_held_quarantined"]),
        ("claim_runs", [f"SEARCH run {KEY}"]),
        ("repeat_claim", ["SEARCH run run_held"]),
        ("lock_runs", [f"SEARCH run {KEY}"]),
        ("apply_successes", [f"SEARCH run {KEY}"]),
        ("add_attempt", [f"SEARCH run {KEY}"]),
        ("finish_run", [f"SEARCH run {KEY}"]),
        ("bury_run", [f"SEARCH run {KEY}"]),
        ("requeue_run", [f"SEARCH run {KEY}"]),
        ("remove_runs", [f"SEARCH run {KEY}"]),
        ("read_end", [*PAGE, *PAGE, "SEARCH attempt attempt_run"]),
        ("find_open_dead", ["SEARCH dead_run dead_run_open"]),
        ("find_open_dead_of_job", ["SEARCH dead_run dead_run_job"]),
        ("find_named_dead", [f"SEARCH dead_run {KEY}"]),
        ("find_settled_dead", [f"SEARCH dead_run {KEY}"]),
        # Each part of the view any_run is joined by itself.
        ("read_dead", [walk for table in PAGE for walk in (f"SEARCH dead_run {KEY}", table)]),
        ("group_dead", ["SEARCH dead_run dead_run_group"]),
        ("count_dead", ["SEARCH dead_run dead_run_open"]),
        ("count_dead_versions", ["SEARCH dead_run dead_run_open"]),
        ("find_dead_to_redrive", ["SEARCH dead_run dead_run_open"]),
        ("count_redriven", [f"SEARCH dead_run {KEY}"]),
        ("read_settled_dead", [f"SEARCH dead_run {KEY}"]),
        ("discard_dead", [f"SEARCH dead_run {KEY}"]),
        ("settle_redrive", [f"SEARCH dead_run {KEY}"]),
        ("prune_dead", [f"SEARCH dead_run {KEY}", "SEARCH dead_run dead_run_settled"]),
        ("list_unnoticed", ["SCAN dead_run dead_run_unnoticed"]),
        ("notice_failures", [f"SEARCH dead_run {KEY}"]),
        ("find_late", ["SEARCH run run_job", CLOCK_KEY]),
        (
            "find_failing",
            ["SEARCH dead_run dead_run_job", "SEARCH run_history run_history_job"],
        ),
        ("list_open_alerts", ["SCAN alert alert_open"]),
        ("list_alerts", ["SEARCH alert alert_page"]),
        ("change_alerts", [f"SEARCH alert {KEY}"]),
        ("prune_alerts", [f"SEARCH alert {KEY}"]),
        ("settle_notification", [f"SEARCH notification {KEY}"]),
        ("take_notifications", [f"SEARCH notification {KEY}"]),
        ("hold_logged_runs", [f"SEARCH run {KEY}"]),
        ("hold_checkpointed_runs", [f"SEARCH run {KEY}"]),
        ("list_checkpoints", ["SEARCH checkpoint PRIMARY KEY"]),
        (
            "prune_checkpoints",
            ["SEARCH checkpoint PRIMARY KEY", "SEARCH checkpoint checkpoint_kept", f"SEARCH run {KEY}"],
        ),
        ("list_log_chunks", ["SEARCH log_chunk sqlite_autoindex_log_chunk_1"]),
        ("forget_log_chunks", ["SEARCH log_chunk sqlite_autoindex_log_chunk_1"]),
        (
            "prune_log_chunks",
            ["SEARCH log_chunk sqlite_autoindex_log_chunk_1", "SEARCH log_chunk log_chunk_at"],
        ),
        ("get_run_progress", [f"SEARCH run_progress {KEY}"]),
        ("find_existing_job", [JOB_KEY]),
        ("read_key", ["SEARCH idempotency sqlite_autoindex_idempotency_1"]),
        ("fire_clock", [CLOCK_KEY]),
        ("move_clock", [CLOCK_KEY]),
        ("find_busy_job", ["SEARCH run run_job"]),
        ("read_ended", [CLOCK_KEY, "SEARCH run run_fire_key", JOB_KEY]),
        (
            "find_fire",
            ["SEARCH run run_fire_key", "SEARCH run_history run_history_job", "SEARCH dead_run dead_run_job"],
        ),
        ("follow_end", [CLOCK_KEY]),
        ("find_waiting_job", ["SEARCH run run_job"]),
        ("list_live_of_job", ["SEARCH run run_job"]),
        ("read_backfill_work", [JOB_KEY, "SEARCH run run_fire_range", "SEARCH run run_job"]),
        ("read_fire_ranges", [JOB_KEY, CLOCK_KEY, "SEARCH run run_fire_range"]),
        ("keep_permits", [CLOCK_KEY]),
        ("start_flow", [f"SEARCH run {KEY}"]),
        ("keep_places", [f"SEARCH run {KEY}"] * 5),
        ("tell_end", [f"SEARCH run {KEY}"]),
        ("read_mail", ["SEARCH mail mail_shard", f"SEARCH flow {KEY}"]),
        ("drop_mail", [f"SEARCH mail {KEY}", f"SEARCH flow {KEY}"]),
        ("remove_mail", [f"SEARCH mail {KEY}"]),
        ("count_mail", [f"SEARCH mail {KEY}"]),
        ("post_mail", [f"SEARCH flow {KEY}"]),
        ("read_woken", ["SEARCH flow flow_wake"]),
        ("read_flows", [f"SEARCH flow {KEY}", f"SEARCH run {KEY}"]),
        ("lock_flow", [f"SEARCH flow {KEY}"]),
        ("save_flow", [f"SEARCH flow {KEY}"]),
        ("read_flow_seed", [f"SEARCH run {KEY}"]),
        ("read_flow_value", ["SEARCH flow_value PRIMARY KEY"]),
        ("find_kept_event", ["SEARCH event event_key"]),
        ("meet_waits", ["SEARCH wait wait_topic"]),
        ("drop_waits", ["SEARCH wait PRIMARY KEY"]),
        ("delete_flow_values", ["SEARCH flow_value PRIMARY KEY"]),
        ("find_step_end", ["SEARCH run_history run_history_flow", "SEARCH dead_run dead_run_flow"]),
        ("find_step_runs", ["SEARCH run run_flow"]),
        (
            "find_untold",
            [
                *("SCAN flow", "SEARCH run run_flow", "SEARCH mail mail_shard"),
                *("SEARCH run_history run_history_flow", "SEARCH dead_run dead_run_flow"),
            ],
        ),
        (
            "find_flow_runs",
            [
                "SEARCH run run_flow",
                "SEARCH run_history run_history_flow",
                "SEARCH dead_run dead_run_flow",
            ],
        ),
        ("list_waiting_of_backfill", ["SEARCH run run_fire_range"]),
        ("read_fires_of_runs", PAGE_OF_JOB),
        ("read_due", ["SEARCH job_clock job_clock_due", JOB_KEY]),
        ("count_overdue", ["SEARCH job_clock job_clock_due"]),
        ("read_lanes", ["SEARCH run run_ready", "SEARCH run run_quarantined"]),
        ("read_some_lanes", ["SEARCH run run_ready", "SEARCH run run_quarantined"]),
        ("read_ready_instants", ["SEARCH run run_ready"]),
        (
            "count_waiting",
            ["SEARCH run run_ready", "SEARCH run run_waiting", "SEARCH run run_quarantined"],
        ),
        ("count_jobs", ["SEARCH job job_page"]),
        ("list_orphans", ["SEARCH run run_held"]),
        ("held_by_session", ["SEARCH run run_held"]),
        ("read_urgent_lanes", []),
        ("read_kept_waiting", ["SEARCH run run_ready"]),
        ("read_seated", ["SEARCH run run_held"]),
        ("mark_preempted", [f"SEARCH run {KEY}"]),
        ("read_held", [f"SEARCH run {KEY}"]),
        ("find_expired", ["SEARCH run run_expiring"]),
        ("get_runs", PAGE),
        ("read_listed", PAGE),
        ("read_job_names", [JOB_KEY]),
        ("list_jobs", ["SEARCH job job_page", CLOCK_KEY]),
        ("find_all", PAGE),
        ("find_all_of_job", PAGE_OF_JOB),
        ("find_live", PAGE[:1]),
        ("find_live_of_job", PAGE_OF_JOB[:1]),
        ("find_ended", PAGE[1:2]),
        ("find_ended_of_job", PAGE_OF_JOB[1:2]),
        ("find_unusual", ["SEARCH run_history run_history_unusual"]),
        ("find_dead", PAGE[2:]),
        ("find_dead_of_job", PAGE_OF_JOB[2:]),
        ("newest_run", PAGE_OF_JOB),
        ("list_attempts", ["SEARCH attempt attempt_run"]),
        ("prune_history", [f"SEARCH run_history {KEY}", "SEARCH run_history run_history_finished"]),
        ("find_settling_end", ["SEARCH run_history run_history_finished"]),
        ("prune_keys", [f"SEARCH idempotency {KEY}", "SEARCH idempotency idempotency_expiring"]),
        ("read_unique_key", ["SEARCH run_unique PRIMARY KEY", f"SEARCH run {KEY}"]),
        ("replace_waiting", [f"SEARCH run {KEY}"]),
        ("find_unique_keys", ["SEARCH run_unique PRIMARY KEY", f"SEARCH run {KEY}"]),
        ("list_audit", [f"SEARCH audit {KEY}"]),
        ("list_audit_of_tenant", ["SEARCH audit audit_page"]),
        ("list_unsealed", ["SCAN audit audit_unsealed"]),
        ("list_sealed", ["SEARCH audit audit_sealed"]),
        ("find_stray_entry", ["SEARCH audit audit_sealed"] * 2),
        ("set_seals", [f"SEARCH audit {KEY}"]),
        ("prune_audit", [f"SEARCH audit {KEY}"]),
        ("get_artifact", [f"SEARCH artifact {KEY}"]),
        ("list_artifacts", ["SEARCH artifact sqlite_autoindex_artifact_1"]),
        ("list_expired_artifacts", ["SEARCH artifact artifact_expiring"]),
        ("delete_artifacts", [f"SEARCH artifact {KEY}"]),
        ("finish_artifact", [f"SEARCH artifact {KEY}", f"SEARCH run {KEY}"]),
        ("list_listeners", ["SEARCH listener listener_name", "SEARCH job sqlite_autoindex_job_1"]),
        ("list_events", ["SEARCH event event_tenant"]),
        ("list_events_of_topic", ["SEARCH event event_topic"]),
        ("prune_events", [f"SEARCH event {KEY}", "SEARCH event event_received"]),
        ("find_monitor", ["SEARCH monitor monitor_key"]),
        ("get_monitor", ["SEARCH monitor monitor_name"]),
        ("save_monitor", [f"SEARCH monitor {KEY}"]),
        ("list_monitors", ["SEARCH monitor monitor_name"]),
        ("list_all_monitors", ["SCAN monitor monitor_name"]),
        ("list_overdue_monitors", ["SEARCH monitor monitor_due"]),
        # The whole of a partial index: as many rows as are RUNNING (or in quarantine), not the backlog.
        ("find_held", ["SCAN run run_held"]),
        ("find_held_of_job", ["SCAN run run_held"]),
        ("list_overdue", ["SCAN run run_held"]),
        ("count_running", ["SEARCH run run_held"]),
        (
            "delete_empty_lanes",
            [
                "SCAN run run_held",
                "SEARCH run run_ready",
                "SEARCH run run_quarantined",
                "SEARCH run run_waiting",
            ],
        ),
    ],
)
def test_hot_query_walks_its_indexes(database: apsw.Connection, name: str, walks: list[str]) -> None:
    plan = plan_of(database, name)
    assert walks_of(plan) == walks
    # What is overdue or held is sorted: it is among what is RUNNING, not the backlog. So are groups, by their size.
    # And open alerts, and those of two tenants.
    is_sorted = name in {
        *("list_overdue", "find_held", "find_held_of_job", "group_dead"),
        *("find_late", "list_open_alerts", "list_alerts"),
    }
    sorting = ["USE TEMP B-TREE FOR ORDER BY"] if is_sorted else []
    if (
        name == "find_flow_runs"
    ):  # pages are asked for by step; only tests and the judge want all runs of a flow
        sorting = ["USE TEMP B-TREE FOR ORDER BY"] * 3
    if name == "count_running":
        sorting = ["USE TEMP B-TREE FOR GROUP BY"]
    if name == "count_dead_versions":
        sorting = ["USE TEMP B-TREE FOR GROUP BY", "USE TEMP B-TREE FOR ORDER BY"]
    assert [step for step in plan if "TEMP B-TREE" in step] == sorting
    assert [step for step in plan if step.startswith("MATERIALIZE") and "any_run" in step] == []


def test_ends_are_told_again_by_the_indexes_of_flows(database: apsw.Connection) -> None:
    """It sorts the ended runs of a few flows to find the newest of each step, once in a while."""
    plan = plan_of(database, "tell_again")
    indexes = ["SEARCH run_history run_history_flow", "SEARCH dead_run dead_run_flow", "SEARCH run run_flow"]
    assert walks_of(plan) == indexes
    assert [step for step in plan if "TEMP B-TREE" in step] == ["USE TEMP B-TREE FOR GROUP BY"]


OF_COMMANDS = frozenset(
    {
        *(
            "list_clock_facts",
            "raise_clock_revisions",
            "take_log_chunks",
            "take_run_progress",
        ),  # a backup or a restore, of a file that no server has open
        *(
            "count_key_uses",
            "look_at_cluster",
            "look_at_queues",
        ),  # the doctor, once, on a connection of its own that only reads
    }
)
"""Queries of commands that look at everything there is."""


@pytest.mark.parametrize("name", sorted(QUERIES.keys() - OF_COMMANDS))
def test_only_the_census_reads_a_big_table_from_end_to_end(database: apsw.Connection, name: str) -> None:
    scans = {walk for walk in walks_of(plan_of(database, name)) if walk.startswith("SCAN")}
    # Of dead letters it reads those that are open, by their index.
    inspection = {"count_live": {"SCAN run"}, "count_open_dead": {"SCAN dead_run dead_run_open"}}.get(
        name, set()
    )
    few = {"SCAN run run_held", "SCAN run run_quarantined", "SCAN audit audit_unsealed"}
    few |= {"SCAN dead_run dead_run_unnoticed", "SCAN alert alert_open"}
    few |= {"SCAN flow"}  # once in a while, of the workflows that run
    few |= {"SCAN run_progress"}  # the oldest runs first, and no further than a batch
    few |= {"SCAN monitor monitor_name"}  # in order, and of 2,000 no further
    assert scans - few == inspection


@pytest.mark.parametrize(
    ("name", "walks"),
    [
        ("count_ended", ["SEARCH run_history run_history_finished", "SEARCH dead_run dead_run_finished"]),
        ("settle_ends", ["SEARCH run_history run_history_finished"]),
        ("settle_dead_ends", ["SEARCH dead_run dead_run_finished"]),
    ],
)
def test_of_ended_runs_only_the_latest_are_counted(
    database: apsw.Connection, name: str, walks: list[str]
) -> None:
    assert walks_of(plan_of(database, name)) == walks


def test_creation_is_looked_up_once_in_each_table(database: apsw.Connection) -> None:
    plan = plan_of(database, "read_creation")
    assert walks_of(plan) == PAGE
    assert "SCAN any_run" not in plan


def test_entries_about_one_thing_are_three_pages_that_are_sorted(database: apsw.Connection) -> None:
    plan = plan_of(database, "list_audit_of_subject")
    assert sorted(walks_of(plan)) == ["SEARCH audit audit_name", *["SEARCH audit audit_subject"] * 2]
    assert {step for step in plan if "TEMP B-TREE" in step} == {"USE TEMP B-TREE FOR ORDER BY"}


@pytest.mark.parametrize(
    "name", ["list_usage_minutes", "list_usage_hours", "prune_usage_minutes", "prune_usage_hours"]
)
def test_usage_is_found_by_its_time(database: apsw.Connection, name: str) -> None:
    table = f"usage_{name.rpartition('_')[2].removesuffix('s')}"
    bound = "(at<?)" if name.startswith("prune") else "(at>? AND at<?)"
    plan = plan_of(database, name)
    assert f"SEARCH {table} USING PRIMARY KEY {bound}" in plan
    of_tables = [step for step in plan if not step.startswith("SCAN json_each")]  # a list that is a parameter
    assert not any(step.startswith(("SCAN", "USE TEMP")) for step in of_tables)


@pytest.mark.parametrize("verb", ["find_ended", "weigh_archived", "copy_archived", "count_archived"])
@pytest.mark.parametrize("kind", ["runs", "attempts"])
def test_a_day_is_copied_in_the_order_of_its_index(database: apsw.Connection, verb: str, kind: str) -> None:
    name = f"{verb}_{kind.removesuffix('s') if verb == 'find_ended' else kind}"
    index = "run_history_finished" if kind == "runs" else "attempt_finished"
    plan = plan_of(database, name)
    assert any(index in step and step.endswith("(finished_at>? AND finished_at<?)") for step in plan), plan
    assert not any(step.startswith(("SCAN", "USE TEMP")) for step in plan), plan
