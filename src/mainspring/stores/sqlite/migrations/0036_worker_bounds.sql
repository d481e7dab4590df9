-- compatible_from: 0007
-- For whom workers work: a session is of one tenant or of all, and a token may name the queues that it is for.
-- And from whom payloads are hidden.

-- Null: it gets the runs of all tenants.
ALTER TABLE session ADD COLUMN tenant TEXT;
-- A JSON list. Empty: all.
ALTER TABLE token ADD COLUMN queues TEXT NOT NULL DEFAULT '[]';
-- A JSON list: the tenants whose grants show no payloads, results, outputs and errors.
ALTER TABLE account ADD COLUMN hides_payloads TEXT NOT NULL DEFAULT '[]';
