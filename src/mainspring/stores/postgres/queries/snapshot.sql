-- Reads the parts of the schema, for the snapshot that the tests compare.

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
  -- Months are there from the start, and which ones depends on the day.
  AND class.relname !~ '^audit_[0-9]{6}$'
ORDER BY class.relname COLLATE "C", attribute.attnum;

-- name: describe_constraints
SELECT class.relname AS owner, con.conname AS name, pg_get_constraintdef(con.oid) AS definition
FROM pg_constraint AS con JOIN pg_class AS class ON class.oid = con.conrelid
WHERE class.relnamespace = current_schema()::regnamespace AND con.contype IN ('c', 'p', 'u')
ORDER BY con.conname COLLATE "C", class.relname COLLATE "C";

-- name: describe_indexes
-- Indexes of constraints are described with their constraints.
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
UNION ALL
SELECT 'TRIGGER ' || tgname || ' ON ' || pg_class.relname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
WHERE relnamespace = current_schema()::regnamespace AND NOT tgisinternal AND tgparentid = 0
  AND (NOT relispartition OR relname ~ '_default$')
ORDER BY name;
