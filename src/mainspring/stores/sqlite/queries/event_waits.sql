-- Waits of flows for events. There is one writer, so a wait and an event of its topic never pass each other.

-- name: find_kept_event
-- The first event that has met a wait before it was opened.
SELECT number, data FROM event INDEXED BY event_key
WHERE tenant = :tenant AND topic = :topic AND coalesce(key, '') = :key AND received_at >= :since
ORDER BY received_at, number LIMIT 1;

-- name: open_wait
INSERT INTO wait (flow_id, step, tenant, topic, key) VALUES (:flow_id, :step, :tenant, :topic, :key)
ON CONFLICT (flow_id, step) DO NOTHING;

-- name: meet_waits
DELETE FROM wait WHERE tenant = :tenant AND topic = :topic AND key = :key
RETURNING flow_id, step;

-- name: add_event_mail
INSERT INTO mail (shard, flow_id, step, what, value) VALUES (:flow_id & 255, :flow_id, :step, 'event', :value);

-- name: drop_waits
DELETE FROM wait WHERE flow_id = :flow_id;
