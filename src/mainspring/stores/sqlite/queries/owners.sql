-- Which jobs come from the code of which owner.

-- name: lock_owned
SELECT job.id, job.name, job.owner, job.undefined_since
FROM job
WHERE job.id IN (
    SELECT named.id
    FROM json_each(:names) AS wanted
    CROSS JOIN job AS named ON named.tenant = :tenant AND named.name = wanted.value AND named.deleted_at IS NULL
    UNION
    SELECT owned.id FROM job AS owned
    WHERE owned.tenant = :tenant AND owned.deleted_at IS NULL
      AND owned.owner IN (SELECT value FROM json_each(:owners))
    UNION
    SELECT unhex(value) FROM json_each(:job_ids)
)
ORDER BY job.id;

-- name: define_jobs
UPDATE job SET owner = :owner, undefined_since = NULL WHERE id IN (SELECT unhex(value) FROM json_each(:job_ids));

-- name: undefine_jobs
UPDATE job SET undefined_since = :now WHERE id IN (SELECT unhex(value) FROM json_each(:job_ids));

-- name: raise_clocks
-- A deletion that was decided before loses (law 2).
UPDATE job_clock SET revision = revision + 1 WHERE job_id IN (SELECT unhex(value) FROM json_each(:job_ids));

-- name: list_owned
SELECT {job_columns}
FROM job
JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
JOIN job_clock ON job_clock.job_id = job.id
WHERE job.tenant = :tenant AND job.owner = :owner AND job.deleted_at IS NULL AND job.id > :after
ORDER BY job.id
LIMIT :limit;

-- name: list_undefined
SELECT {job_columns}
FROM job INDEXED BY job_undefined
JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
JOIN job_clock ON job_clock.job_id = job.id
WHERE job.tenant = :tenant AND job.undefined_since IS NOT NULL AND job.deleted_at IS NULL AND job.id > :after
  AND (:owner IS NULL OR job.owner = :owner)
ORDER BY job.id
LIMIT :limit;

-- name: page_jobs
SELECT {job_columns}
FROM job INDEXED BY job_page
JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
JOIN job_clock ON job_clock.job_id = job.id
WHERE job.deleted_at IS NULL AND (job.tenant, job.id) > (:tenant, :after)
ORDER BY job.tenant, job.id
LIMIT :limit;
