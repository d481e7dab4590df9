-- Runs, from submission to history.

-- name: reserve_run_ids
UPDATE run_sequence SET value = value + :count RETURNING value;

-- name: find_lane
SELECT id FROM lane WHERE queue = :queue AND route = :route AND tenant = :tenant AND priority = :priority;

-- name: intern_lane
INSERT INTO lane (queue, route, tenant, priority) VALUES (:queue, :route, :tenant, :priority) RETURNING id;

-- name: find_existing_job
SELECT version FROM job WHERE id = :job_id AND deleted_at IS NULL;

-- name: insert_run
INSERT INTO run ({new_columns})
VALUES (
    :run_id, :job_id, :version, :run_lane, :kind, 'PENDING', :fire_at, :due_at, max(:due_at, :now), :now, :expiry_at,
    :timeout_ms, :payload, :target_key, :fire_range_id, :trace
);

-- name: insert_step
-- The same for a run of a step.
INSERT INTO run ({new_columns}, flow_id, step, item, is_parked, key_id, second_key_id, third_key_id)
VALUES (
    :run_id, :job_id, :version, :run_lane, :kind, 'PENDING', :fire_at, :due_at, max(:due_at, :now), :now, :expiry_at,
    :timeout_ms, :payload, :target_key, :fire_range_id, :trace, :flow_id, :step, :item, :key_id IS NOT NULL, :key_id,
    :second_key, :third_key
);

-- name: insert_skipped
-- Law 4: a fire that does not become work leaves a record in the history.
INSERT INTO run_history (
    id, job_id, version, queue, route, tenant, priority, kind, state, reason, fire_at, due_at, created_at, finished_at,
    attempt, token, crashes, payload, target_key, fire_range_id, trace
)
VALUES (
    :run_id, :job_id, :version, :queue, :route, :tenant, :priority, :kind, 'SKIPPED', :reason, :fire_at, :due_at, :now,
    :now, 1, 0, 0, :payload, :target_key, :fire_range_id, :trace
);

-- name: read_key
SELECT run_id, request_hash, expires_at, verdict FROM idempotency WHERE tenant = :tenant AND key = :key;

-- name: reserve_key
INSERT INTO idempotency (tenant, key, run_id, request_hash, expires_at, verdict)
VALUES (:tenant, :key, :run_id, :request_hash, :expiry_at, :verdict)
ON CONFLICT (tenant, key) DO UPDATE SET
    run_id = excluded.run_id, request_hash = excluded.request_hash, expires_at = excluded.expires_at,
    verdict = excluded.verdict
WHERE idempotency.expires_at <= :now;

-- name: mark_redrive
UPDATE run SET redrive_of = :redrive_of, flow_seed = :flow_seed WHERE id = :run_id;

-- name: request_cancel
UPDATE run SET cancel_requested_at = :now, cancel_reason = :reason
WHERE id = :run_id AND cancel_requested_at IS NULL
RETURNING session_id;

-- name: find_expired
SELECT id FROM run INDEXED BY run_expiring
WHERE expires_at <= :now AND state IN ('PENDING', 'RETRYING')
ORDER BY expires_at
LIMIT :limit;

-- name: get_runs
SELECT any_run.* FROM json_each(:run_ids) AS wanted CROSS JOIN any_run ON any_run.id = wanted.value;

-- name: newest_run
SELECT * FROM any_run
WHERE job_id = :job_id AND (due_at <= :now OR started_at IS NOT NULL)
ORDER BY id DESC
LIMIT 1;

-- name: list_attempts
SELECT run_id, token, number, outcome, worker, started_at, finished_at, error, output, host
FROM attempt WHERE run_id = :run_id
UNION ALL
SELECT run_id, token, number, outcome, worker, started_at, finished_at, error, output, host
FROM kept_attempt WHERE run_id = :run_id
ORDER BY token;
