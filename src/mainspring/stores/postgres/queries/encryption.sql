-- Which keys contents are encrypted with.

-- name: list_encryption_keys
SELECT id, key_check, since FROM encryption_key ORDER BY id;

-- name: find_encryption
-- Whether there are keys, for those who may not read them: a table that has ever held a row has a size.
SELECT FROM pg_class AS class JOIN pg_namespace AS place ON place.oid = class.relnamespace
WHERE class.relname = 'encryption_key' AND place.nspname = :schema::text AND pg_relation_size(class.oid) > 0;

-- name: add_encryption_key
INSERT INTO encryption_key (id, key_check, since)
VALUES (:id::text, :key_check::bytea, :since::timestamptz) ON CONFLICT (id) DO NOTHING;

-- name: read_encryption_key
SELECT id, key_check, since FROM encryption_key WHERE id = :id::text;

-- name: read_job_tenants
SELECT id, tenant FROM job WHERE id = ANY(:job_ids::uuid[]);
