-- compatible_from: 0007
-- Objectives: how many runs of a queue are to start in time, or to succeed.

CREATE TABLE slo (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    -- What is set for it, as JSON.
    settings TEXT NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
