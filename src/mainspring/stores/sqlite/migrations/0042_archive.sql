-- compatible_from: 0007
-- What was written of the history into the archive: a part is a file.

CREATE TABLE archive_part (
    -- Days since 1970, in UTC.
    day INTEGER NOT NULL,
    kind TEXT NOT NULL,
    number INTEGER NOT NULL,
    url TEXT NOT NULL,
    rows INTEGER NOT NULL,
    -- As text: of many runs it is larger than SQLite's integers.
    sum_ids TEXT NOT NULL,
    first_id INTEGER,
    last_id INTEGER,
    bytes INTEGER NOT NULL,
    digest BLOB NOT NULL,
    state TEXT NOT NULL CONSTRAINT archive_part_state CHECK (
        state = 'WRITTEN' OR state = 'VERIFIED' OR state = 'DROPPED'
    ),
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (day, kind, number)
) STRICT, WITHOUT ROWID;

-- The days that may be removed, and have not been yet.
CREATE INDEX archive_part_verified ON archive_part (day) WHERE state = 'VERIFIED';
