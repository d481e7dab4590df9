-- The runner's own table.

-- name: lock_schema
-- Every server may start at once; the others wait here until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('mainspring.schema', 0));

-- name: hold_schema
-- The same lock, until the connection ends.
SELECT pg_advisory_lock(hashtextextended('mainspring.schema', 0));

-- name: find_restore_mark
-- A restore that is not done has left its mark. It may be in any schema: a backup is of the whole database.
SELECT 'DROP TABLE ' || quote_ident(namespace.nspname) || '.mainspring_restoring' AS removing
FROM pg_catalog.pg_class AS class
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
WHERE class.relname = 'mainspring_restoring' AND class.relkind = 'r';

-- name: limit_lock_waits
-- A change of a table waits for those who use it, and everyone who comes later waits behind that change.
SET LOCAL lock_timeout = '2s';

-- name: let_others_pass
SELECT pg_sleep(:seconds);

-- name: make_migration_table
CREATE TABLE IF NOT EXISTS migration (
    number integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- name: make_compatibility_table
-- A table of its own, not columns of `migration`: that one is older, and every program that may start on this schema
-- creates it in the same form.
CREATE TABLE IF NOT EXISTS migration_compatibility (
    number integer PRIMARY KEY,
    compatible_from integer NOT NULL
);

-- name: read_migrations
SELECT migration.number, migration.checksum, migration_compatibility.compatible_from
FROM migration LEFT JOIN migration_compatibility ON migration_compatibility.number = migration.number;

-- name: add_compatibility
INSERT INTO migration_compatibility (number, compatible_from) VALUES (:number, :compatible_from);

-- name: add_migration
INSERT INTO migration (number, name, checksum) VALUES (:number, :name, :checksum);

-- name: read_running
-- Works on older schemas too: some have no periods, which are read as null.
SELECT
    'server' AS kind, node.id, node.version AS name, node.host, node.pid, node.beats,
    (to_jsonb(node) ->> 'period')::interval AS period
FROM node
UNION ALL
SELECT
    'worker', session.id::text, session.worker, session.host, session.pid, session.beats,
    (to_jsonb(session) ->> 'beat_period')::interval
FROM session
WHERE session.state = 'live'
ORDER BY 1, 2;
