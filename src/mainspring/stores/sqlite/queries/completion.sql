-- The ends of attempts.

-- name: lock_runs
SELECT
    {run.live_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested, run.flow_id
FROM json_each(:run_ids) AS wanted
CROSS JOIN run ON run.id = wanted.value;

-- name: add_attempt
INSERT INTO attempt (run_id, token, number, outcome, worker, host, started_at, finished_at, error, output)
SELECT
    run.id, run.token, run.attempt, :outcome, coalesce(session.worker, ''), session.host, run.started_at, :now, :error,
    :output
FROM run LEFT JOIN session ON session.id = run.session_id
WHERE run.id = :run_id;

-- name: finish_run
INSERT INTO run_history (
    {kept_columns}, queue, route, tenant, priority, state, reason, finished_at, crashes, error, result, output, flow_state
)
SELECT
    {run.kept_columns}, lane.queue, lane.route, lane.tenant, lane.priority, :state, :reason, :now,
    coalesce(:crashes, run.crashes), :error, :result, :output, coalesce(:flow_state, run.flow_seed)
FROM run CROSS JOIN lane ON lane.id = run.lane_id
WHERE run.id = :run_id;

-- name: apply_successes
-- The end of nearly every run: a success at the first attempt (token 1: there is no earlier one). It takes all of
-- them at once. `ends` is an object that maps run id to [session, result in hexadecimal]. Right after it, tell_end tells the
-- flows of those that are runs of steps, and remove_runs deletes the returned rows from `run`.
INSERT INTO run_history ({kept_columns}, queue, route, tenant, priority, state, finished_at, crashes, result)
SELECT
    {run.kept_columns}, lane.queue, lane.route, lane.tenant, lane.priority, 'SUCCEEDED', :now, run.crashes,
    unhex(success.value ->> 1)
FROM json_each(:ends) AS success
CROSS JOIN run
    ON run.id = CAST(success.key AS INTEGER) AND run.token = 1 AND run.state = 'RUNNING'
    AND run.session_id = success.value ->> 0
CROSS JOIN lane ON lane.id = run.lane_id
RETURNING id, flow_id;

-- name: bury_run
-- A step's run is settled: what may run again is its workflow.
INSERT INTO dead_run (
    {kept_columns}, queue, route, tenant, priority, state, reason, finished_at, crashes, error, result, output,
    error_group, is_unnoticed, flow_state, settled_at, settlement, settle_reason
)
SELECT
    {run.kept_columns}, lane.queue, lane.route, lane.tenant, lane.priority, 'FAILED', :reason, :now,
    coalesce(:crashes, run.crashes), :error, :result, :output, :error_group,
    CASE WHEN EXISTS (SELECT 1 FROM job_notify WHERE job_notify.job_id = run.job_id) THEN 1 END,
    coalesce(:flow_state, run.flow_seed), iif(run.flow_id > 0, :now, NULL), iif(run.flow_id > 0, 'discarded', NULL),
    iif(run.flow_id > 0, 'step', NULL)
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
-- What is known about a run that a report could not end: its state, and the outcome recorded under the token.
SELECT
    (SELECT any_run.state FROM any_run WHERE any_run.id = :run_id) AS state,
    (SELECT any_run.token FROM any_run WHERE any_run.id = :run_id) AS token,
    coalesce(
        (SELECT attempt.outcome FROM attempt WHERE attempt.run_id = :run_id AND attempt.token = :token),
        (SELECT kept_attempt.outcome FROM kept_attempt WHERE kept_attempt.run_id = :run_id AND kept_attempt.token = :token)
    ) AS outcome;
