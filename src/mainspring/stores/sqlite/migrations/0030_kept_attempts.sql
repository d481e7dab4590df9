-- compatible_from: 0007
-- Attempts that stay longer than others, those of dead and of live runs, have a table of their own, so that the janitor
-- does not walk over all of them each time (ADR 0061).

CREATE TABLE kept_attempt (
    run_id INTEGER NOT NULL,
    token INTEGER NOT NULL,
    number INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    worker TEXT NOT NULL,
    host TEXT,
    started_at INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    error TEXT,
    output TEXT,
    is_of_live INTEGER NOT NULL,
    PRIMARY KEY (run_id, token)
) STRICT, WITHOUT ROWID;

-- Those that may have to go when their run ends. Attempts of a dead run go with it.
CREATE INDEX kept_attempt_live ON kept_attempt (run_id) WHERE is_of_live;
