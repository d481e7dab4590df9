-- compatible_from: 0007
-- Monitors of jobs that run elsewhere and say so by pings.

CREATE TABLE monitor (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    -- SHA-256 of the key that its pings bear.
    key_hash BLOB NOT NULL,
    -- What is set for it and what it knows, as JSON.
    monitor TEXT NOT NULL,
    revision INTEGER NOT NULL DEFAULT 1,
    -- From when on it may be found broken.
    due_at INTEGER
) STRICT;
CREATE UNIQUE INDEX monitor_name ON monitor (tenant, name);
CREATE UNIQUE INDEX monitor_key ON monitor (key_hash);
CREATE INDEX monitor_due ON monitor (due_at) WHERE due_at IS NOT NULL;
