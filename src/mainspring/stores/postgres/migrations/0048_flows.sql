-- compatible_from: 0007
-- Flows: runs of workflows that the engine holds, and the runs of their steps. A run of a step names its workflow's run; for
-- all others the columns are null.

-- No server makes the next day meanwhile: it would lack the columns.
SELECT pg_advisory_xact_lock(hashtextextended('mainspring.history', 0));
ALTER TABLE run ADD COLUMN flow_id bigint, ADD COLUMN step smallint, ADD COLUMN item integer;
-- How far a workflow's run had come when it ended.
ALTER TABLE run_history
    ADD COLUMN flow_id bigint, ADD COLUMN step smallint, ADD COLUMN item integer, ADD COLUMN flow_state bytea;
ALTER TABLE dead_run
    ADD COLUMN flow_id bigint, ADD COLUMN step smallint, ADD COLUMN item integer, ADD COLUMN flow_state bytea;

-- The item is -1 where a step runs once.
CREATE UNIQUE INDEX run_flow ON run (flow_id, step, item) WHERE flow_id > 0;
CREATE INDEX run_history_flow ON run_history (flow_id, id) WHERE flow_id > 0;
CREATE INDEX dead_run_flow ON dead_run (flow_id, id) WHERE flow_id > 0;

CREATE OR REPLACE VIEW live_run AS
SELECT
    run.id, run.job_id, run.version, lane.queue, lane.route, lane.tenant, lane.priority, run.kind, run.state,
    run.cancel_reason AS reason, run.fire_at, run.due_at, run.ready_at, run.created_at, run.started_at,
    NULL::timestamptz AS finished_at, run.attempt, run.token, run.crashes, run.session_id,
    run.cancel_requested_at IS NOT NULL AS is_cancel_requested, NULL::text AS error, run.payload,
    NULL::bytea AS result, NULL::text AS output, run.target_key, run.fire_range_id, run.redrive_of, run.trace, run.flow_id,
    run.step, run.item
FROM run JOIN lane ON lane.id = run.lane_id;

CREATE OR REPLACE VIEW ended_run AS
SELECT
    id, job_id, version, queue, route, tenant, priority, kind, state, reason, fire_at, due_at, due_at AS ready_at,
    created_at, started_at, finished_at, attempt, token, crashes, session_id, false AS is_cancel_requested, error,
    payload, result, output, target_key, fire_range_id, redrive_of, trace, flow_id, step, item
FROM run_history
UNION ALL
SELECT
    id, job_id, version, queue, route, tenant, priority, kind, state, reason, fire_at, due_at, due_at AS ready_at,
    created_at, started_at, finished_at, attempt, token, crashes, session_id, false AS is_cancel_requested, error,
    payload, result, output, target_key, fire_range_id, redrive_of, trace, flow_id, step, item
FROM dead_run;

CREATE OR REPLACE VIEW any_run AS SELECT * FROM live_run UNION ALL SELECT * FROM ended_run;

CREATE TABLE flow (
    id bigint NOT NULL,                      -- the workflow's run
    revision bigint NOT NULL DEFAULT 0,      -- one more with each turn
    live integer NOT NULL,                   -- as many of its runs have not ended, as the state has it
    state bytea NOT NULL,
    CONSTRAINT flow_pkey PRIMARY KEY (id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE mail (
    shard smallint NOT NULL,
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    flow_id bigint NOT NULL,
    step smallint,                           -- null: it is about the flow as a whole
    item integer,
    what text NOT NULL,                      -- the final state of the step's run, or a notice
    CONSTRAINT mail_pkey PRIMARY KEY (shard, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Who may end runs in transactions of their own writes mail, too.
DO $$
DECLARE
    grantee regrole;
BEGIN
    FOR grantee IN
        SELECT DISTINCT acl.grantee::regrole FROM pg_class, aclexplode(pg_class.relacl) AS acl
        WHERE pg_class.oid = 'run'::regclass AND acl.privilege_type = 'DELETE' AND acl.grantee <> 0
          AND acl.grantee <> pg_class.relowner
    LOOP
        EXECUTE format('GRANT INSERT ON mail TO %s', grantee);
    END LOOP;
END $$;
