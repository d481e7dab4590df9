-- compatible_from: 0007
-- Backfills: the fires of a range that is past, made at a bounded rate.

CREATE TABLE backfill (
    id uuid NOT NULL,
    shard smallint NOT NULL,
    tenant text NOT NULL,
    job_id uuid NOT NULL,
    state text NOT NULL,
    -- Its fires are from the first of these on, and before the second.
    from_at timestamptz NOT NULL,
    to_at timestamptz NOT NULL,
    skip_done text NOT NULL,
    definition text NOT NULL,
    per_count integer NOT NULL,
    per_ms bigint NOT NULL,
    max_live integer NOT NULL,
    priority smallint NOT NULL,
    note text NOT NULL,
    fires bigint NOT NULL,
    made bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    -- The permits of its rate at level_at; NULL: as many as fit.
    level double precision,
    level_at timestamptz,
    created_at timestamptz NOT NULL,
    closed_at timestamptz,
    CONSTRAINT backfill_state CHECK (state IN ('open', 'paused', 'done', 'cancelled')),
    CONSTRAINT backfill_pkey PRIMARY KEY (id)
) WITH (fillfactor = 70);
CREATE INDEX backfill_open ON backfill (id) WHERE state = 'open';
CREATE INDEX backfill_job ON backfill (job_id);

-- A section of a backfill: open until `closed_at`. It is not `is_open`, which earlier releases would drain as fast as they
-- can.
ALTER TABLE fire_range ADD backfill_id uuid;
CREATE INDEX fire_range_backfill ON fire_range (backfill_id, id) WHERE backfill_id IS NOT NULL;

CREATE INDEX run_fire_range ON run (fire_range_id) WHERE fire_range_id IS NOT NULL;
