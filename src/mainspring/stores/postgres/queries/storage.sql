-- How much room the database takes.

-- name: read_storage
-- The folder only where this user may know it, and only over a socket of the server's own machine.
SELECT
    pg_database_size(current_database()) AS size,
    coalesce(sum(pg_total_relation_size(part.oid)), 0)::bigint AS history,
    coalesce(sum(part.reltuples) FILTER (WHERE part.relname ~ '^run_history_' AND part.reltuples > 0), 0)::bigint
        AS history_rows,
    CASE
        WHEN inet_server_addr() IS NOT NULL THEN NULL
        WHEN (SELECT pg_tablespace_location(dattablespace) FROM pg_database WHERE datname = current_database()) <> ''
            THEN (SELECT pg_tablespace_location(dattablespace) FROM pg_database WHERE datname = current_database())
        WHEN pg_has_role('pg_read_all_settings', 'USAGE') THEN current_setting('data_directory')
    END AS folder
FROM pg_inherits
JOIN pg_class AS part ON part.oid = pg_inherits.inhrelid
WHERE pg_inherits.inhparent IN ('run_history'::regclass, 'attempt'::regclass);
