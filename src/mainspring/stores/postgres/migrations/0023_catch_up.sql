-- compatible_from: 0007
-- The pace at which missed fires are made up for.

ALTER TABLE job_clock
    -- The permits of the job's catch_up.rate at catch_up_level_at; NULL: as many as fit.
    ADD catch_up_level double precision,
    ADD catch_up_level_at timestamptz;

CREATE INDEX fire_range_draining ON fire_range (id) WHERE is_open AND kind <> 'gap';
