-- compatible_from: 0007
-- Monitors of jobs that run elsewhere and say so by pings.

CREATE TABLE monitor (
    id bigint GENERATED ALWAYS AS IDENTITY,
    tenant text NOT NULL,
    name text NOT NULL,
    -- SHA-256 of the key that its pings bear.
    key_hash bytea NOT NULL,
    -- What is set for it and what it knows, as JSON.
    monitor text NOT NULL,
    revision bigint NOT NULL DEFAULT 1,
    -- From when on it may be found broken.
    due_at timestamptz,
    CONSTRAINT monitor_pkey PRIMARY KEY (id)
);
CREATE UNIQUE INDEX monitor_name ON monitor (tenant, name);
CREATE UNIQUE INDEX monitor_key ON monitor (key_hash);
CREATE INDEX monitor_due ON monitor (due_at) WHERE due_at IS NOT NULL;
