-- compatible_from: 0007
-- What became of runs: by the minute, as each process has counted it, and by the hour, of all together.

CREATE TABLE usage_minute (
    at INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    queue TEXT NOT NULL,
    process TEXT NOT NULL,
    -- Counts, and times by bounds, as JSON.
    body TEXT NOT NULL,
    PRIMARY KEY (at, tenant, queue, process)
) STRICT, WITHOUT ROWID;

CREATE TABLE usage_hour (
    at INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    queue TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (at, tenant, queue)
) STRICT, WITHOUT ROWID;
