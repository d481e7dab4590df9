-- The runner's own table.

-- name: make_migration_table
CREATE TABLE IF NOT EXISTS migration (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;

-- name: read_migrations
SELECT number, checksum FROM migration;

-- name: add_migration
INSERT INTO migration (number, name, checksum, applied_at)
VALUES (:number, :name, :checksum, CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER));
