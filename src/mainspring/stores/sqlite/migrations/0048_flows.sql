-- compatible_from: 0007
-- Flows: runs of workflows that the engine holds, and the runs of their steps. A run of a step names its workflow's run; for
-- all others the columns are null.

ALTER TABLE run ADD COLUMN flow_id INTEGER;
ALTER TABLE run ADD COLUMN step INTEGER;
ALTER TABLE run ADD COLUMN item INTEGER;
ALTER TABLE run_history ADD COLUMN flow_id INTEGER;
ALTER TABLE run_history ADD COLUMN step INTEGER;
ALTER TABLE run_history ADD COLUMN item INTEGER;
ALTER TABLE run_history ADD COLUMN flow_state BLOB;
ALTER TABLE dead_run ADD COLUMN flow_id INTEGER;
ALTER TABLE dead_run ADD COLUMN step INTEGER;
ALTER TABLE dead_run ADD COLUMN item INTEGER;
ALTER TABLE dead_run ADD COLUMN flow_state BLOB;

-- The item is -1 where a step runs once.
CREATE UNIQUE INDEX run_flow ON run (flow_id, step, item) WHERE flow_id > 0;
CREATE INDEX run_history_flow ON run_history (flow_id, id) WHERE flow_id > 0;
CREATE INDEX dead_run_flow ON dead_run (flow_id, id) WHERE flow_id > 0;

DROP VIEW any_run;
CREATE VIEW any_run AS
SELECT
    run.id, run.job_id, run.version, lane.queue, lane.route, lane.tenant, lane.priority, run.kind, run.state,
    run.cancel_reason AS reason, run.fire_at, run.due_at, run.ready_at, run.created_at, run.started_at,
    CAST(NULL AS INTEGER) AS finished_at, run.attempt, run.token, run.crashes, run.session_id,
    CAST(run.cancel_requested_at IS NOT NULL AS INTEGER) AS is_cancel_requested, CAST(NULL AS TEXT) AS error, run.payload,
    CAST(NULL AS BLOB) AS result, CAST(NULL AS TEXT) AS output, run.target_key, run.fire_range_id, run.redrive_of,
    run.trace, run.flow_id, run.step, run.item
FROM run
JOIN lane ON lane.id = run.lane_id
UNION ALL
SELECT
    id, job_id, version, queue, route, tenant, priority, kind, state, reason, fire_at, due_at, due_at, created_at,
    started_at, finished_at, attempt, token, crashes, session_id, CAST(FALSE AS INTEGER), error, payload, result, output,
    target_key, fire_range_id, redrive_of, trace, flow_id, step, item
FROM run_history
UNION ALL
SELECT
    id, job_id, version, queue, route, tenant, priority, kind, state, reason, fire_at, due_at, due_at, created_at,
    started_at, finished_at, attempt, token, crashes, session_id, CAST(FALSE AS INTEGER), error, payload, result, output,
    target_key, fire_range_id, redrive_of, trace, flow_id, step, item
FROM dead_run;

CREATE TABLE flow (
    -- The workflow's run.
    id INTEGER PRIMARY KEY,
    -- One more with each turn.
    revision INTEGER NOT NULL DEFAULT 0,
    -- As many of its runs have not ended, as the state has it.
    live INTEGER NOT NULL,
    state BLOB NOT NULL
) STRICT;

CREATE TABLE mail (
    -- An id is never used again: AUTOINCREMENT.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    shard INTEGER NOT NULL,
    flow_id INTEGER NOT NULL,
    -- Null: it is about the flow as a whole.
    step INTEGER,
    item INTEGER,
    -- The final state of the step's run, or a notice.
    what TEXT NOT NULL
) STRICT;
CREATE INDEX mail_shard ON mail (shard, id);
