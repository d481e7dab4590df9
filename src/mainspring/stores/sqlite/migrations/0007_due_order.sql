-- The planner orders clocks by the instant at which they are to be committed, and by priority (ADR 0036).
ALTER TABLE job_clock ADD COLUMN priority INTEGER NOT NULL DEFAULT 1;
ALTER TABLE job_clock ADD COLUMN due_at INTEGER;

-- A fire that was planned before keeps its instant: it is committed at its nominal time, and its run waits.
UPDATE job_clock SET
    due_at = next_fire_at,
    priority = (
        SELECT CASE CAST(job_version.spec AS TEXT) ->> 'priority' WHEN 'HIGH' THEN 0 WHEN 'LOW' THEN 2 ELSE 1 END
        FROM job JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
        WHERE job.id = job_clock.job_id
    );
DROP INDEX job_clock_due;
CREATE INDEX job_clock_due ON job_clock (priority, due_at) WHERE due_at IS NOT NULL;
