-- Objectives: how many runs are to start in time, or to succeed.

-- name: find_slo
SELECT 1 FROM slo WHERE slo.tenant = :tenant AND slo.name = :name;

-- name: put_slo
INSERT INTO slo (tenant, name, settings) VALUES (:tenant, :name, :settings)
ON CONFLICT (tenant, name) DO UPDATE SET settings = excluded.settings;

-- name: delete_slo
DELETE FROM slo WHERE tenant = :tenant AND name = :name RETURNING name;

-- name: list_slos
SELECT slo.tenant, slo.name, slo.settings FROM slo WHERE :tenant IS NULL OR slo.tenant = :tenant
ORDER BY slo.tenant, slo.name;
