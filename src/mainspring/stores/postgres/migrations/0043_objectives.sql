-- compatible_from: 0007
-- Objectives: how many runs of a queue are to start in time, or to succeed.

CREATE TABLE slo (
    tenant text NOT NULL,
    name text NOT NULL,
    -- What is set for it, as JSON.
    settings text NOT NULL,
    CONSTRAINT slo_pkey PRIMARY KEY (tenant, name)
);
