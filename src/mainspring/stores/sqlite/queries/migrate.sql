-- The runner's own table.

-- name: make_migration_table
CREATE TABLE IF NOT EXISTS migration (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;

-- name: make_compatibility_table
-- A table of its own, not columns of `migration`: that one is older, and every program that may start on this schema
-- creates it in the same form.
CREATE TABLE IF NOT EXISTS migration_compatibility (
    number INTEGER PRIMARY KEY,
    compatible_from INTEGER NOT NULL
) STRICT;

-- name: read_migrations
SELECT migration.number, migration.checksum, migration_compatibility.compatible_from
FROM migration LEFT JOIN migration_compatibility ON migration_compatibility.number = migration.number;

-- name: add_compatibility
INSERT INTO migration_compatibility (number, compatible_from) VALUES (:number, :compatible_from);

-- name: add_migration
INSERT INTO migration (number, name, checksum, applied_at)
VALUES (:number, :name, :checksum, CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER));
