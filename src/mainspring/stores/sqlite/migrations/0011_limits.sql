-- compatible_from: 0007
-- Limits: how many runs of a job or a key may be under way, and how often they may start.

CREATE TABLE limit_rule (
    id INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    -- The job whose own limit it is.
    job_id BLOB,
    max_running INTEGER,
    per_count INTEGER,
    per_ms INTEGER,
    burst INTEGER,
    -- How long a run counts: while its attempt is under way, or while it is live.
    hold TEXT NOT NULL CONSTRAINT limit_rule_hold CHECK (hold = 'attempt' OR hold = 'run'),
    CONSTRAINT limit_rule_name UNIQUE (tenant, name)
) STRICT;
CREATE INDEX limit_rule_job ON limit_rule (job_id) WHERE job_id IS NOT NULL;

-- Which jobs use a shared limit, by their newest definitions.
CREATE TABLE limit_use (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    job_id BLOB NOT NULL,
    PRIMARY KEY (tenant, name, job_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX limit_use_job ON limit_use (job_id);

-- Interned, as lanes are. An id is never used again: AUTOINCREMENT.
CREATE TABLE concurrency_key (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    rule_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    -- The permits at level_at; NULL: as many as fit.
    level REAL,
    level_at INTEGER,
    CONSTRAINT concurrency_key_key UNIQUE (rule_id, key)
) STRICT;

-- A place under a key. It counts only as long as its run's row says the same.
CREATE TABLE key_hold (
    key_id INTEGER NOT NULL,
    run_id INTEGER NOT NULL,
    token INTEGER NOT NULL,
    PRIMARY KEY (key_id, run_id, token)
) STRICT, WITHOUT ROWID;

-- A run with keys is parked from its insert to its end: while it waits, it stands in the line of its first key.
ALTER TABLE run ADD COLUMN key_id INTEGER;
ALTER TABLE run ADD COLUMN second_key_id INTEGER;
ALTER TABLE run ADD COLUMN third_key_id INTEGER;
CREATE INDEX run_line ON run (key_id, lane_id, ready_at)
    WHERE is_parked AND state IN ('PENDING', 'RETRYING') AND crashes = 0;
CREATE INDEX run_second_key ON run (second_key_id) WHERE second_key_id IS NOT NULL;
CREATE INDEX run_third_key ON run (third_key_id) WHERE third_key_id IS NOT NULL;

-- Quarantined runs with keys are found as the others are.
DROP INDEX run_quarantined;
CREATE INDEX run_quarantined ON run (lane_id, ready_at) WHERE state IN ('PENDING', 'RETRYING') AND crashes > 0;
