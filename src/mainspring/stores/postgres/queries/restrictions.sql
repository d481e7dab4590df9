-- What restricts claims, and the epoch by which every claim keeps it.

-- name: read_restrictions
-- No row if they are still those of the epoch `known`; otherwise one for each pause and each blackout, which has a
-- calendar, or one without any.
SELECT
    revision.number, held.scope, held.name, held.mode, held.note, held.made_by, held.since, held.until,
    held.tenant, held.calendar, held.version, held.is_pinned
FROM revision LEFT JOIN (
    SELECT scope, name, mode, note, made_by, since, until, NULL AS tenant, NULL AS calendar,
        CAST(NULL AS integer) AS version, CAST(NULL AS boolean) AS is_pinned
    FROM pause
    UNION ALL
    SELECT scope, name, mode, note, made_by, since, NULL, tenant, calendar, version, is_pinned FROM blackout
) AS held ON true
WHERE revision.name = 'policy_epoch' AND revision.number IS DISTINCT FROM :known::bigint;

-- name: raise_policy_epoch
-- Whoever changes restrictions writes this first, so one comes after the other. It holds the time, too: after a failover
-- that loses a change, no other change gets the same epoch.
UPDATE revision SET number = greatest(number + 1, floor(extract(epoch FROM :now::timestamptz) * 1000000)::bigint)
WHERE name = 'policy_epoch' RETURNING number;

-- name: begin_policy_epoch
-- The same, unless restrictions have changed since an instant. Of those who come at once, the second finds that they
-- have.
UPDATE revision SET number = greatest(number + 1, floor(extract(epoch FROM :now::timestamptz) * 1000000)::bigint)
WHERE name = 'policy_epoch' AND number < floor(extract(epoch FROM :begun_at::timestamptz) * 1000000)::bigint
RETURNING number;

-- name: list_older_programs
-- Those of servers before a protocol; and workers of a release that does not look at the policy epoch.
SELECT 'worker' AS kind, session.worker AS name, session.host, session.pid FROM session
WHERE session.state = 'live' AND session.policy_epoch IS NULL
UNION ALL
SELECT 'server', node.id, node.host, node.pid FROM node WHERE coalesce(node.protocol, 1) < :protocol
ORDER BY kind, name LIMIT :limit;

-- name: find_pauses
SELECT pause.scope, pause.name, pause.mode, pause.note, pause.made_by, pause.since, pause.until
FROM unnest(:scopes::text[], :names::text[]) AS wanted (scope, name)
JOIN pause ON pause.scope = wanted.scope AND pause.name = wanted.name;

-- name: write_pauses
INSERT INTO pause (scope, name, mode, note, made_by, since, until)
SELECT new.scope, new.name, new.mode, new.note, new.made_by, new.since, new.until
FROM unnest(
    :scopes::text[], :names::text[], :modes::text[], :notes::text[], :makers::text[], :sinces::timestamptz[],
    :untils::timestamptz[]
) AS new (scope, name, mode, note, made_by, since, until)
ON CONFLICT (scope, name) DO UPDATE SET
    mode = excluded.mode, note = excluded.note, made_by = excluded.made_by, since = excluded.since, until = excluded.until;

-- name: delete_pauses
DELETE FROM pause USING unnest(:scopes::text[], :names::text[]) AS gone (scope, name)
WHERE pause.scope = gone.scope AND pause.name = gone.name;

-- name: prune_pauses
DELETE FROM pause WHERE until <= :before;

-- name: raise_session_epochs
-- Every claim changes its session's row. So a claim that is under way has been committed when this returns, or it waits
-- for this and then finds another epoch.
UPDATE session SET policy_epoch = :policy_epoch
WHERE session.id = ANY(ARRAY(
    SELECT live.id FROM session AS live WHERE live.state = 'live' ORDER BY live.id FOR NO KEY UPDATE
));

-- name: find_blackouts
SELECT scope, name, mode, note, made_by, since, tenant, calendar, version, is_pinned
FROM blackout WHERE scope = :scope AND name = :name;

-- name: delete_blackouts
DELETE FROM blackout WHERE scope = :scope AND name = :name;

-- name: add_blackouts
INSERT INTO blackout (scope, name, tenant, calendar, version, is_pinned, mode, note, made_by, since)
SELECT :scope, :name, new.tenant, new.calendar, new.version, new.is_pinned, new.mode, new.note, new.made_by, new.since
FROM unnest(
    :tenants::text[], :calendars::text[], :versions::integer[], :are_pinned::boolean[], :modes::text[], :notes::text[],
    :makers::text[], :sinces::timestamptz[]
) AS new (tenant, calendar, version, is_pinned, mode, note, made_by, since);

-- name: follow_calendars
-- Blackouts go by the new versions of the calendars that they follow.
UPDATE blackout SET version = new.version
FROM unnest(:tenants::text[], :names::text[], :versions::integer[]) AS new (tenant, name, version)
WHERE blackout.tenant = new.tenant AND blackout.calendar = new.name AND NOT blackout.is_pinned
RETURNING blackout.calendar;
