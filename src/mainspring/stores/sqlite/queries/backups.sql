-- Backups: what is in the store, and what a restore changes.

-- name: copy_into
VACUUM INTO :file;

-- name: copy_log_chunks
-- The copy is one file, which has what attempts write, too.
CREATE TABLE main.log_chunk AS SELECT * FROM logs.log_chunk;

-- name: copy_run_progress
CREATE TABLE main.run_progress AS SELECT * FROM logs.run_progress;

-- name: has_copied_logs
SELECT count(*) FROM main.sqlite_schema WHERE type = 'table' AND name IN ('log_chunk', 'run_progress');

-- name: take_log_chunks
-- In a copy, the tables without a schema are those of its one file.
INSERT INTO logs.log_chunk SELECT * FROM log_chunk;

-- name: take_run_progress
INSERT INTO logs.run_progress SELECT * FROM run_progress;

-- name: drop_copied_chunks
DROP TABLE log_chunk;

-- name: drop_copied_progress
DROP TABLE run_progress;

-- name: list_tables
SELECT name, 'SELECT count(*) FROM "' || replace(name, '"', '""') || '"' AS counting
FROM sqlite_schema
WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'
ORDER BY name;

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

-- name: check_pages
PRAGMA quick_check(1);

-- name: raise_epochs
UPDATE shard_lease SET epoch = epoch + :step, node_id = NULL;

-- name: raise_all_revisions
-- The policy epoch holds the time, and is raised as by a change of restrictions. At access, 0 says that there has never
-- been an account.
UPDATE revision SET
    number = CASE WHEN name = 'policy_epoch' THEN max(number + 1, :now) ELSE number + :step END
WHERE name <> 'access' OR number > 0;

-- name: raise_clock_revisions
UPDATE job_clock SET revision = revision + :step;

-- name: forget_nodes
DELETE FROM node;

-- name: begin_id_sequences
INSERT INTO sqlite_sequence (name, seq)
SELECT name, 0 FROM sqlite_schema
WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%' AND name NOT IN (SELECT sqlite_sequence.name FROM sqlite_sequence);

-- name: raise_id_sequences
UPDATE sqlite_sequence SET seq = seq + :step;

-- name: raise_run_sequence
UPDATE run_sequence SET value = value + :step;

-- name: end_sessions_of_before
UPDATE session SET state = 'dead', ended_at = :now WHERE state = 'live' RETURNING id;

-- name: copy_holding_sessions
-- The runs under way are held by these copies, under ids that no worker has ever had.
INSERT INTO session (
    id, state, worker, host, pid, slots, queues, types, functions, labels, beats, claim_number, missing, started_at,
    last_beat_at, ended_at, beat_period, held_from, policy_epoch, account, tenant
)
SELECT
    id + :step, 'dead', worker, host, pid, slots, queues, types, functions, labels, beats, claim_number, missing,
    started_at, last_beat_at, coalesce(ended_at, :now), beat_period, held_from, policy_epoch, account, tenant
FROM session
WHERE id IN (SELECT run.session_id FROM run WHERE run.state = 'RUNNING');

-- name: hand_over_held
-- What the engine holds (session 0) it holds on.
UPDATE run SET session_id = session_id + :step WHERE state = 'RUNNING' AND session_id > 0 RETURNING id;
