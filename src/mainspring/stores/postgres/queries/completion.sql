-- The ends of attempts. `runs.sql` describes the traps of the hot path. Whatever ends a run of a step tells its flow.

-- name: apply_successes
-- The end of nearly every run: a success at the first claim, whose token is always the same. Names each run once.
WITH ended AS (
    DELETE FROM run
    WHERE run.id = ANY(:run_ids::bigint[]) AND run.token = :token
      AND run.session_id = (:session_ids::bigint[])[width_bucket(run.id, :run_ids::bigint[])]
    RETURNING {run.kept_columns}, run.lane_id, run.crashes, width_bucket(run.id, :run_ids::bigint[]) AS position
), told AS (
    INSERT INTO mail (shard, flow_id, step, item, what)
    SELECT ended.flow_id & 255, ended.flow_id, ended.step, ended.item, 'SUCCEEDED' FROM ended WHERE ended.flow_id > 0
)
INSERT INTO run_history (
    {kept_columns}, queue, route, tenant, priority, state, finished_at, crashes, result, output
)
SELECT
    {ended.kept_columns}, lane.queue, lane.route, lane.tenant, lane.priority, 'SUCCEEDED', :now, ended.crashes,
    (:results::bytea[])[ended.position], (:outputs::text[])[ended.position]
FROM ended CROSS JOIN LATERAL (SELECT * FROM lane WHERE lane.id = ended.lane_id LIMIT 1) AS lane;

-- name: lock_runs
-- Live runs in the order of the (sorted) ids. It waits for other lockers.
SELECT
    {run.live_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested
FROM unnest(:run_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM run WHERE run.id = wanted.id FOR UPDATE) AS run;

-- name: finish_runs
-- Moves locked runs to the history.
WITH ended AS (
    DELETE FROM run WHERE run.id = ANY(:run_ids::bigint[])
    RETURNING run.*, width_bucket(run.id, :run_ids::bigint[]) AS position
), told AS (
    INSERT INTO mail (shard, flow_id, step, item, what)
    SELECT ended.flow_id & 255, ended.flow_id, ended.step, ended.item, (:states::text[])[ended.position]
    FROM ended WHERE ended.flow_id > 0
)
INSERT INTO run_history (
    {kept_columns}, queue, route, tenant, priority, state, reason, finished_at, crashes, error, result, output, flow_state
)
SELECT
    {ended.kept_columns}, lane.queue, lane.route, lane.tenant, lane.priority, (:states::text[])[ended.position],
    (:reasons::text[])[ended.position], :now, coalesce((:crashes::integer[])[ended.position], ended.crashes),
    (:errors::text[])[ended.position], (:results::bytea[])[ended.position], (:outputs::text[])[ended.position],
    coalesce((:flow_states::bytea[])[ended.position], ended.flow_seed)
FROM ended CROSS JOIN LATERAL (SELECT * FROM lane WHERE lane.id = ended.lane_id LIMIT 1) AS lane;

-- name: bury_runs
-- Moves locked runs to the dead letter queue. A step's run is settled: what may run again is its workflow.
WITH ended AS (
    DELETE FROM run WHERE run.id = ANY(:run_ids::bigint[])
    RETURNING run.*, width_bucket(run.id, :run_ids::bigint[]) AS position
), told AS (
    INSERT INTO mail (shard, flow_id, step, item, what)
    SELECT ended.flow_id & 255, ended.flow_id, ended.step, ended.item, 'FAILED' FROM ended WHERE ended.flow_id > 0
)
INSERT INTO dead_run (
    {kept_columns}, queue, route, tenant, priority, state, reason, finished_at, crashes, error, result, output,
    error_group, is_unnoticed, flow_state, settled_at, settlement, settle_reason
)
SELECT
    {ended.kept_columns}, lane.queue, lane.route, lane.tenant, lane.priority, 'FAILED',
    (:reasons::text[])[ended.position], :now, coalesce((:crashes::integer[])[ended.position], ended.crashes),
    (:errors::text[])[ended.position], (:results::bytea[])[ended.position], (:outputs::text[])[ended.position],
    (:error_groups::text[])[ended.position],
    CASE WHEN EXISTS (SELECT FROM job_notify WHERE job_notify.job_id = ended.job_id) THEN true END,
    coalesce((:flow_states::bytea[])[ended.position], ended.flow_seed), CASE WHEN ended.flow_id > 0 THEN :now::timestamptz END,
    CASE WHEN ended.flow_id > 0 THEN 'discarded' END, CASE WHEN ended.flow_id > 0 THEN 'step' END
FROM ended CROSS JOIN LATERAL (SELECT * FROM lane WHERE lane.id = ended.lane_id LIMIT 1) AS lane;

-- name: requeue_runs
-- Makes locked runs wait again.
UPDATE run SET
    state = (:states::text[])[width_bucket(run.id, :run_ids::bigint[])],
    ready_at = (:readies_at::timestamptz[])[width_bucket(run.id, :run_ids::bigint[])],
    token = (:tokens::integer[])[width_bucket(run.id, :run_ids::bigint[])],
    attempt = (:attempts::integer[])[width_bucket(run.id, :run_ids::bigint[])],
    crashes = (:crashes::integer[])[width_bucket(run.id, :run_ids::bigint[])],
    quarantined_crashes = (:quarantined_crashes::integer[])[width_bucket(run.id, :run_ids::bigint[])],
    is_quarantined = false, session_id = NULL, claim_number = NULL, deadline_at = NULL
WHERE run.id = ANY(:run_ids::bigint[]);

-- name: add_attempts
INSERT INTO attempt (run_id, token, number, outcome, worker, host, started_at, finished_at, error, output)
SELECT run_id, token, number, outcome, worker, host, started_at, :now, error, output
FROM unnest(
    :run_ids::bigint[], :tokens::integer[], :numbers::integer[], :outcomes::text[], :workers::text[],
    :hosts::text[], :starts_at::timestamptz[], :errors::text[], :outputs::text[]
) AS new (run_id, token, number, outcome, worker, host, started_at, error, output);

-- name: read_ends
-- What is known about runs that a report could not end: their state, and the outcome recorded under the report's
-- token.
SELECT report.position, found.state, found.token, kept.outcome
FROM unnest(:run_ids::bigint[], :tokens::integer[]) WITH ORDINALITY AS report (run_id, token, position)
CROSS JOIN LATERAL (
    SELECT state, token FROM run WHERE run.id = report.run_id
    UNION ALL
    SELECT state, token FROM dead_run WHERE dead_run.id = report.run_id
    UNION ALL
    SELECT state, token FROM run_history WHERE run_history.id = report.run_id
    LIMIT 1
) AS found
LEFT JOIN LATERAL (
    SELECT outcome FROM attempt WHERE attempt.run_id = report.run_id AND attempt.token = report.token
    UNION ALL
    SELECT outcome FROM kept_attempt
    WHERE kept_attempt.run_id = report.run_id AND kept_attempt.token = report.token
    LIMIT 1
) AS kept ON true;
