-- Whoever beats says how often, and is judged by that: periods may differ, and be changed one process at a time.
-- compatible_from: 0002

-- Between a session's heartbeats, as its worker was told (microseconds); null of one that was opened before.
ALTER TABLE session ADD COLUMN beat_period INTEGER;

-- Between a node's heartbeats (microseconds); null of a release that does not say.
ALTER TABLE node ADD COLUMN period INTEGER;
