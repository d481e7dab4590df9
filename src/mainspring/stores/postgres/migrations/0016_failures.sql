-- compatible_from: 0007
-- Jobs that are paused when their runs fail.

-- Which jobs are paused after how many failed runs in a row. A job that never is has no row.
CREATE TABLE failure_watch (
    job_id uuid NOT NULL PRIMARY KEY,
    shard smallint NOT NULL,
    threshold smallint NOT NULL
);

-- Why the job was paused, if it was not by a user. It says nothing about a job that is not paused.
ALTER TABLE job ADD pause_note text;
