-- Jobs that tell channels what becomes of them.

-- name: keep_notify
INSERT INTO job_notify (job_id, notify)
SELECT job_id, notify FROM unnest(:job_ids::uuid[], :rules::text[]) AS new (job_id, notify)
ON CONFLICT (job_id) DO UPDATE SET notify = excluded.notify;

-- name: drop_notify
DELETE FROM job_notify WHERE job_notify.job_id = ANY(:job_ids::uuid[]);

-- name: list_notifying_jobs
SELECT job.id, job.tenant, job.name, job_notify.notify
FROM job_notify JOIN job ON job.id = job_notify.job_id
ORDER BY job.id;

-- name: list_unnoticed
SELECT dead_run.id, dead_run.job_id, dead_run.error FROM dead_run
WHERE dead_run.is_unnoticed ORDER BY dead_run.id LIMIT :limit;

-- name: notice_failures
UPDATE dead_run SET is_unnoticed = NULL WHERE dead_run.id = ANY(:run_ids::bigint[]);

-- name: read_error
SELECT dead_run.error FROM dead_run WHERE dead_run.id = :run_id;

-- name: find_late
SELECT wanted.job_id, late.run_id, late.due_at
FROM unnest(:job_ids::uuid[], :befores::timestamptz[]) AS wanted (job_id, before)
CROSS JOIN LATERAL (
    SELECT run.id AS run_id, run.due_at FROM run
    WHERE run.job_id = wanted.job_id AND run.due_at < wanted.before AND run.kind <> 'backfill'
    UNION ALL
    SELECT NULL, job_clock.due_at FROM job_clock
    WHERE job_clock.job_id = wanted.job_id AND job_clock.due_at < wanted.before
    ORDER BY due_at, run_id NULLS FIRST LIMIT 1
) AS late;
