-- compatible_from: 0007
-- Pauses of queues, of tenants and of everything, and the epoch by which every claim keeps them.

-- Nothing is given out of what is paused.
CREATE TABLE pause (
    scope TEXT NOT NULL CONSTRAINT pause_scope CHECK (scope IN ('all', 'queue', 'tenant')),
    name TEXT NOT NULL,                     -- of the queue or tenant; empty for everything
    mode TEXT NOT NULL CONSTRAINT pause_mode CHECK (mode IN ('hold', 'skip')),
    note TEXT NOT NULL,
    made_by TEXT NOT NULL,
    since INTEGER NOT NULL,
    until INTEGER,                          -- NULL: until somebody resumes
    PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;
INSERT INTO pause (scope, name, mode, note, made_by, since)
SELECT 'queue', name, 'hold', '', 'local', CAST(unixepoch('subsec') * 1000000 AS INTEGER) FROM queue WHERE is_paused;
-- No release has read or written it.
ALTER TABLE queue DROP COLUMN is_paused;

-- A claim gives nothing unless the epoch under which it was chosen is its session's.
INSERT INTO revision (name, number) VALUES ('policy_epoch', 0);
ALTER TABLE session ADD COLUMN policy_epoch INTEGER NOT NULL DEFAULT 0;

-- How the server's release works with others on this store. NULL: it keeps no pauses.
ALTER TABLE node ADD COLUMN protocol INTEGER;
