-- compatible_from: 0007
-- The trace context of runs that are traced: 16 bytes of the trace's id, 8 of the span's to hang on, 1 of flags. It is null
-- for all others, and for what servers of earlier releases submit.

ALTER TABLE run ADD COLUMN trace BLOB;
ALTER TABLE run_history ADD COLUMN trace BLOB;
ALTER TABLE dead_run ADD COLUMN trace BLOB;

DROP VIEW any_run;
CREATE VIEW any_run AS
SELECT
    run.id, run.job_id, run.version, lane.queue, lane.route, lane.tenant, lane.priority, run.kind, run.state,
    run.cancel_reason AS reason, run.fire_at, run.due_at, run.ready_at, run.created_at, run.started_at,
    CAST(NULL AS INTEGER) AS finished_at, run.attempt, run.token, run.crashes, run.session_id,
    CAST(run.cancel_requested_at IS NOT NULL AS INTEGER) AS is_cancel_requested, CAST(NULL AS TEXT) AS error, run.payload,
    CAST(NULL AS BLOB) AS result, CAST(NULL AS TEXT) AS output, run.target_key, run.fire_range_id, run.redrive_of,
    run.trace
FROM run
JOIN lane ON lane.id = run.lane_id
UNION ALL
SELECT
    id, job_id, version, queue, route, tenant, priority, kind, state, reason, fire_at, due_at, due_at, created_at,
    started_at, finished_at, attempt, token, crashes, session_id, CAST(FALSE AS INTEGER), error, payload, result, output,
    target_key, fire_range_id, redrive_of, trace
FROM run_history
UNION ALL
SELECT
    id, job_id, version, queue, route, tenant, priority, kind, state, reason, fire_at, due_at, due_at, created_at,
    started_at, finished_at, attempt, token, crashes, session_id, CAST(FALSE AS INTEGER), error, payload, result, output,
    target_key, fire_range_id, redrive_of, trace
FROM dead_run;
