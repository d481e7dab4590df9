-- The tables of design 3.2. Times are timestamptz, JSON is kept as bytes in UTF-8, durations are milliseconds.

CREATE TABLE tenant (
    id text PRIMARY KEY,
    weight integer NOT NULL DEFAULT 1 CONSTRAINT tenant_weight_positive CHECK (weight > 0)
);
INSERT INTO tenant (id) VALUES ('default');

CREATE TABLE queue (
    name text PRIMARY KEY,
    is_paused boolean NOT NULL DEFAULT false
);
INSERT INTO queue (name) VALUES ('default');

CREATE TABLE job (
    id uuid PRIMARY KEY,
    shard smallint NOT NULL,
    tenant text NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    is_paused boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz
);
CREATE UNIQUE INDEX job_name ON job (tenant, name) WHERE deleted_at IS NULL;
CREATE INDEX job_page ON job (tenant, id) WHERE deleted_at IS NULL;

CREATE TABLE job_version (
    job_id uuid NOT NULL,
    version integer NOT NULL,
    spec bytea NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (job_id, version)
);

-- Narrow on purpose: the planner reads and writes it all day. Gone when the job is deleted.
CREATE TABLE job_clock (
    job_id uuid PRIMARY KEY,
    shard smallint NOT NULL,
    revision bigint NOT NULL,
    next_fire_at timestamptz,
    fired_through timestamptz
) WITH (fillfactor = 80);
CREATE INDEX job_clock_due ON job_clock (next_fire_at) WHERE next_fire_at IS NOT NULL;

-- A row exists while the lane has live runs (and a while longer, until the janitor comes).
CREATE TABLE lane (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue text NOT NULL,
    route text NOT NULL,
    tenant text NOT NULL,
    priority smallint NOT NULL,
    CONSTRAINT lane_key UNIQUE (queue, route, tenant, priority)
);

-- A run's id is a number of this sequence * 256 + its job's shard.
CREATE SEQUENCE run_sequence;

-- Live runs only; finished ones move to run_history or dead_run.
CREATE TABLE run (
    id bigint PRIMARY KEY,
    job_id uuid NOT NULL,
    version integer NOT NULL,
    lane_id bigint NOT NULL,
    kind text NOT NULL,
    state text NOT NULL CONSTRAINT run_state CHECK (state IN ('PENDING', 'BLOCKED', 'RUNNING', 'RETRYING')),
    is_parked boolean NOT NULL DEFAULT false,
    fire_at timestamptz,
    due_at timestamptz NOT NULL,
    rank timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    timeout_ms bigint NOT NULL,
    attempt integer NOT NULL DEFAULT 1,
    token integer NOT NULL DEFAULT 0,
    crashes integer NOT NULL DEFAULT 0,
    alone_crashes integer NOT NULL DEFAULT 0,
    is_alone boolean NOT NULL DEFAULT false,
    session_id bigint,
    claim_number bigint,
    started_at timestamptz,
    deadline_at timestamptz,
    cancel_requested_at timestamptz,
    cancel_reason text,
    concurrency_key text,
    payload bytea,
    target_key text,
    span_id bigint,
    redrive_of bigint,
    CONSTRAINT run_is_held_while_running CHECK ((state = 'RUNNING') = (session_id IS NOT NULL))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX run_ready ON run (lane_id, rank) WHERE state IN ('PENDING', 'RETRYING') AND NOT is_parked AND crashes = 0;
CREATE INDEX run_suspect ON run (lane_id, rank) WHERE state IN ('PENDING', 'RETRYING') AND NOT is_parked AND crashes > 0;
CREATE INDEX run_held ON run (session_id, id) WHERE state = 'RUNNING';
-- Tiny, because run_held, full of the dead entries of a busy session, must not be walked by each of its claims.
CREATE INDEX run_alone ON run (session_id) WHERE state = 'RUNNING' AND is_alone;
CREATE INDEX run_waiting ON run (lane_id) WHERE state = 'BLOCKED' OR is_parked;
-- An expression, so that the index does not offer itself for `id = …`: on a drained table it would look as good as run_pkey.
CREATE INDEX run_job ON run (job_id, (id + 0));
CREATE INDEX run_expiring ON run (expires_at) WHERE expires_at IS NOT NULL AND state IN ('PENDING', 'RETRYING');
-- The second net under law 2; the conditional update of job_clock is the law.
CREATE UNIQUE INDEX run_fire_key ON run (job_id, fire_at) WHERE kind = 'scheduled';
CREATE UNIQUE INDEX run_redrive ON run (redrive_of) WHERE redrive_of IS NOT NULL;

-- What has SUCCEEDED or is CANCELLED or SKIPPED, one partition a day, made ahead by the janitor.
CREATE TABLE run_history (
    id bigint NOT NULL,
    job_id uuid NOT NULL,
    version integer NOT NULL,
    queue text NOT NULL,
    route text NOT NULL,
    tenant text NOT NULL,
    priority smallint NOT NULL,
    kind text NOT NULL,
    state text NOT NULL CONSTRAINT run_history_state CHECK (state IN ('SUCCEEDED', 'CANCELLED', 'SKIPPED')),
    reason text,
    fire_at timestamptz,
    due_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    finished_at timestamptz NOT NULL,
    attempt integer NOT NULL,
    token integer NOT NULL,
    crashes integer NOT NULL,
    session_id bigint,
    error text,
    payload bytea,
    result bytea,
    output text,
    target_key text,
    span_id bigint,
    redrive_of bigint
) PARTITION BY RANGE (finished_at);
CREATE INDEX run_history_id ON run_history (id);
CREATE INDEX run_history_job ON run_history (job_id, id);
CREATE TABLE run_history_default PARTITION OF run_history DEFAULT;

-- The dead letter queue: FAILED runs, until redriven or purged.
CREATE TABLE dead_run (
    id bigint PRIMARY KEY,
    job_id uuid NOT NULL,
    version integer NOT NULL,
    queue text NOT NULL,
    route text NOT NULL,
    tenant text NOT NULL,
    priority smallint NOT NULL,
    kind text NOT NULL,
    state text NOT NULL CONSTRAINT dead_run_state CHECK (state IN ('FAILED')),
    reason text,
    fire_at timestamptz,
    due_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    finished_at timestamptz NOT NULL,
    attempt integer NOT NULL,
    token integer NOT NULL,
    crashes integer NOT NULL,
    session_id bigint,
    error text,
    payload bytea,
    result bytea,
    output text,
    target_key text,
    span_id bigint,
    redrive_of bigint
);
CREATE INDEX dead_run_job ON dead_run (job_id, id);

-- Attempts that did not succeed at the first go; one partition a day.
CREATE TABLE attempt (
    run_id bigint NOT NULL,
    token integer NOT NULL,
    number integer NOT NULL,
    outcome text NOT NULL,
    worker text NOT NULL,
    started_at timestamptz NOT NULL,
    finished_at timestamptz NOT NULL,
    error text,
    output text
) PARTITION BY RANGE (finished_at);
CREATE INDEX attempt_run ON attempt (run_id, token);
CREATE TABLE attempt_default PARTITION OF attempt DEFAULT;

CREATE TABLE span (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id uuid NOT NULL,
    version integer NOT NULL,
    shard smallint NOT NULL,
    kind text NOT NULL CONSTRAINT span_kind CHECK (kind IN ('catch_up', 'backfill', 'gap')),
    from_at timestamptz NOT NULL,
    to_at timestamptz,
    cursor_at timestamptz,
    reason text NOT NULL,
    is_open boolean NOT NULL,
    created_at timestamptz NOT NULL,
    closed_at timestamptz
);
CREATE INDEX span_open ON span (shard, id) WHERE is_open AND kind <> 'gap';
CREATE INDEX span_job ON span (job_id, id);

CREATE TABLE session (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state text NOT NULL DEFAULT 'live' CONSTRAINT session_state CHECK (state IN ('live', 'dead', 'left')),
    worker text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    slots integer NOT NULL,
    queues text[] NOT NULL,
    types text[] NOT NULL,
    functions text[] NOT NULL,
    labels text[] NOT NULL,
    beats bigint NOT NULL DEFAULT 0,
    -- The last request's; none has this number.
    claim_number bigint NOT NULL DEFAULT -1,
    -- Run, token, run, token …: leases that the last heartbeat did not name; named next time, or they are released.
    missing bigint[] NOT NULL DEFAULT '{}',
    started_at timestamptz NOT NULL,
    last_beat_at timestamptz NOT NULL,
    ended_at timestamptz
) WITH (fillfactor = 50);
CREATE INDEX session_live ON session (id) WHERE state = 'live';

CREATE TABLE node (
    id text PRIMARY KEY,
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    tzdata text NOT NULL,
    beats bigint NOT NULL DEFAULT 0,
    started_at timestamptz NOT NULL,
    last_beat_at timestamptz NOT NULL
);

CREATE TABLE shard_lease (
    shard smallint PRIMARY KEY,
    epoch bigint NOT NULL DEFAULT 0,
    node_id text
);
INSERT INTO shard_lease (shard) SELECT generate_series(0, 255);

CREATE TABLE idempotency (
    tenant text NOT NULL,
    key text NOT NULL,
    run_id bigint NOT NULL,
    request_hash bytea NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX idempotency_expiring ON idempotency (expires_at);

-- What inspection shows of a run, wherever it is: live_run and ended_run have the same columns.
CREATE VIEW live_run AS
SELECT
    run.id, run.job_id, run.version, lane.queue, lane.route, lane.tenant, lane.priority, run.kind, run.state,
    run.cancel_reason AS reason, run.fire_at, run.due_at, run.rank, run.created_at, run.started_at,
    NULL::timestamptz AS finished_at, run.attempt, run.token, run.crashes, run.session_id,
    run.cancel_requested_at IS NOT NULL AS is_cancel_requested, NULL::text AS error, run.payload,
    NULL::bytea AS result, NULL::text AS output, run.target_key, run.span_id, run.redrive_of
FROM run JOIN lane ON lane.id = run.lane_id;

CREATE VIEW ended_run AS
SELECT
    id, job_id, version, queue, route, tenant, priority, kind, state, reason, fire_at, due_at, due_at AS rank,
    created_at, started_at, finished_at, attempt, token, crashes, session_id, false AS is_cancel_requested, error,
    payload, result, output, target_key, span_id, redrive_of
FROM run_history
UNION ALL
SELECT
    id, job_id, version, queue, route, tenant, priority, kind, state, reason, fire_at, due_at, due_at AS rank,
    created_at, started_at, finished_at, attempt, token, crashes, session_id, false AS is_cancel_requested, error,
    payload, result, output, target_key, span_id, redrive_of
FROM dead_run;

-- Every run, live or finished, in one shape; pages are read from the two parts, each along its index.
CREATE VIEW any_run AS SELECT * FROM live_run UNION ALL SELECT * FROM ended_run;

-- Makes the partitions of the day of `instant` (UTC) and of some days after it. Several nodes may call it at once.
-- A day of which the default partition holds rows already keeps them there.
CREATE FUNCTION prepare_history(instant timestamptz, days integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    parent text;
    first timestamptz;
    partition_name text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('mainspring.history', 0));
    -- Attaching waits for whoever reads the default partition, and others would queue up behind it: give up early.
    PERFORM set_config('lock_timeout', '1s', true);
    FOREACH parent IN ARRAY ARRAY['run_history', 'attempt'] LOOP
        FOR day IN 0..days LOOP
            first := (date_trunc('day', instant AT TIME ZONE 'UTC') + make_interval(days => day)) AT TIME ZONE 'UTC';
            partition_name := parent || to_char(first AT TIME ZONE 'UTC', '"_"YYYYMMDD');
            CONTINUE WHEN to_regclass(quote_ident(partition_name)) IS NOT NULL;
            BEGIN
                EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', partition_name,
                    parent);
                EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent,
                    partition_name, first, first + interval '1 day');
            EXCEPTION WHEN check_violation OR lock_not_available OR deadlock_detected THEN
                NULL; -- the default partition takes the rows; the next call tries again
            END;
        END LOOP;
    END LOOP;
END
$$;

-- Drops the partitions that end at `instant` or before it; answers how many rows went. Attempts of dead and of live runs
-- stay, in the default partition.
CREATE FUNCTION drop_history(instant timestamptz) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    old record;
    held bigint;
    kept bigint;
    removed bigint := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('mainspring.history', 0));
    PERFORM set_config('lock_timeout', '1s', true);
    FOR old IN
        SELECT child.relname AS name, parent.relname AS parent
        FROM pg_inherits
        JOIN pg_class AS child ON child.oid = pg_inherits.inhrelid
        JOIN pg_class AS parent ON parent.oid = pg_inherits.inhparent
        WHERE parent.oid IN ('run_history'::regclass, 'attempt'::regclass)
          AND child.relname ~ '_[0-9]{8}$'
          AND (to_date(right(child.relname, 8), 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC' <= instant
        ORDER BY parent.relname, child.relname
    LOOP
        BEGIN
            kept := 0;
            EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', old.parent, old.name);
            IF old.parent = 'attempt' THEN
                EXECUTE format(
                    'INSERT INTO attempt SELECT * FROM %I AS old WHERE EXISTS (SELECT FROM dead_run WHERE id = old.run_id)'
                    ' OR EXISTS (SELECT FROM run WHERE id = old.run_id)', old.name);
                GET DIAGNOSTICS kept = ROW_COUNT;
            END IF;
            EXECUTE format('SELECT count(*) FROM %I', old.name) INTO held;
            EXECUTE format('DROP TABLE %I', old.name);
            removed := removed + held - kept;
        EXCEPTION WHEN lock_not_available OR deadlock_detected OR undefined_table THEN
            NULL; -- somebody reads it; the next call tries again
        END;
    END LOOP;
    RETURN removed;
END
$$;
