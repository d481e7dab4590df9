-- The settings that every process follows.

-- name: read_policies
-- No row if they are still those of the revision `known`; otherwise one for each tenant and queue, or one without any.
SELECT revision.number, setting.tenant, setting.weight, setting.queue, setting.ordering, setting.aging_ms, setting.aging_share
FROM revision
LEFT JOIN (
    SELECT tenant.id AS tenant, tenant.weight, NULL AS queue, NULL AS ordering, NULL AS aging_ms, NULL AS aging_share
    FROM tenant
    UNION ALL
    SELECT NULL, NULL, queue.name, queue.ordering, queue.aging_ms, queue.aging_share FROM queue
) AS setting ON true
WHERE revision.name = 'policies' AND revision.number IS DISTINCT FROM :known::bigint;

-- name: find_tenants
SELECT id FROM tenant WHERE id = ANY(:names::text[]);

-- name: write_tenants
INSERT INTO tenant (id, weight)
SELECT wanted.id, wanted.weight FROM unnest(:names::text[], :weights::integer[]) AS wanted (id, weight)
ON CONFLICT (id) DO UPDATE SET weight = excluded.weight;

-- name: find_queues
SELECT name FROM queue WHERE name = ANY(:names::text[]);

-- name: write_queues
INSERT INTO queue (name, ordering, aging_ms, aging_share)
SELECT wanted.name, wanted.ordering, wanted.aging_ms, wanted.aging_share
FROM unnest(:names::text[], :orders::text[], :agings::bigint[], :shares::double precision[])
    AS wanted (name, ordering, aging_ms, aging_share)
ON CONFLICT (name) DO UPDATE
SET ordering = excluded.ordering, aging_ms = excluded.aging_ms, aging_share = excluded.aging_share;

-- name: raise_revision
-- Whoever writes settings begins with this, so one comes after the other.
UPDATE revision SET number = number + 1 WHERE name = 'policies';
