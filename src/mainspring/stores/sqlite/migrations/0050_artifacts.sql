-- compatible_from: 0007
-- Files that runs leave behind. Their bytes lie in a folder or a bucket.

CREATE TABLE artifact (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    run_id INTEGER NOT NULL,
    -- Only those of the run's last token are shown.
    token INTEGER NOT NULL,
    name TEXT NOT NULL,
    location TEXT NOT NULL,
    content_type TEXT NOT NULL,
    size INTEGER NOT NULL,
    sha256 BLOB NOT NULL,
    -- Whether the bytes are there.
    is_ready INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    CONSTRAINT artifact_name UNIQUE (run_id, token, name)
) STRICT;

CREATE INDEX artifact_expiring ON artifact (expires_at);
