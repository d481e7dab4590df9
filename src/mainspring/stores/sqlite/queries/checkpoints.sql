-- What the steps of durable functions have come to.

-- name: hold_checkpointed_runs
SELECT run.id, run.token, run.session_id, run.quarantined_crashes
FROM json_each(:leases) AS wanted
CROSS JOIN run ON run.id = wanted.value ->> 0
WHERE run.state = 'RUNNING' AND run.token = wanted.value ->> 1 AND run.session_id = wanted.value ->> 2;

-- name: forget_crashes
-- Of runs that have come further than where they crashed.
UPDATE run SET quarantined_crashes = 0 WHERE id IN (SELECT value FROM json_each(:run_ids));

-- name: add_checkpoint
INSERT INTO checkpoint (run_id, name, number, token, is_error, value, kept_at)
VALUES (:run_id, :name, :number, :token, :is_error, :data, :now)
ON CONFLICT (run_id, name, number) DO NOTHING
RETURNING run_id;

-- name: list_checkpoints
SELECT name, number, token, is_error, value, kept_at FROM checkpoint
WHERE run_id = :run_id AND (name, number) > (:name, :number)
ORDER BY name, number
LIMIT :limit;

-- name: prune_checkpoints
-- Runs that are under way keep theirs, however long they sleep.
DELETE FROM checkpoint WHERE (run_id, name, number) IN (
    SELECT checkpoint.run_id, checkpoint.name, checkpoint.number FROM checkpoint
    WHERE checkpoint.kept_at < :before AND NOT EXISTS (SELECT 1 FROM run WHERE run.id = checkpoint.run_id)
    ORDER BY checkpoint.kept_at LIMIT :limit
);
