-- compatible_from: 0007
-- The pace at which missed fires are made up for.

-- The permits of the job's catch_up.rate at catch_up_level_at; NULL: as many as fit.
ALTER TABLE job_clock ADD COLUMN catch_up_level REAL;
ALTER TABLE job_clock ADD COLUMN catch_up_level_at INTEGER;

CREATE INDEX fire_range_draining ON fire_range (id) WHERE is_open AND kind <> 'gap';
