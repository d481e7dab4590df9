-- The runner's own table.

-- name: lock_schema
-- Every server may start at once; the others wait here until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('mainspring.schema', 0));

-- name: limit_lock_waits
-- A change of a table waits for whoever uses it, and everybody who comes later waits behind that change.
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
-- Beside `migration`, not in it: that table is older, and every program that may start on this schema makes it alike.
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
-- Whatever older schema this is: some have no periods, and these are read as null.
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

-- name: describe_columns
SELECT
    class.relname AS owner, class.relkind::text AS kind, attribute.attname AS name,
    format_type(attribute.atttypid, attribute.atttypmod) AS type, attribute.attnotnull AS is_required,
    attribute.attidentity <> '' AS is_identity, pg_get_expr(attrdef.adbin, attrdef.adrelid) AS default_text,
    pg_get_partkeydef(class.oid) AS partition_key, pg_get_expr(class.relpartbound, class.oid) AS partition_bound,
    array_to_string(class.reloptions, ', ') AS options
FROM pg_class AS class
JOIN pg_attribute AS attribute ON attribute.attrelid = class.oid AND attribute.attnum > 0 AND NOT attribute.attisdropped
LEFT JOIN pg_attrdef AS attrdef ON attrdef.adrelid = class.oid AND attrdef.adnum = attribute.attnum
WHERE class.relnamespace = current_schema()::regnamespace AND class.relkind IN ('r', 'p', 'v')
ORDER BY class.relname COLLATE "C", attribute.attnum;

-- name: describe_constraints
SELECT class.relname AS owner, con.conname AS name, pg_get_constraintdef(con.oid) AS definition
FROM pg_constraint AS con JOIN pg_class AS class ON class.oid = con.conrelid
WHERE class.relnamespace = current_schema()::regnamespace AND con.contype IN ('c', 'p', 'u')
ORDER BY con.conname COLLATE "C", class.relname COLLATE "C";

-- name: describe_indexes
-- Those of a constraint are told with it.
SELECT class.relname AS owner, pg_get_indexdef(entry.indexrelid) AS definition
FROM pg_index AS entry JOIN pg_class AS class ON class.oid = entry.indrelid
WHERE class.relnamespace = current_schema()::regnamespace
  AND NOT EXISTS (SELECT FROM pg_constraint WHERE pg_constraint.conindid = entry.indexrelid)
ORDER BY 2;

-- name: describe_others
SELECT 'FUNCTION ' || oid::regprocedure::text AS name FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
UNION ALL
SELECT 'SEQUENCE ' || relname FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind = 'S'
ORDER BY name;
