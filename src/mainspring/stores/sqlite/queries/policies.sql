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
) AS setting
WHERE revision.name = 'policies' AND revision.number IS NOT :known;

-- name: find_tenants
SELECT id FROM tenant WHERE id IN (SELECT value FROM json_each(:names));

-- name: write_tenants
-- The permits stay: a rate that is set again allows no second burst.
INSERT INTO tenant (id, weight, max_queued, max_jobs, submit_count, submit_per_ms, reserved)
SELECT
    json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]'),
    json_extract(value, '$[4]'), json_extract(value, '$[5]'), json_extract(value, '$[6]')
FROM json_each(:tenants) WHERE true
ON CONFLICT (id) DO UPDATE
SET weight = excluded.weight, max_queued = excluded.max_queued, max_jobs = excluded.max_jobs,
    submit_count = excluded.submit_count, submit_per_ms = excluded.submit_per_ms, reserved = excluded.reserved;

-- name: find_queues
SELECT name FROM queue WHERE name IN (SELECT value FROM json_each(:names));

-- name: write_queues
INSERT INTO queue (name, ordering, aging_ms, aging_share, max_queued, expires_after_ms, preempt_after_ms)
SELECT
    json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]'),
    json_extract(value, '$[4]'), json_extract(value, '$[5]'), json_extract(value, '$[6]')
FROM json_each(:queues) WHERE true
ON CONFLICT (name) DO UPDATE
SET ordering = excluded.ordering, aging_ms = excluded.aging_ms, aging_share = excluded.aging_share,
    max_queued = excluded.max_queued, expires_after_ms = excluded.expires_after_ms,
    preempt_after_ms = excluded.preempt_after_ms;

-- name: raise_revision
UPDATE revision SET number = number + 1 WHERE name = 'policies';

-- name: count_jobs
SELECT count(*) AS jobs
FROM (SELECT 1 FROM job WHERE job.tenant = :tenant AND job.deleted_at IS NULL LIMIT :most) AS found;

-- name: count_waiting
-- How many runs wait in a queue or of a tenant, counted up to a bound. Every waiting run is in one of three indexes.
SELECT count(*) AS runs FROM (
    SELECT 1 FROM lane CROSS JOIN run INDEXED BY run_ready ON run.lane_id = lane.id
    WHERE (lane.queue = :queue OR lane.tenant = :tenant)
      AND run.state IN ('PENDING', 'RETRYING') AND NOT run.is_parked AND run.crashes = 0
    UNION ALL
    SELECT 1 FROM lane CROSS JOIN run INDEXED BY run_waiting ON run.lane_id = lane.id
    WHERE (lane.queue = :queue OR lane.tenant = :tenant)
      AND run.state IN ('PENDING', 'RETRYING') AND run.is_parked
    UNION ALL
    SELECT 1 FROM lane CROSS JOIN run INDEXED BY run_quarantined ON run.lane_id = lane.id
    WHERE (lane.queue = :queue OR lane.tenant = :tenant)
      AND run.state IN ('PENDING', 'RETRYING') AND NOT run.is_parked AND run.crashes > 0
    LIMIT :most
);

-- name: count_running
-- How many runs of some tenants are RUNNING. It looks at all that are, not at the backlog. What the engine holds (session 0)
-- takes no slot.
SELECT lane.tenant, count(*) AS runs
FROM run INDEXED BY run_held CROSS JOIN lane ON lane.id = run.lane_id
WHERE run.state = 'RUNNING' AND run.session_id > 0 AND lane.tenant IN (SELECT value FROM json_each(:tenants))
GROUP BY lane.tenant;

-- name: lock_permits
-- Tenants without a rate are left out.
SELECT tenant.id, tenant.submit_count, tenant.submit_per_ms, tenant.permits, tenant.permits_at
FROM tenant
WHERE tenant.id IN (SELECT value FROM json_each(:names)) AND tenant.submit_count IS NOT NULL;

-- name: write_permits
UPDATE tenant SET permits = :permits, permits_at = :permits_at WHERE id = :name;
