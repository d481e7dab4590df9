"""The two SQL dialects say the same: names, parameters, tables, columns, states; and SQLite accepts every statement.

That PostgreSQL accepts each of its own is shown in `tests/integration/test_postgres_plans.py` too, where plans are
looked at; here it is shown beside SQLite's, on the schema that the test compares.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from mainspring.core.archive import ArchiveState
from mainspring.core.dead_letters import Settlement
from mainspring.core.model import FireRangeKind
from mainspring.core.notifications import AlertState
from mainspring.core.redrives import RedriveState
from mainspring.core.states import FINAL_STATES, LIVE_STATES, RunState
from mainspring.stores._sql.migrate import read_migrations
from mainspring.stores._sql.queries import load_queries
from mainspring.stores.postgres.schema import migrate as migrate_postgres
from mainspring.stores.sqlite.snapshot import describe
from mainspring.stores.sqlite.store import migrate as migrate_sqlite

SOURCE = Path(__file__).parents[2] / "src" / "mainspring" / "stores"
PACKAGES = {"sqlite": "mainspring.stores.sqlite", "postgres": "mainspring.stores.postgres"}
QUERIES = {dialect: load_queries(package) for dialect, package in PACKAGES.items()}

# query of SQLite that PostgreSQL has not -> why
ONLY_SQLITE = {
    "read_journal_mode": "of the file",
    "find_ended_run": "PostgreSQL finds days by the names of tables, in find_unarchived_day",
    "find_ended_attempt": "the same",
    "weigh_archived_runs": "PostgreSQL cuts a table by its pages, in cut_archive_pages",
    "weigh_archived_attempts": "the same",
    "copy_into": "PostgreSQL is copied by pg_dump",
    "has_run_logs": "a file of their own, which may be lost",
    "look_at_run_logs": "the same, which may be damaged",
    "copy_log_chunks": "a file of their own, which goes into the copy",
    "copy_run_progress": "the same",
    "has_copied_logs": "the same",
    "take_log_chunks": "the same",
    "take_run_progress": "the same",
    "drop_copied_chunks": "the same",
    "drop_copied_progress": "the same",
    "check_pages": "one file, whose pages may be damaged",
    "begin_id_sequences": "a table has a sequence from its first row on",
    "raise_run_sequence": "a row; on PostgreSQL raise_id_sequences raises it, too",
    "find_alert_rule": "PostgreSQL sees in what it has written which rows are new",
    "find_channel": "the same",
    "find_slo": "the same",
    "count_redriven": "PostgreSQL counts in advance_redrive",
    "keep_attempts": "round trips: PostgreSQL keeps them in prune_attempts",
    "read_urgent_lanes": "PostgreSQL reads lanes and their runs at once, by read_kept_waiting",
    "find_priority_classes": "PostgreSQL sees in what it has written which rows are new",
    "read_claimer": "a claim takes several statements: SQLite has no UPDATE inside WITH",
    "set_claim_number": "a claim takes several statements",
    "is_holding": "a claim takes several statements",
    "is_holding_quarantined": "a claim takes several statements",
    "find_ready": "a claim takes several statements",
    "find_rule": "round trips: PostgreSQL finds rules and keys together in find_keys",
    "read_keys_of_claim": "on PostgreSQL lock_keys also locks them",
    "drop_void_holds": "a claim takes several statements; PostgreSQL does so in count_holds",
    "list_holders": "the same",
    "add_hold": "a claim takes several statements; PostgreSQL does so in start_lined_up",
    "keep_hold": "the same",
    "set_bucket": "the same",
    "find_started": "the same",
    "read_batch": "round trips: PostgreSQL reads many lines by read_batches",
    "read_filling": "the same; the offset of SQLite is no column",
    "read_size": "on PostgreSQL lock_batches also locks the keys",
    "find_all": "a list of PostgreSQL is planned anew for its filters",
    "find_all_of_job": "a list of PostgreSQL is planned anew for its filters",
    "find_live": "a list of PostgreSQL is planned anew for its filters",
    "find_live_of_job": "a list of PostgreSQL is planned anew for its filters",
    "find_held": "a list of PostgreSQL is planned anew for its filters",
    "find_held_of_job": "a list of PostgreSQL is planned anew for its filters",
    "find_ended": "a list of PostgreSQL is planned anew for its filters",
    "find_ended_of_job": "a list of PostgreSQL is planned anew for its filters",
    "find_unusual": "a list of PostgreSQL is planned anew for its filters",
    "find_dead": "a list of PostgreSQL is planned anew for its filters",
    "find_dead_of_job": "a list of PostgreSQL is planned anew for its filters",
    "find_open_dead": "a list of PostgreSQL is planned anew for its filters",
    "find_open_dead_of_job": "a list of PostgreSQL is planned anew for its filters",
    "find_named_dead": "a list of PostgreSQL is planned anew for its filters",
    "find_settled_dead": "a list of PostgreSQL is planned anew for its filters",
    "read_dead": "a list of PostgreSQL reads the runs as it finds them",
    "drop_kept_attempts": "PostgreSQL drops them in prune_dead",
    "read_listed": "a list of PostgreSQL reads the runs as it finds them",
    "find_settling_end": "PostgreSQL settles everything in one transaction, which holds up no other",
    "settle_dead_ends": "PostgreSQL counts both tables in settle_ends",
    "unsettle": "PostgreSQL takes off the tally in prune_history",
    "drop_empty_tallies": "PostgreSQL drops the tally of a day with its partition",
    "read_epoch_of_first_shard": "PostgreSQL holds the shard's row by hold_shards",
    "read_unique_key": "PostgreSQL locks the key by lock_unique_keys, then its holder by lock_holders",
    "remove_runs": "PostgreSQL deletes in the statement that inserts into the history",
    "unwatch_ended_attempts": "PostgreSQL watches days whose tables are in the archive",
    "unwatch_ended_runs": "likewise",
    "watch_ended_attempts": "likewise",
    "watch_ended_runs": "likewise",
    "add_flow": "SQLite has no INSERT inside WITH: PostgreSQL begins flows in start_flows",
    "keep_places": "the same",
    "find_kept_event": "PostgreSQL finds it in open_waits",
    "add_event_mail": "SQLite has no INSERT inside WITH: PostgreSQL tells in open_waits and meet_waits",
    "count_mail": "PostgreSQL counts what remove_mail has removed, and rolls back",
    "find_flow_runs": "PostgreSQL reads the runs as it finds them, in list_flow_runs",
    "find_runs_of_steps": "the same, in list_runs_of_steps",
    "tell_end": "PostgreSQL tells in the statements that end runs",
    "find_step_end": "PostgreSQL reads the runs as it finds them, in read_step_ends",
}
# query of PostgreSQL that SQLite has not -> why
ONLY_POSTGRES = {
    "lock_buckets": "SQLite has one writer",
    "share_buckets": "the same",
    "look_at_server": "SQLite has no server",
    "find_unarchived_day": "SQLite asks for the first row of days that are not archived, by find_ended_run",
    "outline_archive": "SQLite cuts a day by time, by weigh_archived_runs",
    "cut_archive_pages": "the same",
    "watch_archive_day": "SQLite watches all days, by watch_ended_runs and watch_ended_attempts",
    "look_at_dead_rows": "the same",
    "write_a_mark": "on SQLite a file beside the database is written",
    "share_snapshot": "pg_dump reads in it; SQLite copies and counts the copy",
    "lock_cluster": "SQLite has one writer",
    "adopt_sessions": "only one process uses the file",
    "announce": "SQLite has one process, so there is nobody to tell",
    "begin_claims": "round trips: SQLite takes a statement for each part",
    "lock_keys": "row locks",
    "lock_batches": "row locks; SQLite reads the size by read_size",
    "read_batches": "round trips: SQLite reads a line at a time",
    "lock_idle_keys": "row locks: PostgreSQL looks twice, SQLite once in delete_idle_keys",
    "lock_idle_rules": "the same",
    "claim_together": "round trips: SQLite claims for one after another in its own process",
    "describe_columns": "for the snapshot; SQLite keeps the text of its statements",
    "describe_constraints": "for the snapshot",
    "describe_indexes": "for the snapshot",
    "describe_others": "for the snapshot",
    "list_closed_days": "partitions",
    "prepare_run_logs": "partitions",
    "list_closed_log_days": "partitions",
    "list_detached_log_days": "partitions",
    "detach_log_day": "partitions",
    "list_detached_days": "partitions",
    "prepare_events": "partitions",
    "list_closed_event_days": "partitions",
    "list_detached_event_days": "partitions",
    "detach_event_day": "partitions",
    "detach_day": "partitions",
    "drop_day": "partitions",
    "keep_attempts_of_day": "partitions",
    "find_schemas": "only PostgreSQL has callers' transactions",
    "forbid_commit": "the same",
    "read_holders": "the same",
    "read_submitted_job": "the same",
    "look_at_store": "the same",
    "find_lost_runs": "SQLite has no failover",
    "note_failover": "the same",
    "list_failovers": "the same",
    "prune_failovers": "the same",
    "hold_calendar_revision": "row locks; SQLite has one writer",
    "hold_access_revision": "the same",
    "hold_lanes": "a row lock; SQLite has one writer",
    "hold_limits": "row locks; SQLite asks find_limit",
    "lock_limit": "row locks",
    "let_others_pass": "locks of tables",
    "limit_lock_waits": "locks of tables",
    "fire_outlined": "round trips: SQLite wins each fire by fire_clock and inserts the runs by insert_run",
    "keep_snapshot": "on SQLite every transaction keeps one",
    "read_step_ends": "SQLite finds the ids by find_step_end, and get_runs reads the runs",
    "list_flow_runs": "SQLite finds the ids by find_flow_runs, and get_runs reads the runs",
    "list_runs_of_steps": "the same, by find_runs_of_steps",
    "list_runs": "SQLite finds the ids by the query that fits, and read_listed reads the runs",
    "list_runs_of_job": "likewise",
    "list_held_runs": "likewise",
    "list_dead": "likewise, and read_dead reads them",
    "find_dead_to_discard": "SQLite finds them as for a list",
    "lock_dead": "row locks",
    "lock_holders": "row locks; SQLite reads key and holder by read_unique_key",
    "lock_unique_keys": "likewise",
    "lock_void_keys": "row locks: PostgreSQL looks twice",
    "pass_unique_keys": "PostgreSQL takes free keys first, and says later who holds the others",
    "release_keys": "PostgreSQL reserves keys before the runs are decided, SQLite after",
    "settle_keys": "likewise",
    "lock_settled": "row locks",
    "share_settled": "row locks",
    "list_older_programs": "only one process uses the file",
    "list_tenants": "on SQLite a claim brings the lane's tenant; here a join for each row",
    "lock_claimers": "row locks",
    "lock_clocks": "row locks",
    "lock_empty_lanes": "row locks: PostgreSQL looks twice, SQLite once in delete_empty_lanes",
    "lock_owners": "SQLite has one writer",
    "lock_schema": "an advisory lock",
    "hold_schema": "the same",
    "find_restore_mark": "on SQLite a file gets its name when its restore is done",
    "name_restore_mark": "the same",
    "lock_shards": "row locks",
    "pass_run_sequence": "SQLite has no failover",
    "pick_shards": "row locks",
    "drop_audit": "partitions",
    "prepare_history": "partitions",
    "try_claim": "a claim takes several statements on SQLite",
    "read_running": "SQLite has one process, which its lock file tells",
    "read_standing": "SQLite has one file, not servers",
    "settle": "SQLite's commits wait for no standby",
    "submit_one": "submit_runs for one",
    "submit_runs": "insert_runs with the checks of a submission; SQLite makes them before",
}
# query, by its name in the singular -> (parameters of SQLite alone, of PostgreSQL alone, why)
_WANTED = {"tenant", "job_id", "queue", "reason", "error", "error_group", "since", "until", "run_id"}
OTHER_PARAMETERS = {
    "meet_wait": (set(), {"value", "place"}, "SQLite takes one event, and tells by add_event_mail"),
    "open_wait": (set(), {"since"}, "SQLite looks for a kept event before, by find_kept_event"),
    "hold_checkpointed_run": (
        {"lease"},
        {"run_id", "token", "session_id"},
        "SQLite takes a list of leases as one JSON text",
    ),
    "hold_logged_run": (
        {"lease"},
        {"run_id", "token", "session_id"},
        "SQLite takes a list of leases as one JSON text",
    ),
    "note_token_use": (
        {"prefix", "used_at"},
        {"prefixe", "time"},
        "SQLite takes a statement for each, which names no column as its parameter",
    ),
    "copy_archived_run": (
        {"after_at", "after_id", "until_id", "limit"},
        {"since", "before", "first"},
        "PostgreSQL streams pages of a table, SQLite reads row by row in the order of an index",
    ),
    "copy_archived_attempt": (
        {"after_at", "after_id", "until_id", "limit"},
        {"since", "before", "first"},
        "the same",
    ),
    "count_archived_run": ({"first_id", "until_id"}, {"since", "before"}, "the same"),
    "count_archived_attempt": ({"first_id", "until_id"}, {"since", "before"}, "the same"),
    "hold_history": ({"since", "before"}, {"day"}, "PostgreSQL looks at the names of tables first"),
    "advance_redrive": (
        {"redriven"},
        {"since_made", *_WANTED},
        "on SQLite count_redriven counts before",
    ),
    "add_attempt": (
        set(),
        {"token", "number", "worker", "host", "start_at"},
        "SQLite reads them from the row, PostgreSQL has read them before",
    ),
    "apply_success": (
        {"end"},
        {"run_id", "token", "session_id", "result", "output"},
        "one JSON object of run id, session and result; SQLite ends a run with output by finish_run",
    ),
    "beat_session": (
        {"missing"},
        {"missing_session", "missing_run", "missing_token", "raise"},
        "JSON here, three arrays there; SQLite writes each beat by itself, PostgreSQL all of a session's at once",
    ),
    "claim_run": (
        {"run_id"},
        {"lane", "low", "limit", "quota", "policy_epoch"},
        "on SQLite find_ready picks before",
    ),
    "count_hold": (
        set(),
        {"held_from", "is_compared", "is_by_run"},
        "on SQLite drop_void_holds compares before",
    ),
    "delete_idle_key": ({"limit", "now"}, {"key_id"}, "on PostgreSQL lock_idle_keys picks before"),
    "delete_idle_rule": ({"limit"}, {"rule_id"}, "on PostgreSQL lock_idle_rules picks before"),
    "find_key": ({"rule_id"}, {"tenant", "name"}, "on SQLite find_rule comes before"),
    "intern_key": ({"rule_id"}, {"tenant", "name"}, "on SQLite find_rule comes before"),
    "insert_lined_up": (set(), {"shard"}, "SQLite's ids are made in Python"),
    "pick_lined_up": (set(), {"quota"}, "one statement for each line on SQLite"),
    "pick_plain": (set(), {"quota"}, "one statement for each lane on SQLite"),
    "read_cap_use": (set(), {"limit"}, "SQLite returns all holders of one cap"),
    "pick_quarantined": (set(), {"low"}, "a JSON object of lane and lower bound on SQLite"),
    "start_lined_up": (
        {"session_id", "number"},
        {
            *("place", "run_session", "run_number", "hold_key", "hold_run", "hold_token"),
            *("kept_key", "kept_run", "kept_token", "kept_from"),
            *("changed_key", "level", "level_at", "held_from"),
        },
        "SQLite starts the runs of each session apart, and writes places and keys before",
    ),
    "read_some_lane": (set(), {"low"}, "likewise: lower bounds spare dead index entries"),
    "read_ready_instant": ({"lane_id"}, {"lane"}, "on SQLite a statement for each lane"),
    "write_queue": (
        {"queue"},
        {"name", "order", "aging", "share", "queue_cap", "expiry_m", "preempt_m"},
        "JSON lists here, arrays there",
    ),
    "read_kept_waiting": (
        {"lane_id"},
        {"queue", "lowest", "tenant"},
        "SQLite reads the lanes by read_urgent_lanes",
    ),
    "write_tenant": (
        {"tenant"},
        {"name", "weight", "reserve", "tenant_cap", "job_cap", "submit_count", "submit_period_m"},
        "JSON lists here, arrays there",
    ),
    "submit_claimed": (
        {"expiry_at", "run_id", "run_lane"},
        {"expire_at", "lane", "lane_id", "low", "newest_version", "shard", "policy_epoch"},
        "on SQLite the checks are made before, and ids in Python",
    ),
    "delete_empty_lane": ({"limit"}, {"lane_id"}, "on PostgreSQL lock_empty_lanes picks before"),
    "delete_unique_key": (set(), {"now"}, "PostgreSQL looks again, after lock_void_keys"),
    "reserve_key": ({"verdict"}, set(), "PostgreSQL writes it by settle_keys, when the run is decided"),
    "insert_run": (set(), {"shard"}, "SQLite's ids are made in Python"),
    "insert_skipped": (set(), {"shard"}, "SQLite's ids are made in Python"),
    "insert_step": ({"run_id"}, {"shard"}, "the same"),
    "prune_dead": (set(), {"settled_before"}, "the lock of the mark comes first; SQLite has one writer"),
    "prune_history": (set(), {"settled_before"}, "the lock of the mark comes first; SQLite has one writer"),
    "read_calendar": ({"key"}, {"name", "version"}, "JSON pairs here, two arrays there"),
    "read_version": ({"key"}, {"job_id", "version"}, "JSON pairs here, two arrays there"),
    "repeat_claim": (set(), {"policy_epoch"}, "SQLite judges the turn in Python"),
    "start_flow": (
        set(),
        {"going_on", "live", "state", "wake_at"},
        "SQLite begins the flow by add_flow and add_notice",
    ),
    "read_lane": (
        set(),
        {"lane_id", "low"},
        "lower bounds of lanes spare dead index entries, of which SQLite has none",
    ),
}
# relation of one dialect alone -> why
OTHER_RELATIONS = {
    "run_sequence": "a row on SQLite, a sequence on PostgreSQL",
    "live_run": "PostgreSQL reads pages from the view's two parts; SQLite's planner does so of itself",
    "ended_run": "the same",
}
# column of one dialect alone -> why
OTHER_COLUMNS = {
    "concurrency_key": ({"held_from"}, "a lower bound spares dead index entries, of which SQLite has none"),
    "key_hold": ({"id"}, "what the lower bound refers to"),
}
CHECKS = {
    "run_state": LIVE_STATES,
    "run_history_state": FINAL_STATES - {RunState.FAILED},
    "dead_run_state": {RunState.FAILED},
    "dead_run_settlement": set(Settlement),
    "fire_range_kind": set(FireRangeKind),
    "redrive_state": set(RedriveState),
    "alert_state": set(AlertState),
    "archive_part_state": set(ArchiveState),
}
PLURALS = {"are": "is", "crashes": "crash", "hashes": "hash"}
SINGULAR = {"is", "has", "missing"}


def singular(name: str) -> str:
    """Return a name with each of its words in the singular: `next_fires_at` is `next_fire_at` of one row."""
    return "_".join(_singular_word(word) for word in name.split("_"))


def _singular_word(word: str) -> str:
    if word in PLURALS:
        return PLURALS[word]
    if word in SINGULAR or word.endswith("ss"):
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    if word.endswith("sses"):
        return word[:-2]
    return word.removesuffix("s")


@pytest.fixture
def sqlite() -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    with connection:
        migrate_sqlite(connection)
    yield connection
    connection.close()


async def connect_postgres(dsn: str) -> Any:
    connection = await asyncpg.connect(dsn)
    await migrate_postgres(connection)
    return connection


# -- statements ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(QUERIES["sqlite"]))
def test_sqlite_prepares_the_query(sqlite: apsw.Connection, name: str) -> None:
    query = QUERIES["sqlite"][name]
    found: list[tuple[str, ...]] = []

    def look(cursor: apsw.Cursor, statement: str, bindings: object) -> bool:
        found.append(tuple(str(name).removeprefix(":") for name in cursor.bindings_names))
        return True

    cursor = sqlite.cursor()
    cursor.exec_trace = look
    values = dict.fromkeys(query.parameters)
    cursor.execute(f"EXPLAIN {query.text}", values).fetchall()
    assert found == [query.parameters]


@pytest.mark.postgres
async def test_postgres_prepares_every_query(postgres_database: str) -> None:
    connection = await connect_postgres(postgres_database)
    try:
        for name, query in QUERIES["postgres"].items():
            text, names = query.positional()
            statement = await connection.prepare(text)
            assert len(statement.get_parameters()) == len(names), name
    finally:
        await connection.close()


def test_the_dialects_have_the_same_queries() -> None:
    sqlite = {singular(name): name for name in QUERIES["sqlite"]}
    postgres = {singular(name): name for name in QUERIES["postgres"]}
    assert {name for key, name in sqlite.items() if key not in postgres} == ONLY_SQLITE.keys()
    assert {name for key, name in postgres.items() if key not in sqlite} == ONLY_POSTGRES.keys()


def test_no_two_queries_of_a_dialect_differ_in_number_only() -> None:
    for queries in QUERIES.values():
        assert len({singular(name) for name in queries}) == len(queries)


def test_queries_of_the_same_name_take_the_same_parameters() -> None:
    parameters = {
        dialect: {singular(name): set(map(singular, query.parameters)) for name, query in queries.items()}
        for dialect, queries in QUERIES.items()
    }
    found = {}
    for name in parameters["sqlite"].keys() & parameters["postgres"].keys():
        here, there = parameters["sqlite"][name], parameters["postgres"][name]
        if here != there:
            found[name] = (here - there, there - here)
    assert found == {name: (here, there) for name, (here, there, _) in OTHER_PARAMETERS.items()}


def test_every_query_of_sqlite_is_used() -> None:
    text = "".join(path.read_text() for path in (SOURCE / "sqlite").glob("*.py"))
    assert {name for name in QUERIES["sqlite"] if f'"{name}"' not in text} == set()


# -- schemas ---------------------------------------------------------------------------------------------------


def test_sqlite_schema_is_the_snapshot() -> None:
    kept = (SOURCE / "sqlite" / "schema.sql").read_text()
    command = "python -m mainspring.stores.sqlite.snapshot > src/mainspring/stores/sqlite/schema.sql"
    assert describe(PACKAGES["sqlite"]) == kept, f"look at the change, then: {command}"


def columns_of_sqlite(connection: apsw.Connection) -> dict[str, set[str]]:
    relations = connection.execute(
        "SELECT name FROM pragma_table_list WHERE schema IN ('main', 'logs') AND type IN ('table', 'view')"
        " AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
    ).fetchall()
    found = {}
    for (name,) in relations:
        found[str(name)] = {
            str(row[0]) for row in connection.execute("SELECT name FROM pragma_table_info(?)", (name,))
        }
    return found


async def columns_of_postgres(connection: Any) -> dict[str, set[str]]:
    rows = await connection.fetch(
        "SELECT class.relname, attribute.attname FROM pg_class AS class"
        " JOIN pg_attribute AS attribute ON attribute.attrelid = class.oid AND attribute.attnum > 0"
        " WHERE class.relnamespace = current_schema()::regnamespace AND class.relkind IN ('r', 'p', 'v')"
        " AND NOT class.relispartition AND NOT attribute.attisdropped"
    )
    found: dict[str, set[str]] = {}
    for relation, column in rows:
        found.setdefault(relation, set()).add(column)
    return found


@pytest.mark.postgres
async def test_tables_and_columns_have_the_same_names(
    sqlite: apsw.Connection, postgres_database: str
) -> None:
    connection = await connect_postgres(postgres_database)
    try:
        there = await columns_of_postgres(connection)
    finally:
        await connection.close()
    here = columns_of_sqlite(sqlite)
    assert here.keys() ^ there.keys() == OTHER_RELATIONS.keys()
    assert {name: here[name] for name in here.keys() & there.keys()} == {
        name: there[name] - OTHER_COLUMNS.get(name, (set(), ""))[0] for name in here.keys() & there.keys()
    }


def quoted(text: str) -> set[str]:
    return set(re.findall(r"'([A-Za-z_]+)'", text))


def test_sqlite_checks_the_states_of_the_core(sqlite: apsw.Connection) -> None:
    text = "\n".join(
        str(row[0]) for row in sqlite.execute("SELECT sql FROM sqlite_schema WHERE type = 'table'")
    )
    found = {}
    for name in CHECKS:
        match = re.search(rf"CONSTRAINT {name} CHECK \((.*?)\)(?:,|\n|\),)", text, flags=re.DOTALL)
        assert match is not None, name
        found[name] = quoted(match.group(1))
    assert found == CHECKS


@pytest.mark.parametrize("name", ["run", "run_history", "dead_run"])
def test_sqlite_refuses_other_states(sqlite: apsw.Connection, name: str) -> None:
    # That the list is not only written, but kept to: no other state gets in.
    info = sqlite.execute(
        "SELECT name, type FROM pragma_table_info(?) WHERE name <> 'state'", (name,)
    ).fetchall()
    values = {str(column): b"x" if kind == "BLOB" else "1" if kind == "TEXT" else 1 for column, kind in info}
    allowed = CHECKS[f"{name}_state"]
    for number, state in enumerate([*RunState, "OTHER"]):
        row = values | {
            "id": number,
            "state": state,
            "fire_at": number,
            "redrive_of": number,
            "flow_id": number,
        }
        if name == "dead_run":
            row["settlement"] = None
        if name == "run" and state != RunState.RUNNING:
            row["session_id"] = None
        statement = f"INSERT INTO {name} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
        if state in allowed:
            sqlite.execute(statement, tuple(row.values()))
        else:
            with pytest.raises(apsw.ConstraintError, match=f"{name}_state"):
                sqlite.execute(statement, tuple(row.values()))


@pytest.mark.postgres
async def test_postgres_checks_the_states_of_the_core(postgres_database: str) -> None:
    connection = await connect_postgres(postgres_database)
    try:
        rows = await connection.fetch(
            "SELECT DISTINCT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = ANY($1)",
            list(CHECKS),
        )
    finally:
        await connection.close()
    assert {name: quoted(text) for name, text in rows} == CHECKS


def test_the_dialects_have_the_same_migrations() -> None:
    names = {
        dialect: [
            (migration.number, migration.name, migration.compatible_from)
            for migration in read_migrations(package)
        ]
        for dialect, package in PACKAGES.items()
    }
    assert names["sqlite"] == names["postgres"]
