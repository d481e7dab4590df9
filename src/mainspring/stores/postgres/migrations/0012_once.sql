-- compatible_from: 0007
-- What runs once: for each key of a job's rule the run that took it last. A key whose run has ended is void, so nothing
-- is written here when a run ends.

CREATE TABLE run_unique (
    tenant text NOT NULL,
    job_id uuid NOT NULL,
    key bytea NOT NULL,                     -- blake2b-128 of the rule and its key
    run_id bigint NOT NULL,
    expires_at timestamptz,                       -- scope 'period' and throttle; NULL for all others
    CONSTRAINT run_unique_pkey PRIMARY KEY (tenant, job_id, key)
);

-- What became of the submission; NULL: it made a run.
ALTER TABLE idempotency ADD verdict text;
