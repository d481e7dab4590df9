-- compatible_from: 0007
-- What runs once: for each key of a job's rule the run that took it last. A key whose run has ended is void, so nothing
-- is written here when a run ends.

CREATE TABLE run_unique (
    tenant TEXT NOT NULL,
    job_id BLOB NOT NULL,
    key BLOB NOT NULL,                     -- blake2b-128 of the rule and its key
    run_id INTEGER NOT NULL,
    expires_at INTEGER,                       -- scope 'period' and throttle; NULL for all others
    PRIMARY KEY (tenant, job_id, key)
) STRICT, WITHOUT ROWID;

-- What became of the submission; NULL: it made a run.
ALTER TABLE idempotency ADD COLUMN verdict TEXT;
