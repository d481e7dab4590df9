-- compatible_from: 0007
-- Redrives: dead letters that are run again at a bounded rate, in the order of their ids.

CREATE TABLE redrive (
    id BLOB PRIMARY KEY,
    tenant TEXT NOT NULL,
    state TEXT NOT NULL CONSTRAINT redrive_state CHECK (state IN ('running', 'paused', 'done', 'cancelled')),
    -- Which dead letters it runs again, as JSON.
    filter TEXT NOT NULL,
    is_newest INTEGER NOT NULL,
    -- Runs a second.
    rate INTEGER NOT NULL,
    -- The last dead letter that it has passed.
    cursor INTEGER NOT NULL DEFAULT 0,
    total INTEGER NOT NULL,
    done INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    closed_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX redrive_running ON redrive (id) WHERE state = 'running';
CREATE INDEX redrive_tenant ON redrive (tenant, id);
