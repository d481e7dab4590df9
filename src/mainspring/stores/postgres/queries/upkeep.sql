-- The janitor's verbs, and the store's clock.

-- name: read_time
SELECT clock_timestamp() AS now;

-- name: prepare_history
SELECT prepare_history(:now::timestamptz, 3), prepare_audit(:now::timestamptz, 1);

-- name: list_closed_days
-- The days in the history that ended at an instant or before it.
SELECT kind.relname AS kind, to_date(right(day.relname, 8), 'YYYYMMDD') AS day
FROM pg_inherits
JOIN pg_class AS day ON day.oid = pg_inherits.inhrelid
JOIN pg_class AS kind ON kind.oid = pg_inherits.inhparent
WHERE kind.oid IN ('run_history'::regclass, 'attempt'::regclass)
  AND day.relname ~ '_[0-9]{8}$'
  AND (to_date(right(day.relname, 8), 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC' <= :before::timestamptz
ORDER BY 2, 1 DESC;

-- name: list_detached_days
-- What was taken out of the history, and still has to be dropped.
SELECT relname AS name FROM pg_class
WHERE relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'run_history'::regclass)
  AND relkind = 'r' AND relname ~ '^dropped_(run_history|attempt)_[0-9]{8}$';

-- name: keep_attempts_of_day
SELECT run_id, token FROM keep_attempts(:day::date, :run_id::bigint, :token::integer, :limit::integer);

-- name: detach_day
SELECT detach_day(:kind::text, :day::date) AS is_detached;

-- name: drop_day
SELECT drop_day(:name::text) AS removed;

-- name: prune_history
-- Removes runs outside the partitions of days, and takes them off the tally.
WITH gone AS (
    DELETE FROM run_history_default WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM run_history_default
        WHERE finished_at < :before
          AND ((SELECT archive_url IS NULL FROM cluster) OR (finished_at AT TIME ZONE 'UTC')::date IN (
              SELECT archive_part.day FROM archive_part WHERE archive_part.state = 'VERIFIED'
          ))
        LIMIT :limit FOR UPDATE SKIP LOCKED
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
-- Removes attempts outside the partitions of days. Those of dead and of live runs are kept elsewhere.
WITH gone AS (
    DELETE FROM attempt_default WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM attempt_default
        WHERE finished_at < :before
          AND ((SELECT archive_url IS NULL FROM cluster) OR (finished_at AT TIME ZONE 'UTC')::date IN (
              SELECT archive_part.day FROM archive_part WHERE archive_part.state = 'VERIFIED'
          ))
        LIMIT :limit FOR UPDATE SKIP LOCKED
    ))
    RETURNING run_id, token, number, outcome, worker, host, started_at, finished_at, error, output
), kept AS (
    INSERT INTO kept_attempt (
        run_id, token, number, outcome, worker, host, started_at, finished_at, error, output, is_of_live
    )
    SELECT
        gone.run_id, token, number, outcome, worker, host, started_at, finished_at, error, output, found.is_live
    FROM gone
    CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM run WHERE run.id = gone.run_id) AS is_live) AS found
    WHERE found.is_live OR EXISTS (SELECT FROM dead_run WHERE dead_run.id = gone.run_id)
    ON CONFLICT DO NOTHING
)
SELECT count(*) AS removed FROM gone;

-- name: prune_kept_attempts
-- Removes attempts of runs that were live when they were kept, and have ended well since.
DELETE FROM kept_attempt WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM kept_attempt
    WHERE is_of_live
      AND NOT EXISTS (SELECT FROM run WHERE run.id = kept_attempt.run_id)
      AND NOT EXISTS (SELECT FROM dead_run WHERE dead_run.id = kept_attempt.run_id)
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
