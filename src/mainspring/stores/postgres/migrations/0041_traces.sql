-- compatible_from: 0007
-- The trace context of runs that are traced: 16 bytes of the trace's id, 8 of the span's to hang on, 1 of flags. It is null
-- for all others, and for what servers of earlier releases submit.

-- No server makes the next day meanwhile: it would lack the column.
SELECT pg_advisory_xact_lock(hashtextextended('mainspring.history', 0));
ALTER TABLE run ADD COLUMN trace bytea;
ALTER TABLE run_history ADD COLUMN trace bytea;
ALTER TABLE dead_run ADD COLUMN trace bytea;

CREATE OR REPLACE VIEW live_run AS
SELECT
    run.id, run.job_id, run.version, lane.queue, lane.route, lane.tenant, lane.priority, run.kind, run.state,
    run.cancel_reason AS reason, run.fire_at, run.due_at, run.ready_at, run.created_at, run.started_at,
    NULL::timestamptz AS finished_at, run.attempt, run.token, run.crashes, run.session_id,
    run.cancel_requested_at IS NOT NULL AS is_cancel_requested, NULL::text AS error, run.payload,
    NULL::bytea AS result, NULL::text AS output, run.target_key, run.fire_range_id, run.redrive_of, run.trace
FROM run JOIN lane ON lane.id = run.lane_id;

CREATE OR REPLACE VIEW ended_run AS
SELECT
    id, job_id, version, queue, route, tenant, priority, kind, state, reason, fire_at, due_at, due_at AS ready_at,
    created_at, started_at, finished_at, attempt, token, crashes, session_id, false AS is_cancel_requested, error,
    payload, result, output, target_key, fire_range_id, redrive_of, trace
FROM run_history
UNION ALL
SELECT
    id, job_id, version, queue, route, tenant, priority, kind, state, reason, fire_at, due_at, due_at AS ready_at,
    created_at, started_at, finished_at, attempt, token, crashes, session_id, false AS is_cancel_requested, error,
    payload, result, output, target_key, fire_range_id, redrive_of, trace
FROM dead_run;

CREATE OR REPLACE VIEW any_run AS SELECT * FROM live_run UNION ALL SELECT * FROM ended_run;
