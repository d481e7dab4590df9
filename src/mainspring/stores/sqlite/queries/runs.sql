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
    :timeout_ms, :payload, :target_key, :fire_range_id
);

-- name: insert_skipped
-- Law 4: what does not become work is a record in the history.
INSERT INTO run_history (
    id, job_id, version, queue, route, tenant, priority, kind, state, reason, fire_at, due_at, created_at, finished_at,
    attempt, token, crashes, payload, target_key, fire_range_id
)
VALUES (
    :run_id, :job_id, :version, :queue, :route, :tenant, :priority, :kind, 'SKIPPED', :reason, :fire_at, :due_at, :now,
    :now, 1, 0, 0, :payload, :target_key, :fire_range_id
);

-- name: read_key
SELECT run_id, request_hash, expires_at FROM idempotency WHERE tenant = :tenant AND key = :key;

-- name: reserve_key
INSERT INTO idempotency (tenant, key, run_id, request_hash, expires_at)
VALUES (:tenant, :key, :run_id, :request_hash, :expiry_at)
ON CONFLICT (tenant, key) DO UPDATE SET
    run_id = excluded.run_id, request_hash = excluded.request_hash, expires_at = excluded.expires_at
WHERE idempotency.expires_at <= :now;

-- name: read_lanes
-- Lower bounds are for PostgreSQL: here no index holds entries of what is no longer so.
SELECT
    lane.id, lane.queue, lane.route, lane.tenant, lane.priority,
    (
        SELECT run.ready_at FROM run INDEXED BY run_ready
        WHERE run.lane_id = lane.id AND {is_ready} AND run.crashes = 0
        ORDER BY run.ready_at LIMIT 1
    ) AS earliest_ready_at,
    (
        SELECT run.ready_at FROM run INDEXED BY run_quarantined
        WHERE run.lane_id = lane.id AND {is_ready} AND run.crashes > 0
        ORDER BY run.ready_at LIMIT 1
    ) AS earliest_quarantined_at
FROM lane
WHERE :is_all OR lane.queue IN (SELECT value FROM json_each(:queues))
ORDER BY lane.id;

-- name: read_claimer
SELECT claim_number FROM session WHERE id = :session_id AND state = 'live';

-- name: set_claim_number
UPDATE session SET claim_number = :number WHERE id = :session_id;

-- name: is_holding
SELECT EXISTS (SELECT 1 FROM run INDEXED BY run_held WHERE session_id = :session_id AND state = 'RUNNING');

-- name: is_holding_quarantined
SELECT EXISTS (SELECT 1 FROM run INDEXED BY run_held_quarantined WHERE session_id = :session_id AND state = 'RUNNING' AND is_quarantined);

-- name: find_ready
-- `lanes` is an object of lane and lower bound. The cross joins keep the order: lane after lane, and in each by `ready_at` along the index, until the limit is reached.
SELECT
    {run.claimed_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested, lane.tenant
FROM json_each(:lanes) AS wanted
CROSS JOIN lane ON lane.id = CAST(wanted.key AS INTEGER)
CROSS JOIN run INDEXED BY run_ready ON run.lane_id = lane.id
WHERE
    {is_ready} AND run.crashes = 0 AND run.ready_at BETWEEN wanted.value AND :now
    AND (run.expires_at IS NULL OR run.expires_at > :now)
LIMIT :limit;

-- name: find_quarantined
SELECT
    {run.claimed_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested, lane.tenant
FROM json_each(:lanes) AS wanted
CROSS JOIN lane ON lane.id = CAST(wanted.key AS INTEGER)
CROSS JOIN run INDEXED BY run_quarantined ON run.lane_id = lane.id
WHERE
    {is_ready} AND run.crashes > 0 AND run.ready_at BETWEEN wanted.value AND :now
    AND (run.expires_at IS NULL OR run.expires_at > :now)
LIMIT :limit;

-- name: claim_runs
UPDATE run SET
    state = 'RUNNING', token = token + 1, session_id = :session_id, claim_number = :number, is_quarantined = :is_quarantined,
    started_at = :now, deadline_at = :now + timeout_ms * 1000
WHERE id IN (SELECT value FROM json_each(:run_ids));

-- name: repeat_claim
SELECT
    {run.claimed_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested, lane.tenant
FROM run INDEXED BY run_held
CROSS JOIN lane ON lane.id = run.lane_id
WHERE run.session_id = :session_id AND run.state = 'RUNNING' AND run.claim_number = :number
ORDER BY run.id;

-- name: lock_runs
SELECT
    {run.live_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested
FROM json_each(:run_ids) AS wanted
CROSS JOIN run ON run.id = wanted.value;

-- name: add_attempt
INSERT INTO attempt (run_id, token, number, outcome, worker, started_at, finished_at, error, output)
SELECT
    run.id, run.token, run.attempt, :outcome,
    coalesce((SELECT session.worker FROM session WHERE session.id = run.session_id), ''), run.started_at, :now, :error,
    :output
FROM run
WHERE run.id = :run_id;

-- name: finish_run
INSERT INTO run_history (
    {kept_columns}, queue, route, tenant, priority, state, reason, finished_at, crashes, error, result, output
)
SELECT
    {run.kept_columns}, lane.queue, lane.route, lane.tenant, lane.priority, :state, :reason, :now,
    coalesce(:crashes, run.crashes), :error, :result, :output
FROM run CROSS JOIN lane ON lane.id = run.lane_id
WHERE run.id = :run_id;

-- name: apply_successes
-- The end of nearly every run, all at once, where it succeeded at the first go (token 1: there is no earlier attempt).
-- `ends` is an object of run id and [session, result in hexadecimal]. Right after it, remove_runs takes the rows that it
-- answers out of `run`.
INSERT INTO run_history ({kept_columns}, queue, route, tenant, priority, state, finished_at, crashes, result)
SELECT
    {run.kept_columns}, lane.queue, lane.route, lane.tenant, lane.priority, 'SUCCEEDED', :now, run.crashes,
    unhex(success.value ->> 1)
FROM json_each(:ends) AS success
CROSS JOIN run
    ON run.id = CAST(success.key AS INTEGER) AND run.token = 1 AND run.state = 'RUNNING'
    AND run.session_id = success.value ->> 0
CROSS JOIN lane ON lane.id = run.lane_id
RETURNING id;

-- name: bury_run
INSERT INTO dead_run (
    {kept_columns}, queue, route, tenant, priority, state, reason, finished_at, crashes, error, result, output
)
SELECT
    {run.kept_columns}, lane.queue, lane.route, lane.tenant, lane.priority, 'FAILED', :reason, :now,
    coalesce(:crashes, run.crashes), :error, :result, :output
FROM run CROSS JOIN lane ON lane.id = run.lane_id
WHERE run.id = :run_id;

-- name: remove_runs
DELETE FROM run WHERE id IN (SELECT value FROM json_each(:run_ids));

-- name: requeue_run
UPDATE run SET
    state = :state, ready_at = :ready_at, token = :token, attempt = :attempt, crashes = :crashes, quarantined_crashes = :quarantined_crashes,
    is_quarantined = 0, session_id = NULL, claim_number = NULL, deadline_at = NULL
WHERE id = :run_id;

-- name: read_end
-- What is known of a run that a report could not end: its state, and the outcome that was kept under the token.
SELECT
    (SELECT any_run.state FROM any_run WHERE any_run.id = :run_id) AS state,
    (SELECT any_run.token FROM any_run WHERE any_run.id = :run_id) AS token,
    (SELECT attempt.outcome FROM attempt WHERE attempt.run_id = :run_id AND attempt.token = :token) AS outcome;

-- name: request_cancel
UPDATE run SET cancel_requested_at = :now, cancel_reason = :reason
WHERE id = :run_id AND cancel_requested_at IS NULL;

-- name: find_expired
SELECT id FROM run INDEXED BY run_expiring
WHERE expires_at <= :now AND state IN ('PENDING', 'RETRYING')
ORDER BY expires_at
LIMIT :limit;

-- name: list_orphans
-- From the sessions that are over, which are few; prune_sessions keeps those that hold any run.
SELECT
    {run.held_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested
FROM session
CROSS JOIN run INDEXED BY run_held ON run.session_id = session.id
WHERE run.state = 'RUNNING' AND session.state <> 'live'
LIMIT :limit;

-- name: list_overdue
SELECT
    {run.held_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested
FROM run INDEXED BY run_held
WHERE run.state = 'RUNNING' AND run.deadline_at <= :now
LIMIT :limit;

-- name: read_held
SELECT
    {run.held_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested
FROM json_each(:run_ids) AS wanted
CROSS JOIN run ON run.id = wanted.value
WHERE run.state = 'RUNNING';

-- name: held_by_session
SELECT run.id, run.token, run.claim_number, run.cancel_requested_at IS NOT NULL
FROM run INDEXED BY run_held
WHERE run.state = 'RUNNING' AND run.session_id = :session_id AND run.claim_number >= :held_from;

-- name: get_runs
SELECT any_run.* FROM json_each(:run_ids) AS wanted CROSS JOIN any_run ON any_run.id = wanted.value;

-- name: list_runs
SELECT * FROM any_run
WHERE tenant = :tenant AND id < :before AND (:state IS NULL OR state = :state)
ORDER BY id DESC
LIMIT :limit;

-- name: list_runs_of_job
SELECT * FROM any_run
WHERE job_id = :job_id AND tenant = :tenant AND id < :before AND (:state IS NULL OR state = :state)
ORDER BY id DESC
LIMIT :limit;

-- name: newest_run
SELECT * FROM any_run
WHERE job_id = :job_id AND (due_at <= :now OR started_at IS NOT NULL)
ORDER BY id DESC
LIMIT 1;

-- name: list_attempts
SELECT run_id, token, number, outcome, worker, started_at, finished_at, error, output
FROM attempt
WHERE run_id = :run_id
ORDER BY token;

-- name: count_runs
SELECT state, count(*) FROM any_run WHERE tenant = :tenant GROUP BY state;
