-- What attempts write while they run. The tables are in a file of their own, the schema `logs`.

-- name: has_run_logs
SELECT count(*) FROM logs.sqlite_schema WHERE type = 'table' AND name IN ('log_chunk', 'run_progress');

-- name: look_at_run_logs
SELECT (SELECT count(*) FROM (SELECT 1 FROM logs.log_chunk LIMIT 1))
    + (SELECT count(*) FROM (SELECT 1 FROM logs.run_progress LIMIT 1));

-- name: hold_logged_runs
SELECT run.id, run.token
FROM json_each(:leases) AS wanted
CROSS JOIN run ON run.id = wanted.value ->> 0
WHERE run.state = 'RUNNING' AND run.token = wanted.value ->> 1 AND run.session_id = wanted.value ->> 2;

-- name: add_log_chunk
INSERT INTO log_chunk (run_id, token, start, size, at, data) VALUES (:run_id, :token, :start, :size, :now, :data)
ON CONFLICT (run_id, token, start) DO NOTHING;

-- name: forget_log_chunks
DELETE FROM log_chunk WHERE run_id = :run_id AND token = :token AND start >= :start AND start < :until;

-- name: set_run_progress
INSERT INTO run_progress (run_id, token, done, total, message, at)
VALUES (:run_id, :token, :done, :total, :message, :now)
ON CONFLICT (run_id) DO UPDATE SET
    token = excluded.token, done = excluded.done, total = excluded.total, message = excluded.message, at = excluded.at
WHERE excluded.token >= run_progress.token;

-- name: list_log_chunks
SELECT start, size, data FROM log_chunk
WHERE run_id = :run_id AND token = :token AND start > :start - 65536 AND start + size > :start
ORDER BY start LIMIT :limit;

-- name: get_run_progress
SELECT run_progress.run_id, token, done, total, message, at
FROM json_each(:run_ids) AS wanted
CROSS JOIN run_progress ON run_progress.run_id = wanted.value;

-- name: prune_log_chunks
DELETE FROM log_chunk WHERE (run_id, token, start) IN (
    SELECT run_id, token, start FROM log_chunk WHERE at < :before ORDER BY at LIMIT :limit
);

-- name: prune_run_progress
-- Looks at the oldest runs only.
DELETE FROM run_progress
WHERE at < :before AND run_id IN (SELECT run_id FROM run_progress ORDER BY run_id LIMIT :limit);
