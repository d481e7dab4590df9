-- Which keys contents are encrypted with.

-- name: list_encryption_keys
SELECT id, key_check, since FROM encryption_key ORDER BY id;

-- name: add_encryption_key
INSERT INTO encryption_key (id, key_check, since) VALUES (:id, :key_check, :since) ON CONFLICT (id) DO NOTHING;

-- name: read_encryption_key
SELECT id, key_check, since FROM encryption_key WHERE id = :id;

-- name: read_job_tenants
SELECT job.id, job.tenant FROM json_each(:job_ids) AS wanted CROSS JOIN job ON job.id = unhex(wanted.value);
