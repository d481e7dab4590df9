-- What `mainspring doctor` looks at. Times are in seconds.

-- name: find_migration_table
SELECT class.relname AS name FROM pg_class AS class
WHERE class.relnamespace = current_schema()::regnamespace AND class.relname = 'migration' AND class.relkind = 'r';

-- name: look_at_nodes
SELECT
    host, version, tzdata, refusal, extract(epoch FROM :now::timestamptz - last_beat_at)::float8 AS silent,
    coalesce(extract(epoch FROM period), 1.4)::float8 AS period
FROM node
ORDER BY host, id;

-- name: look_at_cluster
SELECT
    cluster.tzdata,
    (
        SELECT count(*) FROM shard_lease
        WHERE shard_lease.node_id IS NULL OR shard_lease.node_id NOT IN (SELECT node.id FROM node)
    ) AS free_shards,
    (SELECT count(*) FROM account) AS accounts,
    (SELECT count(*) FROM job WHERE job.deleted_at IS NULL) AS jobs,
    (SELECT count(*) FROM dead_run WHERE dead_run.settled_at IS NULL) AS dead,
    (
        SELECT extract(epoch FROM :now::timestamptz - min(audit.at))::float8 FROM audit WHERE audit.seal IS NULL
    ) AS unsealed_for,
    (SELECT count(*) FROM job_clock WHERE job_clock.due_at < :now::timestamptz - interval '60 s') AS overdue,
    (
        SELECT coalesce(extract(epoch FROM max(:now::timestamptz - job_clock.due_at)), 0)::float8
        FROM job_clock WHERE job_clock.due_at IS NOT NULL
    ) AS overdue_by,
    (SELECT count(*) FROM session WHERE {is_worker}) AS workers,
    (SELECT coalesce(sum(session.slots), 0) FROM session WHERE {is_worker}) AS slots
FROM cluster;

-- name: look_at_queues
-- Those with ready runs that no live worker serves; one that names no queues serves all. What is paused waits rightly,
-- and workflows need no worker.
SELECT
    lane.queue, count(*) AS runs, extract(epoch FROM max(:now::timestamptz - run.ready_at))::float8 AS oldest
FROM run JOIN lane ON lane.id = run.lane_id
WHERE
    run.state IN ('PENDING', 'RETRYING') AND run.ready_at < :now::timestamptz - interval '5 s'
    AND lane.route <> 'workflow' AND NOT starts_with(lane.route, 'workflow+')
    AND NOT EXISTS (
        SELECT FROM session
        WHERE
            {is_worker} AND (session.queues = '{}' OR lane.queue = ANY(session.queues))
            AND (session.tenant IS NULL OR session.tenant = lane.tenant)
    )
    AND NOT EXISTS (
        SELECT FROM pause
        WHERE pause.scope = 'all' OR (pause.scope = 'queue' AND pause.name = lane.queue)
            OR (pause.scope = 'tenant' AND pause.name = lane.tenant)
    )
GROUP BY lane.queue
ORDER BY runs DESC, lane.queue
LIMIT 20;

-- name: look_at_tokens_before_logins
-- As list_expiring_tokens, in a store that knows no sessions yet, nor accounts of providers.
SELECT token.name, token.account, extract(epoch FROM token.expires_at - :now::timestamptz)::float8 AS ends_in
FROM token
WHERE
    token.revoked_at IS NULL AND token.expires_at > :now::timestamptz
    AND token.expires_at < :now::timestamptz + interval '14 days'
    AND NOT EXISTS (SELECT FROM token AS newer WHERE newer.replaces = token.prefix)
ORDER BY token.expires_at
LIMIT 20;

-- name: look_at_server
-- Transactions of others: what this statement's own is doing is no finding.
SELECT
    current_setting('server_version_num')::integer / 10000 AS version,
    pg_is_in_recovery() AS is_standby,
    current_setting('fsync') = 'on' AS fsync,
    current_setting('full_page_writes') = 'on' AS full_page_writes,
    current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('autovacuum') = 'on' AS autovacuum,
    current_setting('max_connections')::integer AS max_connections,
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
    (
        SELECT coalesce(extract(epoch FROM max(clock_timestamp() - xact_start)), 0)::float8 FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
    ) AS longest_transaction,
    (
        SELECT coalesce(extract(epoch FROM max(clock_timestamp() - state_change)), 0)::float8 FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'
    ) AS longest_idle,
    (SELECT count(*) FROM pg_replication_slots WHERE NOT active) AS stale_slots,
    quote_ident(current_user) AS role,
    inet_server_addr() IS NULL AS is_here,
    pg_has_role('pg_read_all_settings', 'MEMBER') AS has_right,
    {store_folder};

-- name: look_at_dead_rows
SELECT relname AS "table", n_live_tup AS live_rows, n_dead_tup AS dead_rows
FROM pg_stat_user_tables
WHERE schemaname = current_schema()
ORDER BY n_dead_tup DESC, relname
LIMIT 1;

-- name: write_a_mark
-- A record in the log of the server, which nobody reads: its commit takes as long as any small one.
SELECT pg_logical_emit_message(true, 'mainspring', 'doctor')::text AS written;

-- name: look_at_channels
-- Those whose last message could not be delivered.
SELECT
    channel.tenant, channel.name, channel.last_error AS error,
    (
        SELECT count(*) FROM notification
        WHERE notification.channel_tenant = channel.tenant AND notification.channel = channel.name
            AND notification.sent_at IS NULL AND notification.given_up_at IS NULL
    ) AS waiting
FROM channel
WHERE channel.last_error IS NOT NULL
ORDER BY channel.tenant, channel.name
LIMIT 20;
