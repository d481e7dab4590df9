-- compatible_from: 0007
-- Limits: how many runs of a job or a key may be under way, and how often they may start.

CREATE TABLE limit_rule (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY CONSTRAINT limit_rule_pkey PRIMARY KEY,
    tenant text NOT NULL,
    name text NOT NULL,
    -- The job whose own limit it is.
    job_id uuid,
    max_running integer,
    per_count integer,
    per_ms bigint,
    burst integer,
    -- How long a run counts: while its attempt is under way, or while it is live.
    hold text NOT NULL CONSTRAINT limit_rule_hold CHECK (hold IN ('attempt', 'run')),
    CONSTRAINT limit_rule_name UNIQUE (tenant, name)
);
CREATE INDEX limit_rule_job ON limit_rule (job_id) WHERE job_id IS NOT NULL;

-- Which jobs use a shared limit, by their newest definitions.
CREATE TABLE limit_use (
    tenant text NOT NULL,
    name text NOT NULL,
    job_id uuid NOT NULL,
    CONSTRAINT limit_use_pkey PRIMARY KEY (tenant, name, job_id)
);
CREATE INDEX limit_use_job ON limit_use (job_id);

-- Interned, as lanes are. Whoever gives out places under a key locks its row.
CREATE TABLE concurrency_key (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY CONSTRAINT concurrency_key_pkey PRIMARY KEY,
    rule_id bigint NOT NULL,
    key text NOT NULL,
    -- No place that counts lies before it.
    held_from bigint NOT NULL DEFAULT 0,
    -- The permits at level_at; NULL: as many as fit.
    level double precision,
    level_at timestamptz,
    CONSTRAINT concurrency_key_key UNIQUE (rule_id, key)
) WITH (fillfactor = 50);

-- A place under a key. It counts only as long as its run's row says the same.
CREATE TABLE key_hold (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    key_id bigint NOT NULL,
    run_id bigint NOT NULL,
    token integer NOT NULL,
    CONSTRAINT key_hold_pkey PRIMARY KEY (key_id, id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- A run with keys is parked from its insert to its end: while it waits, it stands in the line of its first key.
ALTER TABLE run ADD key_id bigint, ADD second_key_id bigint, ADD third_key_id bigint;
CREATE INDEX run_line ON run (key_id, lane_id, ready_at)
    WHERE is_parked AND state IN ('PENDING', 'RETRYING') AND crashes = 0;
CREATE INDEX run_second_key ON run (second_key_id) WHERE second_key_id IS NOT NULL;
CREATE INDEX run_third_key ON run (third_key_id) WHERE third_key_id IS NOT NULL;

-- Quarantined runs with keys are found as the others are.
DROP INDEX run_quarantined;
CREATE INDEX run_quarantined ON run (lane_id, ready_at) WHERE state IN ('PENDING', 'RETRYING') AND crashes > 0;
