-- Definitions and their versions. Rows are locked job by job in id order, a job's row before its clock's. Where a job
-- is looked up by id, `deleted_at IS NULL` is written in a way that keeps the planner off the partial indexes (see
-- runs.sql).

-- name: add_jobs
-- The arguments are sorted by tenant and name, so that two callers wait for each other in one order.
INSERT INTO job (id, shard, tenant, name, version, created_at, updated_at)
SELECT id, shard, tenant, name, 1, :now, :now
FROM unnest(:job_ids::uuid[], :shards::smallint[], :tenants::text[], :names::text[]) AS new (id, shard, tenant, name)
ON CONFLICT (tenant, name) WHERE deleted_at IS NULL DO NOTHING
RETURNING id;

-- name: add_clocks
INSERT INTO job_clock (job_id, shard, priority, revision, next_fire_at, due_at, run_outline, fires_left)
SELECT job_id, shard, priority, 1, next_fire_at, due_at, run_outline, fires_left
FROM unnest(
    :job_ids::uuid[], :shards::smallint[], :priorities::smallint[], :next_fires_at::timestamptz[], :dues_at::timestamptz[],
    :run_outlines::text[], :fires_left::integer[]
) AS new (job_id, shard, priority, next_fire_at, due_at, run_outline, fires_left);

-- name: add_versions
INSERT INTO job_version (job_id, version, spec, created_at)
SELECT job_id, version, spec, :now
FROM unnest(:job_ids::uuid[], :versions::integer[], :specs::bytea[]) AS new (job_id, version, spec);

-- name: lock_jobs
SELECT job.id, job.tenant, job.name, job.version, job.is_paused, job.revision, job.next_fire_at
FROM unnest(:job_ids::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT job.*, job_clock.revision, job_clock.next_fire_at
    FROM job JOIN job_clock ON job_clock.job_id = job.id
    WHERE job.id = wanted.id AND coalesce(job.deleted_at, 'infinity') = 'infinity'
    FOR NO KEY UPDATE
) AS job;

-- name: find_names
SELECT job.tenant, job.name, job.id
FROM unnest(:tenants::text[], :names::text[]) AS wanted (tenant, name)
JOIN job ON job.tenant = wanted.tenant AND job.name = wanted.name AND job.deleted_at IS NULL;

-- name: rename_job
UPDATE job SET name = :name WHERE id = :job_id;

-- name: raise_versions
UPDATE job SET version = job.version + 1, updated_at = :now
WHERE job.id = ANY(:job_ids::uuid[]);

-- name: set_paused
UPDATE job SET is_paused = :is_paused, pause_note = :note, updated_at = :now
WHERE job.id = ANY(:job_ids::uuid[]);

-- name: move_clocks
-- Only an edit gives a priority, and then the outline, or that there is none. Edits and new versions of calendars give
-- how many fires are left; then the change is counted.
UPDATE job_clock SET
    revision = job_clock.revision + 1, priority = coalesce(changed.priority, job_clock.priority),
    next_fire_at = changed.next_fire_at, due_at = changed.due_at,
    run_outline = CASE WHEN changed.priority IS NULL THEN job_clock.run_outline ELSE changed.run_outline END,
    fires_left = CASE WHEN changed.is_counted THEN changed.fires_left ELSE job_clock.fires_left END
FROM unnest(
    :job_ids::uuid[], :priorities::smallint[], :next_fires_at::timestamptz[], :dues_at::timestamptz[],
    :run_outlines::text[], :are_counted::boolean[], :fires_left::integer[]
) AS changed (job_id, priority, next_fire_at, due_at, run_outline, is_counted, fires_left)
WHERE job_clock.job_id = changed.job_id;

-- name: watch_starts
INSERT INTO at_start (job_id) SELECT job_id FROM unnest(:job_ids::uuid[]) AS new (job_id)
ON CONFLICT (job_id) DO NOTHING;

-- name: unwatch_starts
DELETE FROM at_start WHERE at_start.job_id = ANY(:job_ids::uuid[]);

-- name: watch_failures
INSERT INTO failure_watch (job_id, shard, threshold)
SELECT job_id, shard, threshold
FROM unnest(:job_ids::uuid[], :shards::smallint[], :thresholds::smallint[]) AS new (job_id, shard, threshold)
ON CONFLICT (job_id) DO UPDATE SET threshold = excluded.threshold;

-- name: unwatch_failures
DELETE FROM failure_watch WHERE job_id = ANY(:job_ids::uuid[]);

-- name: read_failing
-- Jobs whose newest failed runs are as many as it takes, all since the last change, and no newer run has succeeded.
SELECT watch.job_id
FROM failure_watch AS watch
JOIN job ON job.id = watch.job_id AND NOT job.is_paused AND coalesce(job.deleted_at, 'infinity') = 'infinity'
CROSS JOIN LATERAL (
    SELECT count(*) AS count, min(dead.finished_at) AS first_at, min(dead.id) AS first_id
    FROM (
        SELECT dead_run.id, dead_run.finished_at FROM dead_run
        WHERE dead_run.job_id = watch.job_id ORDER BY dead_run.id DESC LIMIT watch.threshold
    ) AS dead
) AS failed
WHERE watch.shard = ANY(:shards::smallint[]) AND failed.count = watch.threshold AND failed.first_at > job.updated_at
  AND NOT EXISTS (
    SELECT FROM run_history
    WHERE run_history.job_id = watch.job_id AND run_history.id > failed.first_id AND run_history.state = 'SUCCEEDED'
)
LIMIT :limit;

-- name: read_threshold
SELECT failure_watch.threshold, job.updated_at
FROM failure_watch JOIN job ON job.id = failure_watch.job_id
WHERE failure_watch.job_id = :job_id;

-- name: list_failed
-- A job's newest failed runs.
SELECT id, finished_at FROM dead_run WHERE job_id = :job_id ORDER BY id DESC LIMIT :limit;

-- name: find_success
-- Whether a run of the job has succeeded that was made after another one.
SELECT 1 FROM run_history WHERE job_id = :job_id AND id > :run_id AND state = 'SUCCEEDED' LIMIT 1;

-- name: delete_jobs
UPDATE job SET deleted_at = :now, updated_at = :now
WHERE job.id = ANY(:job_ids::uuid[]);

-- name: delete_clocks
DELETE FROM job_clock WHERE job_id = ANY(:job_ids::uuid[]);

-- name: get_jobs
SELECT {job_columns}
FROM unnest(:job_ids::uuid[]) AS wanted (id)
JOIN job ON job.id = wanted.id AND coalesce(job.deleted_at, 'infinity') = 'infinity'
JOIN job_clock ON job_clock.job_id = job.id
JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version;

-- name: find_jobs
SELECT {job_columns}
FROM unnest(:names::text[]) AS wanted (name)
JOIN job ON job.tenant = :tenant AND job.name = wanted.name AND job.deleted_at IS NULL
JOIN job_clock ON job_clock.job_id = job.id
JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version;

-- name: list_jobs
SELECT {job_columns}
FROM job
JOIN job_clock ON job_clock.job_id = job.id
JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
WHERE job.tenant = :tenant AND job.deleted_at IS NULL AND job.id > :after
ORDER BY job.id LIMIT :limit;

-- name: read_versions
SELECT job_version.job_id, job_version.version, job_version.spec
FROM unnest(:job_ids::uuid[], :versions::integer[]) AS wanted (job_id, version)
JOIN job_version ON job_version.job_id = wanted.job_id AND job_version.version = wanted.version;
