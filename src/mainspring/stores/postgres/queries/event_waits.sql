-- Waits of flows for events. A wait and an event of its topic never pass each other: they meet under the lock of a bucket,
-- which is taken in a statement of its own, because each statement has its own snapshot.

-- name: lock_buckets
-- For what opens waits. In order.
SELECT pg_advisory_xact_lock(:class::integer, wanted.bucket) FROM unnest(:buckets::integer[]) AS wanted (bucket);

-- name: share_buckets
-- For what adds events: they do not wait for each other. In order.
SELECT pg_advisory_xact_lock_shared(:class::integer, wanted.bucket) FROM unnest(:buckets::integer[]) AS wanted (bucket);

-- name: open_waits
-- After lock_buckets. A wait for which an event is kept already becomes mail at once.
WITH wanted AS MATERIALIZED (
    SELECT new.flow_id, new.step, new.tenant, new.topic, new.key, kept.number, kept.data
    FROM unnest(
        :flow_ids::bigint[], :steps::smallint[], :tenants::text[], :topics::text[], :keys::text[], :sinces::timestamptz[]
    ) AS new (flow_id, step, tenant, topic, key, since)
    LEFT JOIN LATERAL (
        SELECT event.number, event.data FROM event
        WHERE event.tenant = new.tenant AND event.topic = new.topic AND coalesce(event.key, '') = new.key
          AND event.received_at >= new.since
        ORDER BY event.received_at, event.number LIMIT 1
    ) AS kept ON true
), told AS (
    INSERT INTO mail (shard, flow_id, step, what, value)
    SELECT
        wanted.flow_id & 255, wanted.flow_id, wanted.step, 'event',
        convert_to(wanted.topic, 'UTF8') || '\x00'::bytea || coalesce(wanted.data, ''::bytea)
    FROM wanted WHERE wanted.number IS NOT NULL
)
INSERT INTO wait (flow_id, step, tenant, topic, key)
SELECT wanted.flow_id, wanted.step, wanted.tenant, wanted.topic, wanted.key FROM wanted WHERE wanted.number IS NULL
ON CONFLICT (flow_id, step) DO NOTHING;

-- name: meet_waits
-- After share_buckets. Each wait goes with the first event that meets it. Returns how many each of them has ended.
WITH found AS MATERIALIZED (
    SELECT DISTINCT ON (held.flow_id, held.step) held.flow_id, held.step, new.value, new.place
    FROM unnest(:tenants::text[], :topics::text[], :keys::text[], :values::bytea[], :places::integer[])
        AS new (tenant, topic, key, value, place)
    CROSS JOIN LATERAL (
        SELECT wait.flow_id, wait.step FROM wait
        WHERE wait.tenant = new.tenant AND wait.topic = new.topic AND wait.key = new.key
        ORDER BY wait.flow_id, wait.step FOR UPDATE
    ) AS held
    ORDER BY held.flow_id, held.step, new.place
), met AS (
    DELETE FROM wait USING found
    WHERE wait.flow_id = found.flow_id AND wait.step = found.step
    RETURNING wait.flow_id, wait.step, found.value, found.place
), told AS (
    INSERT INTO mail (shard, flow_id, step, what, value)
    SELECT met.flow_id & 255, met.flow_id, met.step, 'event', met.value FROM met
)
SELECT met.place, count(*) AS released FROM met GROUP BY met.place;

-- name: drop_waits
DELETE FROM wait USING unnest(:flow_ids::bigint[]) AS ended (id) WHERE wait.flow_id = ended.id;
