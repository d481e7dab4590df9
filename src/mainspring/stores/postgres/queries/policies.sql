-- The settings that every process follows.

-- name: read_policies
-- No row if they are still those of the revision `known`; otherwise one for each tenant and queue, or one without any.
SELECT
    revision.number, setting.tenant, setting.weight, setting.max_jobs, setting.submit_count, setting.submit_per_ms,
    setting.queue, setting.ordering, setting.aging_ms, setting.aging_share, setting.expires_after_ms, setting.max_queued,
    setting.reserved, setting.preempt_after_ms
FROM revision
LEFT JOIN (
    SELECT
        tenant.id AS tenant, tenant.weight, tenant.max_jobs, tenant.submit_count, tenant.submit_per_ms,
        NULL AS queue, NULL AS ordering, NULL AS aging_ms, NULL AS aging_share, NULL AS expires_after_ms,
        tenant.max_queued, tenant.reserved, NULL AS preempt_after_ms
    FROM tenant
    UNION ALL
    SELECT
        NULL, NULL, NULL, NULL, NULL,
        queue.name, queue.ordering, queue.aging_ms, queue.aging_share, queue.expires_after_ms, queue.max_queued,
        NULL, queue.preempt_after_ms
    FROM queue
) AS setting ON true
WHERE revision.name = 'policies' AND revision.number IS DISTINCT FROM :known::bigint;

-- name: find_tenants
SELECT id FROM tenant WHERE id = ANY(:names::text[]);

-- name: write_tenants
-- The permits stay: a rate that is set again allows no second burst.
INSERT INTO tenant (id, weight, max_queued, max_jobs, submit_count, submit_per_ms, reserved)
SELECT
    wanted.id, wanted.weight, wanted.max_queued, wanted.max_jobs, wanted.submit_count, wanted.submit_per_ms,
    wanted.reserved
FROM unnest(
    :names::text[], :weights::integer[], :tenant_caps::integer[], :job_caps::integer[], :submit_counts::integer[],
    :submit_periods_ms::bigint[], :reserves::integer[]
) AS wanted (id, weight, max_queued, max_jobs, submit_count, submit_per_ms, reserved)
ON CONFLICT (id) DO UPDATE
SET weight = excluded.weight, max_queued = excluded.max_queued, max_jobs = excluded.max_jobs,
    submit_count = excluded.submit_count, submit_per_ms = excluded.submit_per_ms, reserved = excluded.reserved;

-- name: find_queues
SELECT name FROM queue WHERE name = ANY(:names::text[]);

-- name: write_queues
INSERT INTO queue (name, ordering, aging_ms, aging_share, max_queued, expires_after_ms, preempt_after_ms)
SELECT
    wanted.name, wanted.ordering, wanted.aging_ms, wanted.aging_share, wanted.max_queued, wanted.expires_after_ms,
    wanted.preempt_after_ms
FROM unnest(
    :names::text[], :orders::text[], :agings::bigint[], :shares::double precision[], :queue_caps::integer[],
    :expiries_ms::bigint[], :preempts_ms::bigint[]
) AS wanted (name, ordering, aging_ms, aging_share, max_queued, expires_after_ms, preempt_after_ms)
ON CONFLICT (name) DO UPDATE
SET ordering = excluded.ordering, aging_ms = excluded.aging_ms, aging_share = excluded.aging_share,
    max_queued = excluded.max_queued, expires_after_ms = excluded.expires_after_ms,
    preempt_after_ms = excluded.preempt_after_ms;

-- name: raise_revision
-- Whoever writes settings begins with this, so one comes after the other.
UPDATE revision SET number = number + 1 WHERE name = 'policies';

-- name: count_jobs
SELECT count(*) AS jobs
FROM (SELECT FROM job WHERE job.tenant = :tenant AND job.deleted_at IS NULL LIMIT :most) AS found;

-- name: count_waiting
-- How many runs wait in queues or of tenants, each counted up to a bound. Every waiting run is in one of three indexes.
SELECT counted.runs
FROM unnest(:queues::text[], :tenants::text[], :mosts::bigint[]) WITH ORDINALITY AS wanted (queue, tenant, most, place)
CROSS JOIN LATERAL (
    SELECT count(*) AS runs FROM (
        SELECT FROM lane
        CROSS JOIN LATERAL (
            SELECT FROM run
            WHERE run.lane_id = lane.id AND run.state IN ('PENDING', 'RETRYING') AND NOT run.is_parked AND run.crashes = 0
            UNION ALL
            SELECT FROM run
            WHERE run.lane_id = lane.id AND run.state IN ('PENDING', 'RETRYING') AND run.is_parked
            UNION ALL
            SELECT FROM run
            WHERE run.lane_id = lane.id AND run.state IN ('PENDING', 'RETRYING') AND NOT run.is_parked AND run.crashes > 0
        ) AS waiting
        WHERE lane.queue = wanted.queue OR lane.tenant = wanted.tenant
        LIMIT wanted.most
    ) AS found
) AS counted
ORDER BY wanted.place;

-- name: count_running
-- How many runs of some tenants are RUNNING. It looks at all that are, not at the backlog: what is claimed is found by
-- its session.
SELECT lane.tenant, count(*) AS runs
FROM run
CROSS JOIN LATERAL (SELECT lane.tenant FROM lane WHERE lane.id = run.lane_id OFFSET 0) AS lane
WHERE run.claim_number IS NOT NULL AND run.state = 'RUNNING' AND lane.tenant = ANY(:tenants::text[])
GROUP BY lane.tenant;

-- name: lock_permits
-- In order of name. Tenants without a rate are left out.
SELECT tenant.id, tenant.submit_count, tenant.submit_per_ms, tenant.permits, tenant.permits_at
FROM tenant
WHERE tenant.id = ANY(:names::text[]) AND tenant.submit_count IS NOT NULL
ORDER BY tenant.id FOR NO KEY UPDATE;

-- name: write_permits
UPDATE tenant SET permits = wanted.permits, permits_at = wanted.permits_at
FROM unnest(:names::text[], :permits::double precision[], :permits_at::timestamptz[]) AS wanted (id, permits, permits_at)
WHERE tenant.id = wanted.id;
