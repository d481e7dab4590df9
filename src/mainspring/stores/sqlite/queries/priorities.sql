-- Priority classes.

-- name: list_priority_classes
SELECT name, tier, preempts, preemptible FROM priority_class ORDER BY name;

-- name: find_priority_classes
SELECT name FROM priority_class WHERE name IN (SELECT value FROM json_each(:names));

-- name: write_priority_class
INSERT INTO priority_class (name, tier, preempts, preemptible) VALUES (:name, :tier, :preempts, :preemptible)
ON CONFLICT (name) DO UPDATE
SET tier = excluded.tier, preempts = excluded.preempts, preemptible = excluded.preemptible;

-- name: delete_priority_classes
DELETE FROM priority_class WHERE name IN (SELECT value FROM json_each(:names));
