-- The words of the field in place of private ones (ADR 0035). Older programs must be stopped before.

-- SQLite renames no constraint, so the table is made anew: a row stands for a whole stretch of fires, there are few.
CREATE TABLE fire_range (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id BLOB NOT NULL,
    version INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    kind TEXT NOT NULL CONSTRAINT fire_range_kind CHECK (kind IN ('catch_up', 'backfill', 'gap')),
    from_at INTEGER NOT NULL,
    to_at INTEGER,
    cursor_at INTEGER,
    reason TEXT NOT NULL,
    is_open INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    closed_at INTEGER
) STRICT;
-- Ids are never given twice, not even those of rows that are gone.
INSERT INTO sqlite_sequence (name, seq) SELECT 'fire_range', seq FROM sqlite_sequence WHERE name = 'span';
INSERT INTO fire_range SELECT * FROM span;
DROP TABLE span;
CREATE INDEX fire_range_open ON fire_range (shard) WHERE is_open AND kind <> 'gap';
CREATE INDEX fire_range_job ON fire_range (job_id);

ALTER TABLE run RENAME COLUMN rank TO ready_at;
ALTER TABLE run RENAME COLUMN is_alone TO is_quarantined;
ALTER TABLE run RENAME COLUMN alone_crashes TO quarantined_crashes;
ALTER TABLE run RENAME COLUMN span_id TO fire_range_id;
ALTER TABLE run_history RENAME COLUMN span_id TO fire_range_id;
ALTER TABLE dead_run RENAME COLUMN span_id TO fire_range_id;

-- Nor does it rename an index.
DROP INDEX run_alone;
CREATE INDEX run_held_quarantined ON run (session_id) WHERE state = 'RUNNING' AND is_quarantined;
DROP INDEX run_suspect;
CREATE INDEX run_quarantined ON run (lane_id, ready_at) WHERE state IN ('PENDING', 'RETRYING') AND NOT is_parked AND crashes > 0;

-- A worker that reaches the store by a server's HTTP, and was left running, cannot read the leases of this version: it
-- would claim without end. So every session ends here, the worker's next heartbeat tells it to register anew, and the
-- server refuses that. What the session held counts as lost. Workers that were stopped left no session behind.
UPDATE session SET state = 'dead', ended_at = last_beat_at WHERE state = 'live';
