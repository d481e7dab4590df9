-- compatible_from: 0007
-- What the steps of durable functions have come to.

CREATE TABLE checkpoint (
    run_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    -- Which step of the name it is, in the order in which the function began them.
    number INTEGER NOT NULL,
    -- Of the attempt that took the step.
    token INTEGER NOT NULL,
    is_error INTEGER NOT NULL,
    value BLOB,
    kept_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, name, number)
) WITHOUT ROWID, STRICT;

CREATE INDEX checkpoint_kept ON checkpoint (kept_at);
