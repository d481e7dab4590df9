-- What became of runs, minute by minute and hour by hour.

-- name: write_usage
INSERT INTO usage_minute (at, tenant, queue, process, body) VALUES (:at, :tenant, :queue, :process, :body)
ON CONFLICT (at, tenant, queue, process) DO UPDATE SET body = excluded.body;

-- name: list_usage_minutes
SELECT at, tenant, queue, body FROM usage_minute
WHERE at >= :since AND at < :until AND (:tenant IS NULL OR tenant = :tenant)
  AND (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))
ORDER BY at, tenant, queue, process;

-- name: list_usage_hours
SELECT at, tenant, queue, body FROM usage_hour
WHERE at >= :since AND at < :until AND (:tenant IS NULL OR tenant = :tenant)
  AND (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))
ORDER BY at, tenant, queue;

-- name: write_usage_hours
INSERT INTO usage_hour (at, tenant, queue, body) VALUES (:at, :tenant, :queue, :body)
ON CONFLICT (at, tenant, queue) DO UPDATE SET body = excluded.body;

-- name: prune_usage_minutes
DELETE FROM usage_minute WHERE (at, tenant, queue, process) IN (
    SELECT at, tenant, queue, process FROM usage_minute WHERE at < :before
    ORDER BY at, tenant, queue, process LIMIT :limit
)
RETURNING 1 AS removed;

-- name: prune_usage_hours
DELETE FROM usage_hour WHERE (at, tenant, queue) IN (
    SELECT at, tenant, queue FROM usage_hour WHERE at < :before ORDER BY at, tenant, queue LIMIT :limit
)
RETURNING 1 AS removed;
