-- The runner's own table.

-- name: lock_schema
-- Every server may start at once; the others wait here until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('mainspring.schema', 0));

-- name: make_migration_table
CREATE TABLE IF NOT EXISTS migration (
    number integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- name: read_migrations
SELECT number, checksum FROM migration;

-- name: add_migration
INSERT INTO migration (number, name, checksum) VALUES (:number, :name, :checksum);
