-- Jobs that tell channels what becomes of them.

-- name: keep_notify
INSERT INTO job_notify (job_id, notify) VALUES (:job_id, :rule)
ON CONFLICT (job_id) DO UPDATE SET notify = excluded.notify;

-- name: drop_notify
DELETE FROM job_notify WHERE job_id = :job_id RETURNING job_id;

-- name: forget_unnoticed
UPDATE dead_run INDEXED BY dead_run_unnoticed SET is_unnoticed = NULL
WHERE is_unnoticed AND job_id = :job_id;

-- name: list_notifying_jobs
SELECT job.id, job.tenant, job.name, job_notify.notify
FROM job_notify CROSS JOIN job ON job.id = job_notify.job_id
ORDER BY job.id;

-- name: list_unnoticed
SELECT dead_run.id, dead_run.job_id, dead_run.error FROM dead_run INDEXED BY dead_run_unnoticed
WHERE dead_run.is_unnoticed ORDER BY dead_run.id LIMIT :limit;

-- name: notice_failures
UPDATE dead_run SET is_unnoticed = NULL WHERE id IN (SELECT value FROM json_each(:run_ids));

-- name: find_failing
SELECT newest.id, newest.error
FROM (
    SELECT count(*) AS count, min(dead.id) AS first_id, max(dead.id) AS last_id, count(dead.settled_at) AS settled
    FROM (
        SELECT dead_run.id, dead_run.settled_at, dead_run.finished_at FROM dead_run INDEXED BY dead_run_job
        WHERE dead_run.job_id = :job_id ORDER BY dead_run.id DESC LIMIT :failures
    ) AS dead
    WHERE dead.finished_at >= :since
) AS failed
CROSS JOIN dead_run AS newest ON newest.id = failed.last_id
WHERE failed.count = :failures AND failed.settled = 0 AND NOT EXISTS (
    SELECT 1 FROM run_history
    WHERE run_history.job_id = :job_id AND run_history.id > failed.first_id AND run_history.state = 'SUCCEEDED'
);

-- name: find_late
SELECT oldest.id AS run_id, oldest.due_at
FROM (
    SELECT run.id, run.due_at, run.kind FROM run INDEXED BY run_job
    WHERE run.job_id = :job_id ORDER BY run.id LIMIT :limit
) AS oldest
WHERE oldest.due_at < :before AND oldest.kind <> 'backfill'
UNION ALL
SELECT NULL, job_clock.due_at FROM job_clock
WHERE job_clock.job_id = :job_id AND job_clock.due_at < :before
ORDER BY due_at, run_id LIMIT 1;
