-- compatible_from: 0007
-- The keys that contents are encrypted with. The keys themselves are never here.

CREATE TABLE encryption_key (
    id TEXT PRIMARY KEY,
    -- Tells the right key from another one of the same id.
    key_check BLOB NOT NULL,
    since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
