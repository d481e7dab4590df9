-- compatible_from: 0007
-- Names for priorities: their values are copied into definitions, so nothing refers to a row.

CREATE TABLE priority_class (
    name TEXT PRIMARY KEY,
    tier INTEGER NOT NULL CONSTRAINT priority_class_tier CHECK (tier IN (0, 1, 2)),
    preempts INTEGER NOT NULL,
    preemptible INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
