-- compatible_from: 0007
-- What attempts write while they run. It is in a file of its own (the schema `logs`), so that it neither makes the
-- store's file large nor waits for the disk. The file may be lost: then this is carried out again.

CREATE TABLE IF NOT EXISTS logs.log_chunk (
    run_id INTEGER NOT NULL,
    token INTEGER NOT NULL,
    -- Its place: how many bytes the attempt had written before it.
    start INTEGER NOT NULL,
    -- Before it was deflated.
    size INTEGER NOT NULL,
    at INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (run_id, token, start)
) STRICT;
CREATE INDEX IF NOT EXISTS logs.log_chunk_at ON log_chunk (at);

CREATE TABLE IF NOT EXISTS logs.run_progress (
    run_id INTEGER NOT NULL PRIMARY KEY,
    token INTEGER NOT NULL,
    done REAL NOT NULL,
    total REAL,
    message TEXT,
    at INTEGER NOT NULL
) STRICT;
