-- Priority classes.

-- name: list_priority_classes
SELECT name, tier, preempts, preemptible FROM priority_class ORDER BY name;

-- name: write_priority_classes
-- The arguments are sorted, so that two callers cannot deadlock. A row that was inserted just now has no xmax.
INSERT INTO priority_class (name, tier, preempts, preemptible)
SELECT wanted.name, wanted.tier, wanted.preempts, wanted.preemptible
FROM unnest(:names::text[], :tiers::smallint[], :preempts::boolean[], :preemptible::boolean[])
    AS wanted (name, tier, preempts, preemptible)
ON CONFLICT (name) DO UPDATE
SET tier = excluded.tier, preempts = excluded.preempts, preemptible = excluded.preemptible
RETURNING name, xmax = 0 AS is_new;

-- name: delete_priority_classes
DELETE FROM priority_class WHERE name = ANY(ARRAY(
    SELECT doomed.name FROM priority_class AS doomed WHERE doomed.name = ANY(:names::text[]) ORDER BY doomed.name FOR UPDATE
)) RETURNING name;
