-- How much room the database takes.

-- name: read_storage
SELECT
    pg_database_size(current_database()) AS size,
    coalesce(sum(pg_total_relation_size(part.oid)), 0)::bigint AS history,
    coalesce(sum(part.reltuples) FILTER (WHERE part.relname ~ '^run_history_' AND part.reltuples > 0), 0)::bigint
        AS history_rows,
    {store_folder}
FROM pg_inherits
JOIN pg_class AS part ON part.oid = pg_inherits.inhrelid
WHERE pg_inherits.inhparent IN ('run_history'::regclass, 'attempt'::regclass);
