"""What the watchdog and the notifier look for is found by indexes, however much of the past is kept."""

from collections.abc import Iterator

import asyncpg
import pytest

from mainspring.stores._sql.queries import load_queries
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.schema import PACKAGE
from tests.support.postgres import temporary_database
from tests.support.postgres_databases import template_database
from tests.support.postgres_plans import explain

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(300)]
QUERIES = load_queries(PACKAGE)
KEPT = """
INSERT INTO alert (
    tenant, rule_tenant, rule, subject, state, severity, since, resolved_at, summary, telling
)
SELECT 'shop ' || n % 20, '*', 'dead_letters', 'queue ' || n, CASE WHEN n > 19960 THEN 'FIRING' ELSE 'RESOLVED' END,
    'warning', now(), CASE WHEN n > 19960 THEN NULL ELSE now() - make_interval(mins => n) END, '', '{}'
FROM generate_series(1, 20000) AS n;
INSERT INTO notification (channel_tenant, channel, message_group, message, made_at, next_at, sent_at)
SELECT '*', 'ops ' || n % 20, 'group ' || n % 500, '{"kind": "firing"}', now() - make_interval(mins => n), now(),
    CASE WHEN n > 19960 THEN NULL ELSE now() END
FROM generate_series(1, 20000) AS n;
INSERT INTO silence (tenant, from_at, until_at, reason, made_by)
SELECT 'shop', now() - interval '1 year', now() - make_interval(mins => n), '', '' FROM generate_series(1, 20000) AS n;
INSERT INTO session (
    state, worker, host, pid, slots, queues, types, functions, labels, started_at, last_beat_at, ended_at
)
SELECT CASE n % 3 WHEN 0 THEN 'dead' ELSE 'left' END, 'w', 'h', 1, 1, '{}', '{}', '{}', '{}', now(), now(),
    now() - make_interval(mins => n)
FROM generate_series(1, 20000) AS n;
INSERT INTO account (name, grants, is_disabled, created_at, issuer, subject, last_login_at)
SELECT 'a' || n, '[]', false, now(), CASE WHEN n % 10 = 0 THEN 'https://id.example' END, 'a' || n,
    now() - make_interval(mins => n * 10)
FROM generate_series(0, 3999) AS n;
INSERT INTO token (prefix, hash, account, name, role, tenant, created_at, expires_at)
SELECT 'p' || n, 'h', 'a' || n % 4000, 't', 'viewer', '*', now(), now() + make_interval(mins => n)
FROM generate_series(1, 20000) AS n;
INSERT INTO failover (noticed_at, process, from_timeline, to_timeline, missing_wal, runs_lost)
SELECT now() - make_interval(mins => n), 'p' || n, 1, 2, 0, 1 FROM generate_series(1, 20000) AS n;
INSERT INTO dead_run (
    id, job_id, version, queue, route, tenant, priority, kind, state, due_at, created_at, finished_at, attempt, token,
    crashes, is_unnoticed
)
SELECT n * 256, ('00000000-0000-0000-0000-' || lpad((n % 500)::text, 12, '0'))::uuid, 1, 'q', 'r', 'shop', 1, 'manual',
    'FAILED', now(), now(), now() - make_interval(mins => 20000 - n), 1, 1, 0, CASE WHEN n > 19960 THEN true END
FROM generate_series(1, 20000) AS n;
INSERT INTO artifact (
    tenant, run_id, token, name, location, content_type, size, sha256, is_ready, created_at, expires_at
)
SELECT 'shop', n / 10 * 256, 1, 'file ' || n % 10, '', 'text/plain', 1, '', n % 50 > 0, now(),
    now() + make_interval(mins => n - 40)
FROM generate_series(1, 20000) AS n;
INSERT INTO event (tenant, id, topic, received_at)
SELECT 't' || n % 50, 'e' || n, 'topic ' || n % 400, now() FROM generate_series(1, 20000) AS n;
INSERT INTO listener (job_id, kind, name, tenant)
SELECT ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 'topic', 'topic ' || n % 400, 't' || n % 50
FROM generate_series(1, 20000) AS n;
INSERT INTO slo (tenant, name, settings)
SELECT 'shop ' || n % 300, 'slo ' || n, '{}' FROM generate_series(1, 9000) AS n;
INSERT INTO usage_minute (at, tenant, queue, process, body)
SELECT now() - make_interval(mins => n / 20), 'shop', 'q' || n % 20, 'p', '{}' FROM generate_series(1, 20000) AS n;
"""
TABLES = (
    *(
        "alert",
        "notification",
        "silence",
        "session",
        "token",
        "failover",
        "dead_run",
        "slo",
        "usage_minute",
        "artifact",
        "event",
        "listener",
    ),
)
JOB = "'{00000000-0000-0000-0000-000000000007}'"
SOON = {"after": "now()", "before": "now() + interval '1 hour'", "lasts": "2592000000000"}
GROUP = {"channel_tenant": "'*'", "channel": "'ops 7'", "message_group": "'group 7'"}
LOOKS: list[tuple[Role, str, dict[str, str], set[str]]] = [
    (Role.UPKEEP, "list_open_alerts", {}, {"alert_open"}),
    (
        Role.BROWSE,
        "list_alerts",
        {
            "tenants": "'{of few}'",
            "before": "9223372036854775807",
            "states": "'{FIRING,RESOLVED}'",
            "limit": "100",
        },
        {"alert_page"},
    ),
    (
        Role.BROWSE,
        "list_all_alerts",
        {"before": "9223372036854775807", "states": "'{FIRING,RESOLVED}'", "limit": "100"},
        {"alert_pkey"},
    ),
    (Role.UPKEEP, "change_alerts", {"alerts": """'[{"id": 7}]'"""}, {"alert_open"}),
    (Role.UPKEEP, "remove_alerts", {"alert_ids": "'{7}'"}, {"alert_pkey"}),
    (
        Role.UPKEEP,
        "prune_alerts",
        {"before": "now() - interval '40 days'", "limit": "1000"},
        {"alert_resolved"},
    ),
    (
        Role.UPKEEP,
        "take_notifications",
        {
            "now": "now()",
            "again_at": "now()",
            "limit": "4",
            "busy": "'{}'",
            "busy_tenants": "'{}'",
        },
        {"notification_due"},  # by which it finds the earlier ones, too, as long as few wait
    ),
    (Role.UPKEEP, "list_undelivered", {"never": "'9999-01-01'", "limit": "100"}, {"notification_due"}),
    (Role.UPKEEP, "drop_repeats", GROUP, {"notification_order"}),
    (Role.UPKEEP, "settle_notification", {"notification_id": "7", "attempts": "1"}, {"notification_pkey"}),
    (Role.UPKEEP, "give_up_notifications", {"notification_ids": "'{7}'"}, {"notification_pkey"}),
    (
        Role.UPKEEP,
        "prune_notifications",
        {"before": "now() - interval '40 days'", "limit": "1000"},
        {"notification_settled"},
    ),
    (Role.READ, "list_silences", {"ending_after": "now()"}, {"silence_end"}),
    (Role.BROWSE, "list_lost_sessions", {"since": "now() - interval '1 hour'"}, {"session_dead"}),
    (Role.BROWSE, "list_expiring_tokens", {**SOON, "limit": "1000"}, {"token_expiring"}),
    (Role.BROWSE, "list_failovers", {"since": "now() - interval '1 hour'"}, {"failover_pkey"}),
    (Role.UPKEEP, "prune_failovers", {"before": "now() - interval '40 days'"}, {"failover_pkey"}),
    (Role.BROWSE, "list_unnoticed", {"limit": "1000"}, {"dead_run_unnoticed"}),
    (Role.UPKEEP, "notice_failures", {"run_ids": "'{256}'"}, {"dead_run_pkey"}),
    (
        Role.BROWSE,
        "find_failing",
        {"job_ids": JOB, "failures": "'{3}'", "sinces": "'{2026-01-01T00:00:00Z}'"},
        {"dead_run_job"},
    ),
    (
        Role.BROWSE,
        "list_events",
        {"tenant": "'t7'", "before": "9223372036854775807", "limit": "100"},
        {"event_default_tenant_number_idx"},
    ),
    (
        Role.BROWSE,
        "list_events_of_topic",
        {"tenant": "'t7'", "topic": "'topic 7'", "before": "9223372036854775807", "limit": "100"},
        {"event_default_tenant_topic_number_idx"},
    ),
    (Role.READ, "get_artifact", {"artifact_id": "7"}, {"artifact_pkey"}),
    (
        Role.READ,
        "list_artifacts",
        {"run_id": "25600", "token": "1", "after": "''", "limit": "100"},
        {"artifact_name"},
    ),
    (Role.UPKEEP, "list_expired_artifacts", {"before": "now()", "limit": "100"}, {"artifact_expiring"}),
    (Role.UPKEEP, "delete_artifacts", {"artifact_ids": "'{7}'"}, {"artifact_pkey"}),
    (
        Role.EDIT,
        "finish_artifact",
        {"artifact_id": "7", "session_id": "1", "now": "now()", "expiry_at": "now()"},
        {"artifact_pkey", "run_pkey"},
    ),
    (
        Role.EDIT,
        "explain_artifact",
        {"run_id": "25600", "token": "1", "session_id": "1", "name": "'file 7'"},
        {"artifact_name", "run_pkey"},
    ),
    (
        Role.BROWSE,
        "list_usage_minutes",
        {"since": "now() - interval '4 minutes'", "until": "now()"},
        {"usage_minute_pkey"},
    ),
]


@pytest.fixture(scope="module")
def dsn(postgres_server: str) -> Iterator[str]:
    with (
        template_database(postgres_server) as template,
        temporary_database(postgres_server, template=template) as dsn,
    ):
        yield dsn


@pytest.fixture
async def kept(dsn: str) -> str:
    """Return a database in which much of the past is kept, and little is open."""
    connection = await asyncpg.connect(dsn)
    try:
        if not await connection.fetchval("SELECT count(*) FROM alert"):
            await connection.execute(KEPT)
            await connection.execute(f"ANALYZE account, {', '.join(TABLES)}")
    finally:
        await connection.close()
    return dsn


@pytest.mark.parametrize(("role", "name", "values", "indexes"), LOOKS, ids=[look[1] for look in LOOKS])
async def test_what_alerts_look_for_is_found_by_an_index(
    kept: str, role: Role, name: str, values: dict[str, str], indexes: set[str]
) -> None:
    nodes = await explain(kept, role, QUERIES[name], values=values)
    scanned = {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"}
    assert not scanned & {*TABLES, "run_history"}
    assert indexes <= {node.get("Index Name") for node in nodes}


async def test_objectives_of_a_tenant_are_found_by_their_key(kept: str) -> None:
    """All of them are read at once by the watchdog, a hundred of each tenant at most; a page reads one tenant's."""
    nodes = await explain(kept, Role.READ, QUERIES["list_slos"], values={"tenant": "'shop 7'"})
    assert "slo_pkey" in {node.get("Index Name") for node in nodes}
