-- What restricts claims, and the epoch by which every claim keeps it.

-- name: read_restrictions
-- No row if they are still those of the epoch `known`; otherwise one for each pause and each blackout, which has a
-- calendar, or one without any.
SELECT
    revision.number, held.scope, held.name, held.mode, held.note, held.made_by, held.since, held.until,
    held.tenant, held.calendar, held.version, held.is_pinned
FROM revision LEFT JOIN (
    SELECT scope, name, mode, note, made_by, since, until, NULL AS tenant, NULL AS calendar,
        NULL AS version, NULL AS is_pinned
    FROM pause
    UNION ALL
    SELECT scope, name, mode, note, made_by, since, NULL, tenant, calendar, version, is_pinned FROM blackout
) AS held ON true
WHERE revision.name = 'policy_epoch' AND revision.number IS NOT :known;

-- name: raise_policy_epoch
-- The same number as on PostgreSQL.
UPDATE revision SET number = max(number + 1, :now) WHERE name = 'policy_epoch' RETURNING number;

-- name: begin_policy_epoch
-- The same, unless restrictions have changed since an instant.
UPDATE revision SET number = max(number + 1, :now) WHERE name = 'policy_epoch' AND number < :begun_at RETURNING number;

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

-- name: find_blackouts
SELECT scope, name, mode, note, made_by, since, tenant, calendar, version, is_pinned
FROM blackout WHERE scope = :scope AND name = :name;

-- name: delete_blackouts
DELETE FROM blackout WHERE scope = :scope AND name = :name;

-- name: add_blackout
INSERT INTO blackout (scope, name, tenant, calendar, version, is_pinned, mode, note, made_by, since)
VALUES (:scope, :name, :tenant, :calendar, :version, :is_pinned, :mode, :note, :maker, :since);

-- name: follow_calendar
-- Blackouts go by the new version of a calendar that they follow.
UPDATE blackout SET version = :version
WHERE tenant = :tenant AND calendar = :name AND is_pinned = 0
RETURNING calendar;
