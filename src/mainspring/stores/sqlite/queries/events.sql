-- Events, and which jobs they start.

-- name: list_listeners
SELECT job.id AS job_id, job.version, job.is_paused
FROM listener JOIN job ON job.id = listener.job_id
WHERE listener.tenant = :tenant AND listener.kind = 'topic' AND listener.name = :topic AND job.deleted_at IS NULL
ORDER BY listener.job_id;

-- name: reserve_event_id
-- Takes an id that is free, or whose time is over.
INSERT INTO idempotency (tenant, key, run_id, request_hash, expires_at)
VALUES (:tenant, :key, 0, :request_hash, :expiry_at)
ON CONFLICT (tenant, key) DO UPDATE
SET run_id = 0, request_hash = excluded.request_hash, expires_at = excluded.expires_at, verdict = NULL
WHERE idempotency.expires_at <= :now
RETURNING run_id;

-- name: add_event
INSERT INTO event (tenant, id, topic, key, data, received_at)
VALUES (:tenant, :id, :topic, :key, :data, :now);

-- name: list_events
SELECT event.number, event.tenant, event.id, event.topic, event.key, event.data, event.received_at
FROM event
WHERE event.tenant = :tenant AND event.number < :before
ORDER BY event.number DESC LIMIT :limit;

-- name: list_events_of_topic
SELECT event.number, event.tenant, event.id, event.topic, event.key, event.data, event.received_at
FROM event
WHERE event.tenant = :tenant AND event.topic = :topic AND event.number < :before
ORDER BY event.number DESC LIMIT :limit;

-- name: keep_listener
INSERT INTO listener (job_id, kind, name, tenant) VALUES (:job_id, 'topic', :name, :tenant)
ON CONFLICT (job_id) DO UPDATE SET name = excluded.name;

-- name: drop_listener
DELETE FROM listener WHERE listener.job_id = :job_id;

-- name: prune_events
DELETE FROM event WHERE number IN (SELECT number FROM event WHERE received_at < :before ORDER BY received_at LIMIT :limit);
