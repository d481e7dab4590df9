-- The settings that every process follows.

-- name: read_policies
-- No row if they are still those of the revision `known`; otherwise one for each tenant, or one without a tenant.
SELECT revision.number, tenant.id AS tenant, tenant.weight
FROM revision LEFT JOIN tenant
WHERE revision.name = 'policies' AND revision.number IS NOT :known;

-- name: find_tenants
SELECT id FROM tenant WHERE id IN (SELECT value FROM json_each(:names));

-- name: write_tenants
INSERT INTO tenant (id, weight)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:tenants) WHERE true
ON CONFLICT (id) DO UPDATE SET weight = excluded.weight;

-- name: raise_revision
UPDATE revision SET number = number + 1 WHERE name = 'policies';
