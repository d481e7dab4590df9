-- Jobs that tell channels what becomes of them.

-- name: keep_notify
INSERT INTO job_notify (job_id, notify)
SELECT job_id, notify FROM unnest(:job_ids::uuid[], :rules::text[]) AS new (job_id, notify)
ON CONFLICT (job_id) DO UPDATE SET notify = excluded.notify;

-- name: drop_notify
DELETE FROM job_notify WHERE job_notify.job_id = ANY(:job_ids::uuid[]) RETURNING job_id;

-- name: forget_unnoticed
UPDATE dead_run SET is_unnoticed = NULL WHERE dead_run.is_unnoticed AND dead_run.job_id = ANY(:job_ids::uuid[]);

-- name: list_notifying_jobs
SELECT job.id, job.tenant, job.name, job_notify.notify
FROM job_notify JOIN job ON job.id = job_notify.job_id
ORDER BY job.id;

-- name: list_unnoticed
SELECT dead_run.id, dead_run.job_id, dead_run.error FROM dead_run
WHERE dead_run.is_unnoticed ORDER BY dead_run.id LIMIT :limit;

-- name: notice_failures
UPDATE dead_run SET is_unnoticed = NULL WHERE dead_run.id = ANY(:run_ids::bigint[]);

-- name: find_failing
SELECT newest.job_id, newest.id, newest.error
FROM unnest(:job_ids::uuid[], :failures::integer[], :sinces::timestamptz[]) AS wanted (job_id, failures, since)
CROSS JOIN LATERAL (
    SELECT count(*) AS count, min(dead.id) AS first_id, max(dead.id) AS last_id, count(dead.settled_at) AS settled
    FROM (
        SELECT dead_run.id, dead_run.settled_at, dead_run.finished_at FROM dead_run
        WHERE dead_run.job_id = wanted.job_id ORDER BY dead_run.id DESC LIMIT wanted.failures
    ) AS dead
    WHERE dead.finished_at >= wanted.since
) AS failed
JOIN dead_run AS newest ON newest.id = failed.last_id
WHERE failed.count = wanted.failures AND failed.settled = 0 AND NOT EXISTS (
    SELECT FROM run_history
    WHERE run_history.job_id = wanted.job_id AND run_history.id > failed.first_id AND run_history.state = 'SUCCEEDED'
);

-- name: find_late
SELECT wanted.job_id, late.run_id, late.due_at
FROM unnest(:job_ids::uuid[], :befores::timestamptz[]) AS wanted (job_id, before)
CROSS JOIN LATERAL (
    SELECT oldest.id AS run_id, oldest.due_at
    FROM (
        SELECT run.id, run.due_at, run.kind FROM run
        WHERE run.job_id = wanted.job_id ORDER BY run.id + 0 LIMIT :limit
    ) AS oldest
    WHERE oldest.due_at < wanted.before AND oldest.kind <> 'backfill'
    UNION ALL
    SELECT NULL, job_clock.due_at FROM job_clock
    WHERE job_clock.job_id = wanted.job_id AND job_clock.due_at < wanted.before
    ORDER BY due_at, run_id NULLS FIRST LIMIT 1
) AS late;
