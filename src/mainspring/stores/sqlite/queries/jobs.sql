-- Jobs, their versions, and the changes of their clocks.

-- name: find_name
SELECT id FROM job WHERE tenant = :tenant AND name = :name AND deleted_at IS NULL;

-- name: add_job
INSERT INTO job (id, shard, tenant, name, version, created_at, updated_at)
VALUES (:job_id, :shard, :tenant, :name, 1, :now, :now);

-- name: add_version
INSERT INTO job_version (job_id, version, spec, created_at) VALUES (:job_id, :version, :spec, :now);

-- name: add_clock
INSERT INTO job_clock (job_id, shard, priority, revision, next_fire_at, due_at, run_outline, fires_left)
VALUES (:job_id, :shard, :priority, 1, :next_fire_at, :due_at, :run_outline, :fires_left);

-- name: lock_job
SELECT job.tenant, job.version, job.is_paused, job_clock.revision, job_clock.next_fire_at
FROM job JOIN job_clock ON job_clock.job_id = job.id
WHERE job.id = :job_id AND job.deleted_at IS NULL;

-- name: move_clock
-- Every change from outside raises the revision, so that a plan made before loses (law 2).
-- Only an edit gives a priority, and then the outline, or that there is none. Edits and new versions of calendars give
-- how many fires are left; then the change is counted.
UPDATE job_clock SET
    revision = revision + 1, priority = coalesce(:priority, priority), next_fire_at = :next_fire_at, due_at = :due_at,
    run_outline = CASE WHEN :priority IS NULL THEN run_outline ELSE :run_outline END,
    fires_left = CASE WHEN :is_counted THEN :fires_left ELSE fires_left END
WHERE job_id = :job_id;

-- name: rename_job
UPDATE job SET name = :name WHERE id = :job_id;

-- name: raise_version
UPDATE job SET version = version + 1, updated_at = :now WHERE id = :job_id;

-- name: set_paused
UPDATE job SET is_paused = :is_paused, pause_note = :note, updated_at = :now WHERE id = :job_id;

-- name: watch_failures
INSERT INTO failure_watch (job_id, shard, threshold) VALUES (:job_id, :shard, :threshold)
ON CONFLICT (job_id) DO UPDATE SET threshold = excluded.threshold;

-- name: unwatch_failures
DELETE FROM failure_watch WHERE job_id = :job_id;

-- name: watch_starts
INSERT INTO at_start (job_id) VALUES (:job_id) ON CONFLICT (job_id) DO NOTHING;

-- name: unwatch_starts
DELETE FROM at_start WHERE job_id = :job_id;

-- name: read_failing
-- Jobs whose newest failed runs are as many as it takes, all since the last change, and no newer run has succeeded. Of a
-- LIMIT, SQLite takes no column, so the newest failed runs are numbered.
SELECT job_id FROM (
    SELECT
        watch.job_id,
        (
            SELECT CASE WHEN count(*) = watch.threshold AND min(finished_at) > job.updated_at THEN min(id) END
            FROM (
                SELECT id, finished_at, row_number() OVER (ORDER BY id DESC) AS place
                FROM (
                    SELECT id, finished_at FROM dead_run WHERE dead_run.job_id = watch.job_id ORDER BY id DESC LIMIT 100
                )
            )
            WHERE place <= watch.threshold
        ) AS first_id
    FROM failure_watch AS watch
    CROSS JOIN job ON job.id = watch.job_id AND job.is_paused = 0 AND job.deleted_at IS NULL
    WHERE watch.shard IN (SELECT value FROM json_each(:shards))
      AND job.updated_at < (
        SELECT finished_at FROM dead_run WHERE dead_run.job_id = watch.job_id ORDER BY dead_run.id DESC LIMIT 1
    )
) AS failing
WHERE first_id IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM run_history
    WHERE run_history.job_id = failing.job_id AND run_history.id > first_id AND run_history.state = 'SUCCEEDED'
)
LIMIT :limit;

-- name: read_threshold
SELECT failure_watch.threshold, job.updated_at
FROM failure_watch CROSS JOIN job ON job.id = failure_watch.job_id
WHERE failure_watch.job_id = :job_id;

-- name: list_failed
-- A job's newest failed runs.
SELECT id, finished_at FROM dead_run WHERE job_id = :job_id ORDER BY id DESC LIMIT :limit;

-- name: find_success
-- Whether a run of the job has succeeded that was made after another one.
SELECT 1 FROM run_history WHERE job_id = :job_id AND id > :run_id AND state = 'SUCCEEDED' LIMIT 1;

-- name: delete_job
UPDATE job SET deleted_at = :now, updated_at = :now WHERE id = :job_id;

-- name: delete_clock
DELETE FROM job_clock WHERE job_id = :job_id;

-- name: get_jobs
SELECT {job_columns}
FROM json_each(:job_ids) AS wanted
CROSS JOIN job ON job.id = unhex(wanted.value) AND job.deleted_at IS NULL
JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
JOIN job_clock ON job_clock.job_id = job.id;

-- name: find_jobs
SELECT {job_columns}
FROM json_each(:names) AS wanted
CROSS JOIN job ON job.tenant = :tenant AND job.name = wanted.value AND job.deleted_at IS NULL
JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
JOIN job_clock ON job_clock.job_id = job.id;

-- name: list_jobs
SELECT {job_columns}
FROM job
JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
JOIN job_clock ON job_clock.job_id = job.id
WHERE job.tenant = :tenant AND job.deleted_at IS NULL AND job.id > :after
ORDER BY job.id
LIMIT :limit;

-- name: read_versions
SELECT job_version.job_id, job_version.version, job_version.spec
FROM json_each(:keys) AS wanted
CROSS JOIN job_version
    ON job_version.job_id = unhex(wanted.value ->> 0) AND job_version.version = wanted.value ->> 1;
