-- compatible_from: 0007
-- Pauses of queues, of tenants and of everything, and the epoch by which every claim keeps them.

-- Nothing is given out of what is paused.
CREATE TABLE pause (
    scope text NOT NULL,
    name text NOT NULL,                     -- of the queue or tenant; empty for everything
    mode text NOT NULL,
    note text NOT NULL,
    made_by text NOT NULL,
    since timestamptz NOT NULL,
    until timestamptz,                      -- NULL: until somebody resumes
    CONSTRAINT pause_pkey PRIMARY KEY (scope, name),
    CONSTRAINT pause_scope CHECK (scope IN ('all', 'queue', 'tenant')),
    CONSTRAINT pause_mode CHECK (mode IN ('hold', 'skip'))
);
INSERT INTO pause (scope, name, mode, note, made_by, since)
SELECT 'queue', queue.name, 'hold', '', 'local', now() FROM queue WHERE queue.is_paused;
-- No release has read or written it.
ALTER TABLE queue DROP COLUMN is_paused;

-- A claim gives nothing unless the epoch under which it was chosen is its session's. NULL: a release before this one has
-- opened the session.
INSERT INTO revision (name, number) VALUES ('policy_epoch', 0);
ALTER TABLE session ADD policy_epoch bigint;

-- How the server's release works with others on this store. NULL: it keeps no pauses.
ALTER TABLE node ADD protocol integer;
