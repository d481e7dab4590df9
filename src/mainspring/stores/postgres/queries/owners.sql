-- Which jobs come from the code of which owner.

-- name: lock_owners
-- One after the other: who says which jobs an owner defines has to see what was said before, also of other jobs.
SELECT pg_advisory_xact_lock(hashtextextended(concat_ws('/', 'mainspring.owner', :tenant::text, owner), 0))
FROM unnest(:owners::text[]) AS wanted (owner);

-- name: lock_owned
-- In id order, with what else is to change. A job that changes its owner in between waits here, and is seen as it is
-- then.
SELECT job.id, job.name, job.owner, job.undefined_since
FROM job
WHERE job.id = ANY(ARRAY(
    SELECT named.id FROM job AS named
    WHERE named.tenant = :tenant AND named.name = ANY(:names::text[]) AND named.deleted_at IS NULL
    UNION
    SELECT owned.id FROM job AS owned
    WHERE owned.tenant = :tenant AND owned.owner = ANY(:owners::text[]) AND owned.deleted_at IS NULL
    UNION
    SELECT unnest(:job_ids::uuid[])
)) AND coalesce(job.deleted_at, 'infinity') = 'infinity'
ORDER BY job.id
FOR NO KEY UPDATE;

-- name: define_jobs
UPDATE job SET owner = :owner, undefined_since = NULL WHERE id = ANY(:job_ids::uuid[]);

-- name: undefine_jobs
UPDATE job SET undefined_since = :now WHERE id = ANY(:job_ids::uuid[]);

-- name: raise_clocks
-- A deletion that was decided before loses (law 2).
UPDATE job_clock SET revision = revision + 1 WHERE job_id = ANY(:job_ids::uuid[]);

-- name: list_owned
SELECT {job_columns}
FROM job
JOIN job_clock ON job_clock.job_id = job.id
JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
WHERE job.tenant = :tenant AND job.owner = :owner AND job.deleted_at IS NULL AND job.id > :after
ORDER BY job.id LIMIT :limit;

-- name: list_undefined
SELECT {job_columns}
FROM job
JOIN job_clock ON job_clock.job_id = job.id
JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
WHERE job.tenant = :tenant AND job.undefined_since IS NOT NULL AND job.deleted_at IS NULL AND job.id > :after
  AND (:owner::text IS NULL OR job.owner = :owner)
ORDER BY job.id LIMIT :limit;

-- name: page_jobs
SELECT {job_columns}
FROM job
JOIN job_clock ON job_clock.job_id = job.id
JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
WHERE job.deleted_at IS NULL AND (job.tenant, job.id) > (:tenant, :after::uuid)
ORDER BY job.tenant, job.id LIMIT :limit;
