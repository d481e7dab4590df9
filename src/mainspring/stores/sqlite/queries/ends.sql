-- Jobs whose next fire waits for the end of a run.

-- name: watch_ends
INSERT INTO after_end (job_id, shard) VALUES (:job_id, :shard) ON CONFLICT (job_id) DO NOTHING;

-- name: unwatch_ends
DELETE FROM after_end WHERE job_id = :job_id;

-- name: find_watched_end
SELECT 1 FROM after_end WHERE shard IN (SELECT value FROM json_each(:shards)) LIMIT 1;

-- name: read_ended
SELECT watch.job_id
FROM after_end AS watch
CROSS JOIN job_clock ON job_clock.job_id = watch.job_id AND job_clock.next_fire_at IS NULL
CROSS JOIN job ON job.id = watch.job_id AND job.is_paused = 0 AND job.deleted_at IS NULL
WHERE watch.shard IN (SELECT value FROM json_each(:shards)) AND NOT EXISTS (
    SELECT 1 FROM run
    WHERE run.job_id = watch.job_id AND run.fire_at = job_clock.fired_through AND run.kind = 'scheduled'
)
LIMIT :limit;

-- name: find_fire
-- What ended is looked for among the newest: other runs of the job come and go while one that a fire made goes on.
SELECT id, state, NULL AS finished_at FROM run WHERE job_id = :job_id AND fire_at = :fire_at AND kind = 'scheduled'
UNION ALL
SELECT id, state, finished_at FROM (
    SELECT id, state, kind, fire_at, finished_at FROM run_history WHERE job_id = :job_id ORDER BY id DESC LIMIT 1000
) WHERE fire_at = :fire_at AND kind = 'scheduled'
UNION ALL
SELECT id, state, finished_at FROM (
    SELECT id, 'FAILED' AS state, kind, fire_at, finished_at FROM dead_run WHERE job_id = :job_id ORDER BY id DESC LIMIT 1000
) WHERE fire_at = :fire_at AND kind = 'scheduled'
LIMIT 1;

-- name: follow_end
-- The revision is raised: what an edit has read before the run fired that followed is no longer so.
UPDATE job_clock SET revision = revision + 1, next_fire_at = :next_fire_at, due_at = :due_at
WHERE job_id = :job_id AND revision = :revision AND next_fire_at IS NULL
RETURNING job_id;
