-- Which keys contents are encrypted with.

-- name: list_encryption_keys
SELECT id, key_check, since FROM encryption_key ORDER BY id;

-- name: add_encryption_key
INSERT INTO encryption_key (id, key_check, since) VALUES (:id, :key_check, :since) ON CONFLICT (id) DO NOTHING;

-- name: shut_out_older_programs
-- Programs that do not know this migration do not start any more.
UPDATE migration_compatibility SET compatible_from = number WHERE number = :number AND compatible_from < number;

-- name: read_encryption_key
SELECT id, key_check, since FROM encryption_key WHERE id = :id;

-- name: read_job_tenants
SELECT job.id, job.tenant FROM json_each(:job_ids) AS wanted CROSS JOIN job ON job.id = unhex(wanted.value);

-- name: count_key_uses
-- What begins like a ciphertext of one key.
SELECT
    (
        SELECT count(*) FROM job JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
        WHERE job.deleted_at IS NULL
          AND EXISTS (
            SELECT 1 FROM json_each(:definitions) AS head WHERE instr(CAST(job_version.spec AS TEXT), head.value) > 0
          )
    ) AS jobs,
    (SELECT count(*) FROM run WHERE substr(run.payload, 1, length(:data)) = :data) AS runs,
    (
        SELECT count(*) FROM dead_run
        WHERE dead_run.settled_at IS NULL AND (
            substr(dead_run.payload, 1, length(:data)) = :data
            OR substr(dead_run.error, 1, length(:text)) = :text OR substr(dead_run.output, 1, length(:text)) = :text
        )
    ) AS dead_runs;
