-- compatible_from: 0007
-- Events, and which jobs they start.

CREATE TABLE event (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    topic TEXT NOT NULL,
    -- Null: nobody says what it has happened to.
    key TEXT,
    data BLOB,
    received_at INTEGER NOT NULL
) STRICT;
CREATE INDEX event_tenant ON event (tenant, number);
CREATE INDEX event_topic ON event (tenant, topic, number);
CREATE INDEX event_received ON event (received_at);

-- Jobs that a happening starts. They come from definitions.
CREATE TABLE listener (
    job_id BLOB NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind = 'topic'),
    name TEXT NOT NULL,
    tenant TEXT NOT NULL
) STRICT;
CREATE INDEX listener_name ON listener (tenant, kind, name, job_id);
