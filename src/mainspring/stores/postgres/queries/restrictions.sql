-- What restricts claims, and the epoch by which every claim keeps it.

-- name: read_restrictions
-- No row if they are still those of the epoch `known`; otherwise one for each pause, or one without any.
SELECT
    revision.number, pause.scope, pause.name, pause.mode, pause.note, pause.made_by, pause.since, pause.until
FROM revision LEFT JOIN pause ON true
WHERE revision.name = 'policy_epoch' AND revision.number IS DISTINCT FROM :known::bigint;

-- name: raise_policy_epoch
-- Whoever changes restrictions writes this first, so one comes after the other. It holds the time, too: after a failover
-- that loses a change, no other change gets the same epoch.
UPDATE revision SET number = greatest(number + 1, floor(extract(epoch FROM :now::timestamptz) * 1000000)::bigint)
WHERE name = 'policy_epoch' RETURNING number;

-- name: list_older_programs
-- Those that do not look at the policy epoch.
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
