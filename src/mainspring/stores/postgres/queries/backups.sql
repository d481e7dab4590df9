-- Backups: what is in the store, and what a restore changes.

-- name: share_snapshot
-- pg_dump reads in the same snapshot as the transaction that calls this.
SELECT pg_export_snapshot() AS snapshot, now() AS at;

-- name: list_tables
-- Partitions are counted with their table.
SELECT class.relname AS name, format('SELECT count(*) FROM %I', class.relname) AS counting
FROM pg_class AS class
WHERE class.relnamespace = current_schema()::regnamespace AND class.relkind IN ('r', 'p') AND NOT class.relispartition
  AND class.relname <> 'mainspring_restoring'
ORDER BY class.relname;

-- name: name_restore_mark
-- The schema of the role may come from the backup only.
SELECT 'CREATE TABLE ' || quote_ident(coalesce(current_schema(), 'public')) || '.mainspring_restoring ()' AS making;

-- name: read_schema_number
SELECT max(number) AS number FROM migration;

-- name: read_newest_seal
SELECT id, digest FROM audit_seal ORDER BY id DESC LIMIT 1;

-- name: list_clock_facts
SELECT job_clock.job_id, job_clock.next_fire_at, job_clock.fired_through, coalesce(made.fires, 0) AS fires, made.last_fire_at
FROM job_clock
LEFT JOIN (
    SELECT fired.job_id, count(*) AS fires, max(fired.fire_at) AS last_fire_at
    FROM (
        SELECT job_id, fire_at FROM run WHERE kind = 'scheduled'
        UNION ALL
        SELECT job_id, fire_at FROM run_history WHERE kind = 'scheduled'
        UNION ALL
        SELECT job_id, fire_at FROM dead_run WHERE kind = 'scheduled'
    ) AS fired
    GROUP BY fired.job_id
) AS made ON made.job_id = job_clock.job_id;

-- name: raise_epochs
UPDATE shard_lease SET epoch = epoch + :step::bigint, node_id = NULL;

-- name: raise_all_revisions
-- The policy epoch holds the time, and is raised as by a change of restrictions. At access, 0 says that there has never
-- been an account.
UPDATE revision SET
    number = CASE
        WHEN name = 'policy_epoch'
        THEN greatest(number + 1, floor(extract(epoch FROM :now::timestamptz) * 1000000)::bigint)
        ELSE number + :step::bigint
    END
WHERE name <> 'access' OR number > 0;

-- name: raise_clock_revisions
UPDATE job_clock SET revision = revision + :step::bigint;

-- name: forget_nodes
DELETE FROM node;

-- name: raise_id_sequences
-- Ours by name: tables of others in the schema keep theirs, which may end sooner.
SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, coalesce(last_value, 0) + :step::bigint)
FROM pg_sequences
WHERE schemaname = current_schema() AND sequencename IN (
    'alert_id_seq', 'artifact_id_seq', 'audit_id_seq', 'concurrency_key_id_seq', 'event_number_seq', 'fire_range_id_seq',
    'key_hold_id_seq', 'lane_id_seq', 'limit_rule_id_seq', 'mail_id_seq', 'monitor_id_seq', 'notification_id_seq', 'run_sequence',
    'session_id_seq', 'silence_id_seq'
);

-- name: end_sessions_of_before
UPDATE session SET state = 'dead', ended_at = :now::timestamptz WHERE state = 'live' RETURNING id;

-- name: copy_holding_sessions
-- The runs under way are held by these copies, under ids that no worker has ever had.
INSERT INTO session (
    id, state, worker, host, pid, slots, queues, types, functions, labels, beats, claim_number, missing, started_at,
    last_beat_at, ended_at, beat_period, held_from, policy_epoch, account, tenant
)
OVERRIDING SYSTEM VALUE
SELECT
    id + :step::bigint, 'dead', worker, host, pid, slots, queues, types, functions, labels, beats, claim_number, missing,
    started_at, last_beat_at, coalesce(ended_at, :now::timestamptz), beat_period, held_from, policy_epoch, account, tenant
FROM session
WHERE id IN (SELECT run.session_id FROM run WHERE run.state = 'RUNNING');

-- name: hand_over_held
-- What the engine holds (session 0) it holds on.
UPDATE run SET session_id = session_id + :step::bigint WHERE state = 'RUNNING' AND session_id > 0 RETURNING id;
