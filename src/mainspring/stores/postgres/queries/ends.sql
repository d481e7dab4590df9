-- Jobs whose next fire waits for the end of a run.

-- name: watch_ends
INSERT INTO after_end (job_id, shard)
SELECT job_id, shard FROM unnest(:job_ids::uuid[], :shards::smallint[]) AS new (job_id, shard)
ON CONFLICT (job_id) DO NOTHING;

-- name: unwatch_ends
DELETE FROM after_end WHERE after_end.job_id = ANY(:job_ids::uuid[]);

-- name: find_watched_end
SELECT 1 FROM after_end WHERE after_end.shard = ANY(:shards::smallint[]) LIMIT 1;

-- name: read_ended
SELECT watch.job_id
FROM after_end AS watch
CROSS JOIN LATERAL (
    SELECT job_clock.fired_through FROM job_clock
    WHERE job_clock.job_id = watch.job_id AND job_clock.next_fire_at IS NULL OFFSET 0
) AS clock
CROSS JOIN LATERAL (
    SELECT FROM job
    WHERE job.id = watch.job_id AND NOT job.is_paused AND coalesce(job.deleted_at, 'infinity') = 'infinity' OFFSET 0
) AS job
WHERE watch.shard = ANY(:shards::smallint[]) AND NOT EXISTS (
    SELECT FROM run
    WHERE run.job_id = watch.job_id AND run.fire_at = clock.fired_through AND run.kind = 'scheduled' OFFSET 0
)
LIMIT :limit;

-- name: find_fires
-- What ended is looked for among the newest: other runs of the job come and go while one that a fire made goes on.
SELECT wanted.job_id, wanted.fire_at, found.id, found.state, found.finished_at
FROM unnest(:job_ids::uuid[], :fires_at::timestamptz[]) AS wanted (job_id, fire_at)
CROSS JOIN LATERAL (
    SELECT run.id, run.state, NULL::timestamptz AS finished_at FROM run
    WHERE run.job_id = wanted.job_id AND run.fire_at = wanted.fire_at AND run.kind = 'scheduled'
    UNION ALL
    SELECT ended.id, ended.state, ended.finished_at
    FROM (
        SELECT * FROM run_history WHERE run_history.job_id = wanted.job_id ORDER BY run_history.id DESC LIMIT 1000
    ) AS ended
    WHERE ended.fire_at = wanted.fire_at AND ended.kind = 'scheduled'
    UNION ALL
    SELECT dead.id, 'FAILED', dead.finished_at
    FROM (
        SELECT * FROM dead_run WHERE dead_run.job_id = wanted.job_id ORDER BY dead_run.id DESC LIMIT 1000
    ) AS dead
    WHERE dead.fire_at = wanted.fire_at AND dead.kind = 'scheduled'
    LIMIT 1
) AS found;

-- name: follow_ends
-- The arguments are sorted by job id. The revisions are raised: what an edit has read before the run fired that followed
-- is no longer so.
UPDATE job_clock SET revision = job_clock.revision + 1, next_fire_at = following.next_fire_at, due_at = following.due_at
FROM unnest(
    :job_ids::uuid[], :revisions::bigint[], :next_fires_at::timestamptz[], :dues_at::timestamptz[]
) AS following (job_id, revision, next_fire_at, due_at)
WHERE job_clock.job_id = following.job_id AND job_clock.revision = following.revision AND job_clock.next_fire_at IS NULL
RETURNING job_clock.job_id;
