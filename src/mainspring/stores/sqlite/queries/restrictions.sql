-- What restricts claims, and the epoch by which every claim keeps it.

-- name: read_restrictions
-- No row if they are still those of the epoch `known`; otherwise one for each pause, or one without any.
SELECT
    revision.number, pause.scope, pause.name, pause.mode, pause.note, pause.made_by, pause.since, pause.until
FROM revision LEFT JOIN pause ON true
WHERE revision.name = 'policy_epoch' AND revision.number IS NOT :known;

-- name: raise_policy_epoch
-- The same number as on PostgreSQL.
UPDATE revision SET number = max(number + 1, :now) WHERE name = 'policy_epoch' RETURNING number;

-- name: find_pause
SELECT pause.scope, pause.name, pause.mode, pause.note, pause.made_by, pause.since, pause.until
FROM pause WHERE pause.scope = :scope AND pause.name = :name;

-- name: write_pause
INSERT INTO pause (scope, name, mode, note, made_by, since, until)
VALUES (:scope, :name, :mode, :note, :maker, :since, :until)
ON CONFLICT (scope, name) DO UPDATE SET
    mode = excluded.mode, note = excluded.note, made_by = excluded.made_by, since = excluded.since, until = excluded.until;

-- name: delete_pause
DELETE FROM pause WHERE scope = :scope AND name = :name;

-- name: prune_pauses
DELETE FROM pause WHERE until <= :before;

-- name: raise_session_epochs
UPDATE session SET policy_epoch = :policy_epoch WHERE state = 'live';
