-- Keys of what runs once. Nothing is written when a run ends: a key whose run is gone from `run` is void.

-- name: read_unique_key
-- With its holder, as far as that is live.
SELECT
    run_unique.run_id, run_unique.expires_at, run.state, run.ready_at, run.created_at,
    run.expires_at AS run_expires_at
FROM run_unique
LEFT JOIN run ON run.id = run_unique.run_id
WHERE run_unique.tenant = :tenant AND run_unique.job_id = :job_id AND run_unique.key = :unique_key;

-- name: take_unique_key
INSERT INTO run_unique (tenant, job_id, key, run_id, expires_at)
VALUES (:tenant, :job_id, :unique_key, :run_id, :expiry_at)
ON CONFLICT (tenant, job_id, key) DO UPDATE SET run_id = excluded.run_id, expires_at = excluded.expires_at;

-- name: replace_waiting
-- A debounced run is only put off, so no reader that begins at an older `ready_at` misses it. When it was due stays as
-- it is once it was started.
UPDATE run SET
    payload = :payload, ready_at = ready_at + :shift, due_at = due_at + iif(token = 0, :shift, 0),
    expires_at = expires_at + :shift
WHERE id = :run_id AND session_id IS NULL;

-- name: find_unique_keys
SELECT
    tenant, job_id, key,
    CASE
        WHEN expires_at IS NULL THEN NOT EXISTS (SELECT 1 FROM run WHERE run.id = run_unique.run_id)
        ELSE expires_at <= :now
    END AS is_void
FROM run_unique
WHERE (tenant, job_id, key) > (:tenant, :job_id, :unique_key)
ORDER BY tenant, job_id, key
LIMIT :limit;

-- name: delete_unique_key
DELETE FROM run_unique WHERE tenant = :tenant AND job_id = :job_id AND key = :unique_key;
