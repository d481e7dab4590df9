-- compatible_from: 0007
-- For whom workers work: a session is of one tenant or of all, and a token may name the queues that it is for.

-- Null: it gets the runs of all tenants.
ALTER TABLE session ADD COLUMN tenant TEXT;
-- A JSON list. Empty: all.
ALTER TABLE token ADD COLUMN queues TEXT NOT NULL DEFAULT '[]';
