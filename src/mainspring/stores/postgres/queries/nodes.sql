-- Scheduler nodes and the shards they own.

-- name: beat_node
INSERT INTO node (id, host, pid, version, tzdata, period, refusal, served, protocol, started_at, last_beat_at)
VALUES (:id, :host, :pid, :version, :tzdata, :period, :refusal, :served, :protocol, :now, :now)
ON CONFLICT (id) DO UPDATE
SET host = excluded.host, pid = excluded.pid, version = excluded.version, tzdata = excluded.tzdata,
    period = excluded.period, refusal = excluded.refusal, served = excluded.served, protocol = excluded.protocol,
    beats = node.beats + 1, last_beat_at = excluded.last_beat_at;

-- name: read_cluster
-- If there are no nodes: one row without a node.
SELECT
    cluster.tzdata AS recorded, node.id, node.host, node.pid, node.version, node.tzdata, node.beats, node.period, node.refusal,
    node.started_at, node.last_beat_at, node.served
FROM cluster LEFT JOIN node ON true
ORDER BY node.id COLLATE "C";

-- name: record_tzdata
UPDATE cluster SET tzdata = :version WHERE tzdata IS NOT DISTINCT FROM :expected RETURNING tzdata;

-- name: expire_nodes
-- A node whose row is locked is beating right now, so it is not dead.
DELETE FROM node
WHERE node.id = ANY(ARRAY(
    SELECT silent.id
    FROM unnest(:node_ids::text[], :beats::bigint[]) AS judged (id, beats)
    CROSS JOIN LATERAL (
        SELECT node.id FROM node WHERE node.id = judged.id AND node.beats = judged.beats FOR UPDATE SKIP LOCKED
    ) AS silent
))
RETURNING node.id;

-- name: read_shards
SELECT shard_lease.shard, shard_lease.epoch, shard_lease.node_id, node.beats
FROM shard_lease LEFT JOIN node ON node.id = shard_lease.node_id
ORDER BY shard_lease.shard;

-- name: lock_shards
-- Locks shards, in order, for a later write of the same transaction.
SELECT lease.shard
FROM unnest(:shards::smallint[]) AS wanted (shard)
CROSS JOIN LATERAL (SELECT shard FROM shard_lease WHERE shard_lease.shard = wanted.shard FOR NO KEY UPDATE) AS lease;

-- name: pick_shards
-- Like lock_shards, for taking shards. A write under way, perhaps of a process that hangs, does not delay the other
-- shards.
SELECT lease.shard
FROM unnest(:shards::smallint[], :epochs::bigint[]) AS expected (shard, epoch)
CROSS JOIN LATERAL (
    SELECT shard FROM shard_lease
    WHERE shard_lease.shard = expected.shard AND shard_lease.epoch = expected.epoch
    FOR NO KEY UPDATE SKIP LOCKED
) AS lease;

-- name: take_shards
UPDATE shard_lease SET epoch = shard_lease.epoch + 1, node_id = :node_id
FROM unnest(:shards::smallint[], :epochs::bigint[]) AS expected (shard, epoch)
WHERE shard_lease.shard = expected.shard AND shard_lease.epoch = expected.epoch
RETURNING shard_lease.shard, shard_lease.epoch;

-- name: leave_shards
UPDATE shard_lease SET node_id = NULL
FROM unnest(:shards::smallint[], :epochs::bigint[]) AS held (shard, epoch)
WHERE shard_lease.shard = held.shard AND shard_lease.epoch = held.epoch AND shard_lease.node_id = :node_id;

-- name: remove_node
DELETE FROM node WHERE id = :node_id;
