-- compatible_from: 0007
-- What the steps of durable functions have come to.

CREATE TABLE checkpoint (
    run_id bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    -- Which step of the name it is, in the order in which the function began them.
    number integer NOT NULL,
    -- Of the attempt that took the step.
    token integer NOT NULL,
    is_error boolean NOT NULL,
    value bytea,
    kept_at timestamptz NOT NULL,
    CONSTRAINT checkpoint_pkey PRIMARY KEY (run_id, name, number)
);

CREATE INDEX checkpoint_kept ON checkpoint (kept_at);
