-- Monitors of jobs that run elsewhere.

-- name: add_monitor
INSERT INTO monitor (tenant, name, key_hash, monitor, due_at)
VALUES (:tenant, :name, :key_hash, :monitor, :due_at)
ON CONFLICT (tenant, name) DO NOTHING
RETURNING id;

-- name: save_monitor
UPDATE monitor SET monitor = :monitor, due_at = :due_at, revision = revision + 1
WHERE id = :monitor_id AND revision = :revision
RETURNING id;

-- name: delete_monitor
DELETE FROM monitor WHERE tenant = :tenant AND name = :name RETURNING id;

-- name: get_monitor
SELECT {monitor.monitor_columns} FROM monitor WHERE monitor.tenant = :tenant AND monitor.name = :name;

-- name: find_monitor
SELECT {monitor.monitor_columns} FROM monitor WHERE monitor.key_hash = :key_hash;

-- name: list_monitors
SELECT {monitor.monitor_columns} FROM monitor WHERE monitor.tenant = :tenant ORDER BY monitor.name;

-- name: list_all_monitors
SELECT {monitor.monitor_columns} FROM monitor ORDER BY monitor.tenant, monitor.name LIMIT :limit;

-- name: list_overdue_monitors
SELECT {monitor.monitor_columns} FROM monitor
WHERE monitor.due_at < :now ORDER BY monitor.due_at, monitor.id LIMIT :limit;
