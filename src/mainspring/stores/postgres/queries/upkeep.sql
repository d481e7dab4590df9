-- The janitor's verbs, and the store's clock.

-- name: read_time
SELECT clock_timestamp() AS now;

-- name: prepare_history
SELECT prepare_history(:now::timestamptz, 3);

-- name: drop_history
SELECT drop_history(:before::timestamptz) AS removed;

-- name: prune_history
-- Removes runs outside the partitions of days, and takes them off the tally.
WITH gone AS (
    DELETE FROM run_history_default WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM run_history_default WHERE finished_at < :before LIMIT :limit FOR UPDATE SKIP LOCKED
    ))
    RETURNING tenant, (finished_at AT TIME ZONE 'UTC')::date AS day, state, finished_at
), unsettled AS (
    UPDATE run_tally SET runs = run_tally.runs - counted.runs
    FROM (
        SELECT tenant, day, state, count(*) AS runs FROM gone
        WHERE finished_at < :settled_before::timestamptz GROUP BY tenant, day, state
    ) AS counted
    WHERE run_tally.tenant = counted.tenant AND run_tally.day = counted.day AND run_tally.state = counted.state
)
SELECT count(*) AS removed FROM gone;

-- name: prune_attempts
-- Attempts of dead and of live runs stay.
DELETE FROM attempt_default WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM attempt_default
    WHERE finished_at < :before
      AND NOT EXISTS (SELECT FROM dead_run WHERE dead_run.id = attempt_default.run_id)
      AND NOT EXISTS (SELECT FROM run WHERE run.id = attempt_default.run_id)
    LIMIT :limit FOR UPDATE SKIP LOCKED
));

-- name: prune_fire_ranges
DELETE FROM fire_range WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM fire_range WHERE NOT is_open AND closed_at < :before LIMIT :limit FOR UPDATE SKIP LOCKED
));

-- name: prune_keys
DELETE FROM idempotency WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM idempotency WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit FOR UPDATE SKIP LOCKED
));

-- name: prune_sessions
DELETE FROM session WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM session
    WHERE state <> 'live' AND ended_at < :before
      AND NOT EXISTS (SELECT FROM run WHERE run.session_id = session.id AND run.state = 'RUNNING')
    LIMIT :limit FOR UPDATE SKIP LOCKED
))
RETURNING id, worker, host, ended_at;

-- name: add_past_sessions
INSERT INTO past_session (id, worker, host, ended_at)
SELECT id, worker, host, ended_at
FROM unnest(:session_ids::bigint[], :workers::text[], :hosts::text[], :ends_at::timestamptz[])
    AS gone (id, worker, host, ended_at);

-- name: prune_workers
DELETE FROM past_session WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM past_session WHERE ended_at < :before LIMIT :limit FOR UPDATE SKIP LOCKED
));

-- name: lock_empty_lanes
-- Only candidates: this may not see a submit that has just committed, so delete_empty_lanes checks again.
SELECT lane.id FROM lane
WHERE NOT EXISTS (
    SELECT FROM run WHERE run.lane_id = lane.id AND {is_ready}
      AND run.crashes = 0
) AND NOT EXISTS (
    SELECT FROM run WHERE run.lane_id = lane.id AND {is_waiting}
      AND run.crashes > 0
)
AND lane.id NOT IN (SELECT run.lane_id FROM run WHERE run.state = 'RUNNING')
AND NOT EXISTS (SELECT FROM run WHERE run.lane_id = lane.id AND (run.state = 'BLOCKED' OR run.is_parked))
LIMIT :limit FOR UPDATE SKIP LOCKED;

-- name: delete_empty_lanes
DELETE FROM lane
WHERE lane.id = ANY(:lane_ids::bigint[])
  AND NOT EXISTS (
    SELECT FROM run WHERE run.lane_id = lane.id AND {is_ready}
      AND run.crashes = 0
) AND NOT EXISTS (
    SELECT FROM run WHERE run.lane_id = lane.id AND {is_waiting}
      AND run.crashes > 0
)
AND lane.id NOT IN (SELECT run.lane_id FROM run WHERE run.state = 'RUNNING')
AND NOT EXISTS (SELECT FROM run WHERE run.lane_id = lane.id AND (run.state = 'BLOCKED' OR run.is_parked));
