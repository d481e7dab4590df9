-- What is asked on the connections of callers, within their transactions. Everything else that is executed there is what
-- the store executes on its own. The names of tables get that of their schema in front (see callers.py).

-- name: find_schemas
-- The schemas that hold the store's tables, those of the connection's search path first.
SELECT namespace.nspname::text AS name,
       array_position(pg_catalog.current_schemas(false), namespace.nspname) AS place
FROM pg_catalog.pg_class AS sequence
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = sequence.relnamespace
WHERE sequence.relname = 'run_sequence' AND sequence.relkind = 'S'
  AND EXISTS (
    SELECT FROM pg_catalog.pg_class AS clock
    WHERE clock.relnamespace = sequence.relnamespace AND clock.relname = 'job_clock' AND clock.relkind = 'r'
  )
ORDER BY place NULLS LAST, name;

-- name: read_submitted_job
-- What a submission goes by: the job as it is now, the store's clock, and the expiries of queues. Whether the store is
-- encrypted is asked as look_at_store does.
SELECT
    {job_columns}, clock_timestamp() AS now,
    EXISTS (
        SELECT FROM pg_catalog.pg_class AS class
        JOIN pg_catalog.pg_namespace AS place ON place.oid = class.relnamespace
        WHERE class.relname = 'encryption_key' AND place.nspname = :schema::text
          AND pg_catalog.pg_relation_size(class.oid) > 0
    ) AS is_encrypted,
    ARRAY(SELECT queue.name FROM queue WHERE queue.expires_after_ms IS NOT NULL ORDER BY queue.name) AS queues,
    ARRAY(
        SELECT queue.expires_after_ms FROM queue WHERE queue.expires_after_ms IS NOT NULL ORDER BY queue.name
    ) AS expiries_ms
FROM job
JOIN job_clock ON job_clock.job_id = job.id
JOIN job_version ON job_version.job_id = job.id AND job_version.version = job.version
WHERE job.tenant = :tenant AND job.name = :name AND job.deleted_at IS NULL;

-- name: look_at_store
-- The store's clock, and whether the store is encrypted. A caller may not read the keys: a table that has ever held a row
-- has a size.
SELECT
    clock_timestamp() AS now,
    EXISTS (
        SELECT FROM pg_catalog.pg_class AS class
        JOIN pg_catalog.pg_namespace AS place ON place.oid = class.relnamespace
        WHERE class.relname = 'encryption_key' AND place.nspname = :schema::text
          AND pg_catalog.pg_relation_size(class.oid) > 0
    ) AS is_encrypted;

-- name: read_holders
-- The same as lock_holders, without the locks: a caller's transaction may last, and ends of runs would wait for it.
SELECT run.id, run.state, run.ready_at, run.created_at, run.expires_at
FROM unnest(:run_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM run WHERE run.id = wanted.id LIMIT 1) AS run;

-- name: forbid_commit
-- A transaction in which a statement has failed can only be rolled back, whatever its program does.
DO $$ BEGIN
    RAISE EXCEPTION 'mainspring: the lease of this attempt is over, so its transaction is rolled back';
END $$;
