-- The settings that every process follows.

-- name: read_policies
-- No row if they are still those of the revision `known`; otherwise one for each tenant, or one without a tenant.
SELECT revision.number, tenant.id AS tenant, tenant.weight
FROM revision LEFT JOIN tenant ON true
WHERE revision.name = 'policies' AND revision.number IS DISTINCT FROM :known::bigint;

-- name: find_tenants
SELECT id FROM tenant WHERE id = ANY(:names::text[]);

-- name: write_tenants
INSERT INTO tenant (id, weight)
SELECT wanted.id, wanted.weight FROM unnest(:names::text[], :weights::integer[]) AS wanted (id, weight)
ON CONFLICT (id) DO UPDATE SET weight = excluded.weight;

-- name: raise_revision
-- Whoever writes settings begins with this, so one comes after the other.
UPDATE revision SET number = number + 1 WHERE name = 'policies';
