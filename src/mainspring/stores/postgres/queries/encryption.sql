-- Which keys contents are encrypted with.

-- name: list_encryption_keys
SELECT id, key_check, since FROM encryption_key ORDER BY id;

-- name: add_encryption_key
INSERT INTO encryption_key (id, key_check, since)
VALUES (:id::text, :key_check::bytea, :since::timestamptz) ON CONFLICT (id) DO NOTHING;

-- name: shut_out_older_programs
-- Programs that do not know this migration do not start any more.
UPDATE migration_compatibility SET compatible_from = number
WHERE number = :number::integer AND compatible_from < number;

-- name: read_encryption_key
SELECT id, key_check, since FROM encryption_key WHERE id = :id::text;

-- name: read_job_tenants
SELECT id, tenant FROM job WHERE id = ANY(:job_ids::uuid[]);

-- name: count_key_uses
-- What begins like a ciphertext of one key.
SELECT
    (
        SELECT count(*) FROM job JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
        WHERE job.deleted_at IS NULL
          AND EXISTS (
            SELECT FROM unnest(:definitions::bytea[]) AS head WHERE position(head IN job_version.spec) > 0
          )
    ) AS jobs,
    (SELECT count(*) FROM run WHERE substr(run.payload, 1, length(:data::bytea)) = :data::bytea) AS runs,
    (
        SELECT count(*) FROM dead_run
        WHERE dead_run.settled_at IS NULL AND (
            substr(dead_run.payload, 1, length(:data::bytea)) = :data::bytea
            OR starts_with(dead_run.error, :text::text) OR starts_with(dead_run.output, :text::text)
        )
    ) AS dead_runs;
