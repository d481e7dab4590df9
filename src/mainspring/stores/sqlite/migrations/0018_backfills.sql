-- compatible_from: 0007
-- Backfills: the fires of a range that is past, made at a bounded rate.

CREATE TABLE backfill (
    id BLOB PRIMARY KEY,
    shard INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    job_id BLOB NOT NULL,
    state TEXT NOT NULL CONSTRAINT backfill_state CHECK (state IN ('open', 'paused', 'done', 'cancelled')),
    -- Its fires are from the first of these on, and before the second.
    from_at INTEGER NOT NULL,
    to_at INTEGER NOT NULL,
    skip_done TEXT NOT NULL,
    definition TEXT NOT NULL,
    per_count INTEGER NOT NULL,
    per_ms INTEGER NOT NULL,
    max_live INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    note TEXT NOT NULL,
    fires INTEGER NOT NULL,
    made INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    -- The permits of its rate at level_at; NULL: as many as fit.
    level REAL,
    level_at INTEGER,
    created_at INTEGER NOT NULL,
    closed_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX backfill_open ON backfill (id) WHERE state = 'open';
CREATE INDEX backfill_job ON backfill (job_id);

-- A section of a backfill: open until `closed_at`. It is not `is_open`, which earlier releases would drain as fast as they
-- can.
ALTER TABLE fire_range ADD COLUMN backfill_id BLOB;
CREATE INDEX fire_range_backfill ON fire_range (backfill_id, id) WHERE backfill_id IS NOT NULL;

CREATE INDEX run_fire_range ON run (fire_range_id) WHERE fire_range_id IS NOT NULL;
