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
) AS setting
WHERE revision.name = 'policies' AND revision.number IS NOT :known;

-- name: find_tenants
SELECT id FROM tenant WHERE id IN (SELECT value FROM json_each(:names));

-- name: write_tenants
INSERT INTO tenant (id, weight)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:tenants) WHERE true
ON CONFLICT (id) DO UPDATE SET weight = excluded.weight;

-- name: find_queues
SELECT name FROM queue WHERE name IN (SELECT value FROM json_each(:names));

-- name: write_queues
INSERT INTO queue (name, ordering, aging_ms, aging_share)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]')
FROM json_each(:queues) WHERE true
ON CONFLICT (name) DO UPDATE
SET ordering = excluded.ordering, aging_ms = excluded.aging_ms, aging_share = excluded.aging_share;

-- name: raise_revision
UPDATE revision SET number = number + 1 WHERE name = 'policies';
