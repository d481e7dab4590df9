-- Events, and which jobs they start.

-- name: list_listeners
-- In one order, so that clocks are locked in it, too.
SELECT wanted.place, found.job_id, found.version, found.is_paused
FROM unnest(:tenants::text[], :topics::text[]) WITH ORDINALITY AS wanted (tenant, topic, place)
CROSS JOIN LATERAL (
    SELECT job.id AS job_id, job.version, job.is_paused
    FROM listener JOIN job ON job.id = listener.job_id
    WHERE listener.tenant = wanted.tenant AND listener.kind = 'topic' AND listener.name = wanted.topic
      AND coalesce(job.deleted_at, 'infinity') = 'infinity'
) AS found
ORDER BY wanted.place, found.job_id;

-- name: reserve_event_ids
-- Takes the free ids, in the order given. Whose time is over is free again.
INSERT INTO idempotency AS known (tenant, key, run_id, request_hash, expires_at)
SELECT tenant, key, 0, request_hash, expires_at
FROM unnest(:tenants::text[], :keys::text[], :request_hashes::bytea[], :expiries_at::timestamptz[])
    AS new (tenant, key, request_hash, expires_at)
ON CONFLICT (tenant, key) DO UPDATE
SET run_id = 0, request_hash = excluded.request_hash, expires_at = excluded.expires_at, verdict = NULL
WHERE known.expires_at <= :now
RETURNING known.tenant, known.key;

-- name: add_events
INSERT INTO event (tenant, id, topic, key, data, received_at)
SELECT new.tenant, new.id, new.topic, new.key, new.data, :now::timestamptz
FROM unnest(:tenants::text[], :ids::text[], :topics::text[], :keys::text[], :datas::bytea[])
    WITH ORDINALITY AS new (tenant, id, topic, key, data, place)
ORDER BY new.place;

-- name: list_events
SELECT event.number, event.tenant, event.id, event.topic, event.key, event.data, event.received_at
FROM event
WHERE event.tenant = :tenant AND event.number < :before::bigint
ORDER BY event.number DESC LIMIT :limit;

-- name: list_events_of_topic
SELECT event.number, event.tenant, event.id, event.topic, event.key, event.data, event.received_at
FROM event
WHERE event.tenant = :tenant AND event.topic = :topic AND event.number < :before::bigint
ORDER BY event.number DESC LIMIT :limit;

-- name: keep_listeners
INSERT INTO listener (job_id, kind, name, tenant)
SELECT new.job_id, 'topic', new.name, new.tenant
FROM unnest(:job_ids::uuid[], :names::text[], :tenants::text[]) AS new (job_id, name, tenant)
ON CONFLICT (job_id) DO UPDATE SET name = excluded.name;

-- name: drop_listeners
DELETE FROM listener WHERE listener.job_id = ANY(:job_ids::uuid[]);

-- name: prepare_events
SELECT prepare_events(:now::timestamptz, 2);

-- name: list_closed_event_days
SELECT to_date(right(day.relname, 8), 'YYYYMMDD') AS day
FROM pg_inherits
JOIN pg_class AS day ON day.oid = pg_inherits.inhrelid
WHERE pg_inherits.inhparent = 'event'::regclass
  AND day.relname ~ '_[0-9]{8}$'
  AND (to_date(right(day.relname, 8), 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC' <= :before::timestamptz
ORDER BY 1;

-- name: list_detached_event_days
-- Of a process that died before it could drop them.
SELECT relname AS name FROM pg_class
WHERE relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'event'::regclass)
  AND relkind = 'r' AND relname ~ '^dropped_event_[0-9]{8}$';

-- name: detach_event_day
SELECT detach_event_day(:day::date) AS is_detached;

-- name: prune_events
-- Those of the days for which no partition could be made in time.
DELETE FROM event_default WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM event_default WHERE received_at < :before LIMIT :limit FOR UPDATE SKIP LOCKED
));
