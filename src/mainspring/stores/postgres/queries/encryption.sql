-- Which keys contents are encrypted with.

-- name: list_encryption_keys
SELECT id, key_check, since FROM encryption_key ORDER BY id;

-- name: add_encryption_key
INSERT INTO encryption_key (id, key_check, since)
VALUES (:id::text, :key_check::bytea, :since::timestamptz) ON CONFLICT (id) DO NOTHING;

-- name: read_encryption_key
SELECT id, key_check, since FROM encryption_key WHERE id = :id::text;

-- name: read_job_tenants
SELECT id, tenant FROM job WHERE id = ANY(:job_ids::uuid[]);
