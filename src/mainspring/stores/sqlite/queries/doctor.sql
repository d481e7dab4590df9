-- What `mainspring doctor` looks at. Times are in seconds.

-- name: find_migration_table
SELECT name FROM sqlite_schema WHERE type = 'table' AND name = 'migration';

-- name: read_journal_mode
PRAGMA journal_mode;

-- name: look_at_nodes
SELECT
    host, version, tzdata, refusal, (:now - last_beat_at) / 1e6 AS silent, coalesce(period / 1e6, 1.4) AS period
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
    (SELECT (:now - min(audit.at)) / 1e6 FROM audit WHERE audit.seal IS NULL) AS unsealed_for,
    (SELECT count(*) FROM job_clock WHERE job_clock.due_at < :now - 60000000) AS overdue,
    (SELECT coalesce(max(:now - job_clock.due_at), 0) / 1e6 FROM job_clock WHERE job_clock.due_at IS NOT NULL) AS overdue_by,
    (SELECT count(*) FROM session WHERE {is_worker}) AS workers,
    (SELECT coalesce(sum(session.slots), 0) FROM session WHERE {is_worker}) AS slots
FROM cluster;

-- name: look_at_queues
-- Those with ready runs that no live worker serves; one that names no queues serves all. What is paused waits rightly,
-- and workflows need no worker.
SELECT lane.queue, count(*) AS runs, max(:now - run.ready_at) / 1e6 AS oldest
FROM run CROSS JOIN lane ON lane.id = run.lane_id
WHERE
    run.state IN ('PENDING', 'RETRYING') AND run.ready_at < :now - 5000000
    AND lane.route <> 'workflow' AND substr(lane.route, 1, 9) <> 'workflow+'
    AND NOT EXISTS (
        SELECT 1 FROM session
        WHERE {is_worker} AND (
            session.queues = '[]' OR EXISTS (SELECT 1 FROM json_each(session.queues) AS served WHERE served.value = lane.queue)
        ) AND (session.tenant IS NULL OR session.tenant = lane.tenant)
    )
    AND NOT EXISTS (
        SELECT 1 FROM pause
        WHERE pause.scope = 'all' OR (pause.scope = 'queue' AND pause.name = lane.queue)
            OR (pause.scope = 'tenant' AND pause.name = lane.tenant)
    )
GROUP BY lane.queue
ORDER BY runs DESC, lane.queue
LIMIT 20;

-- name: look_at_tokens_before_logins
-- As list_expiring_tokens, in a store that knows no sessions yet, nor accounts of providers.
SELECT token.name, token.account, (token.expires_at - :now) / 1e6 AS ends_in
FROM token
WHERE
    token.revoked_at IS NULL AND token.expires_at > :now AND token.expires_at < :now + 1209600000000
    AND NOT EXISTS (SELECT 1 FROM token AS newer WHERE newer.replaces = token.prefix)
ORDER BY token.expires_at
LIMIT 20;

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
