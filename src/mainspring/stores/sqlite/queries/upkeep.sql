-- The janitor's statements. Each removes a bounded batch.

-- name: prune_history
-- Returns the runs that the tally counts, and the others without a day.
DELETE FROM run_history WHERE rowid IN (
    SELECT rowid FROM run_history INDEXED BY run_history_finished WHERE finished_at < :before LIMIT :limit
)
RETURNING tenant, state, iif(finished_at < (SELECT settled_before FROM census), {day_of_end}, NULL) AS day;

-- name: keep_attempts
-- Of the attempts that prune_attempts removes next, keeps those of dead and of live runs elsewhere.
INSERT INTO kept_attempt (
    run_id, token, number, outcome, worker, host, started_at, finished_at, error, output, is_of_live
)
SELECT
    run_id, token, number, outcome, worker, host, started_at, finished_at, error, output,
    EXISTS (SELECT 1 FROM run WHERE run.id = old.run_id)
FROM (
    SELECT * FROM attempt INDEXED BY attempt_finished
    WHERE finished_at < :before ORDER BY finished_at, rowid LIMIT :limit
) AS old
WHERE
    EXISTS (SELECT 1 FROM run WHERE run.id = old.run_id)
    OR EXISTS (SELECT 1 FROM dead_run WHERE dead_run.id = old.run_id)
ON CONFLICT DO NOTHING;

-- name: prune_attempts
DELETE FROM attempt WHERE rowid IN (
    SELECT rowid FROM attempt INDEXED BY attempt_finished
    WHERE finished_at < :before ORDER BY finished_at, rowid LIMIT :limit
);

-- name: prune_kept_attempts
-- Removes attempts of runs that were live when they were kept, and have ended well since.
DELETE FROM kept_attempt WHERE (run_id, token) IN (
    SELECT run_id, token FROM kept_attempt INDEXED BY kept_attempt_live
    WHERE
        is_of_live
        AND NOT EXISTS (SELECT 1 FROM run WHERE run.id = kept_attempt.run_id)
        AND NOT EXISTS (SELECT 1 FROM dead_run WHERE dead_run.id = kept_attempt.run_id)
    LIMIT :limit
);

-- name: prune_fire_ranges
DELETE FROM fire_range WHERE id IN (SELECT id FROM fire_range WHERE NOT is_open AND closed_at < :before LIMIT :limit);

-- name: prune_keys
DELETE FROM idempotency WHERE rowid IN (
    SELECT rowid FROM idempotency INDEXED BY idempotency_expiring WHERE expires_at <= :now LIMIT :limit
);

-- name: prune_sessions
DELETE FROM session WHERE id IN (
    SELECT session.id FROM session
    WHERE
        session.state <> 'live' AND session.ended_at < :before
        AND NOT EXISTS (SELECT 1 FROM run WHERE run.session_id = session.id AND run.state = 'RUNNING')
    LIMIT :limit
)
RETURNING id, worker, host, ended_at;

-- name: add_past_session
INSERT INTO past_session (id, worker, host, ended_at) VALUES (:session_id, :worker, :host, :end_at);

-- name: prune_workers
DELETE FROM past_session WHERE id IN (
    SELECT id FROM past_session INDEXED BY past_session_ended WHERE ended_at < :before LIMIT :limit
);

-- name: delete_empty_lanes
DELETE FROM lane WHERE id IN (
    SELECT lane.id FROM lane
    WHERE
        NOT EXISTS (
            SELECT 1 FROM run INDEXED BY run_ready
            WHERE run.lane_id = lane.id AND {is_ready} AND run.crashes = 0
        )
        AND NOT EXISTS (
            SELECT 1 FROM run INDEXED BY run_quarantined
            WHERE run.lane_id = lane.id AND {is_waiting} AND run.crashes > 0
        )
        AND lane.id NOT IN (SELECT run.lane_id FROM run INDEXED BY run_held WHERE run.state = 'RUNNING')
        AND NOT EXISTS (
            SELECT 1 FROM run INDEXED BY run_waiting
            WHERE run.lane_id = lane.id AND (run.state = 'BLOCKED' OR run.is_parked)
        )
    LIMIT :limit
);

-- name: read_time
SELECT CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER);
