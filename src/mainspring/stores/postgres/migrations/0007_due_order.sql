-- The planner orders clocks by the instant at which they are to be committed, and by priority (ADR 0036).
ALTER TABLE job_clock ADD COLUMN priority smallint NOT NULL DEFAULT 1;
ALTER TABLE job_clock ADD COLUMN due_at timestamptz;
DROP INDEX job_clock_due;

-- A fire that was planned before keeps its instant: it is committed at its nominal time, and its run waits.
UPDATE job_clock SET
    due_at = job_clock.next_fire_at,
    priority = CASE convert_from(job_version.spec, 'UTF8')::json ->> 'priority' WHEN 'HIGH' THEN 0 WHEN 'LOW' THEN 2 ELSE 1 END
FROM job JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
WHERE job.id = job_clock.job_id;
ALTER TABLE job_clock ALTER COLUMN priority DROP DEFAULT;
CREATE INDEX job_clock_due ON job_clock (priority, due_at) WHERE due_at IS NOT NULL;
