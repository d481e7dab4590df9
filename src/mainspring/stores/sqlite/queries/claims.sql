-- Claims, and the facts about the leases that they give.

-- name: read_lanes
-- Lower bounds are for PostgreSQL: here, indexes have no dead entries.
SELECT {lane_with_heads}
FROM lane
WHERE lane.id > :after AND (:is_all OR lane.queue IN (SELECT value FROM json_each(:queues)))
ORDER BY lane.id LIMIT :limit;

-- name: read_some_lanes
SELECT {lane_with_heads}
FROM json_each(:lanes) AS wanted CROSS JOIN lane ON lane.id = wanted.value;

-- name: read_ready_instants
-- For one lane.
SELECT run.ready_at FROM run INDEXED BY run_ready
WHERE run.lane_id = :lane_id AND {is_ready} AND {is_unexpired} AND run.crashes = 0 AND run.ready_at BETWEEN :low AND :now
ORDER BY run.ready_at LIMIT :limit;

-- name: read_claimer
SELECT claim_number, policy_epoch FROM session WHERE id = :session_id AND state = 'live';

-- name: set_claim_number
UPDATE session SET claim_number = :number WHERE id = :session_id;

-- name: is_holding
SELECT EXISTS (SELECT 1 FROM run INDEXED BY run_held WHERE session_id = :session_id AND state = 'RUNNING');

-- name: is_holding_quarantined
SELECT EXISTS (SELECT 1 FROM run INDEXED BY run_held_quarantined WHERE session_id = :session_id AND state = 'RUNNING' AND is_quarantined);

-- name: find_ready
-- `lanes` is an object of lane and lower bound. The cross joins keep the order: lane after lane, and in each by `ready_at` along the index, until the limit is reached.
SELECT
    {run.claimed_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested, lane.tenant, lane.id AS lane_id
FROM json_each(:lanes) AS wanted
CROSS JOIN lane ON lane.id = CAST(wanted.key AS INTEGER)
CROSS JOIN run INDEXED BY run_ready ON run.lane_id = lane.id
WHERE
    {is_ready} AND {is_unexpired} AND run.crashes = 0 AND run.ready_at BETWEEN wanted.value AND :now
LIMIT :limit;

-- name: claim_runs
UPDATE run SET
    state = 'RUNNING', token = token + 1, session_id = :session_id, claim_number = :number, is_quarantined = 0,
    started_at = :now, deadline_at = :now + timeout_ms * 1000
WHERE id IN (SELECT value FROM json_each(:run_ids));

-- name: submit_claimed
-- insert_run and claim_runs in one: the run never becomes ready. The checks are made before.
INSERT INTO run ({new_columns}, token, session_id, claim_number, started_at, deadline_at)
VALUES (
    :run_id, :job_id, :version, :run_lane, :kind, 'RUNNING', :fire_at, :due_at, max(:due_at, :now), :now, :expiry_at,
    :timeout_ms, :payload, :target_key, :fire_range_id, :trace, 1, :session_id, :number, :now, :now + :timeout_ms * 1000
);

-- name: repeat_claim
SELECT
    {run.claimed_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested, lane.tenant
FROM run INDEXED BY run_held
CROSS JOIN lane ON lane.id = run.lane_id
WHERE run.session_id = :session_id AND run.state = 'RUNNING' AND run.claim_number = :number
ORDER BY run.id;

-- name: list_orphans
-- Starts from the ended sessions, which are few. prune_sessions keeps those that hold any run.
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
ORDER BY run.deadline_at LIMIT :limit;

-- name: read_held
-- What the engine holds (session 0) has no attempt of a worker.
SELECT
    {run.held_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested
FROM json_each(:run_ids) AS wanted
CROSS JOIN run ON run.id = wanted.value
WHERE run.state = 'RUNNING' AND run.session_id > 0;

-- name: held_by_session
-- In the order of RunningLease; the mark says whether it is to give up its slot.
SELECT run.id, run.token, run.claim_number, run.cancel_requested_at IS NOT NULL AS is_cancel_requested, run.preemption
FROM run INDEXED BY run_held
WHERE run.state = 'RUNNING' AND run.session_id = :session_id AND run.claim_number >= :held_from;
