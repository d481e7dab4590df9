-- Scheduler nodes and shards.

-- name: beat_node
INSERT INTO node (id, host, pid, version, tzdata, period, refusal, served, protocol, beats, started_at, last_beat_at)
VALUES (:id, :host, :pid, :version, :tzdata, :period, :refusal, :served, :protocol, 0, :now, :now)
ON CONFLICT (id) DO UPDATE SET
    host = excluded.host, pid = excluded.pid, version = excluded.version, tzdata = excluded.tzdata,
    period = excluded.period, refusal = excluded.refusal, served = excluded.served, protocol = excluded.protocol,
    beats = node.beats + 1, last_beat_at = excluded.last_beat_at;

-- name: read_cluster
-- If there are no nodes: one row without a node.
SELECT
    cluster.tzdata AS recorded, node.id, node.host, node.pid, node.version, node.tzdata, node.beats, node.period, node.refusal, node.started_at,
    node.last_beat_at, node.served
FROM cluster LEFT JOIN node
ORDER BY node.id;

-- name: record_tzdata
UPDATE cluster SET tzdata = :version WHERE tzdata IS :expected RETURNING tzdata;

-- name: expire_node
DELETE FROM node WHERE id = :node_id AND beats = :beats RETURNING id;

-- name: read_shards
-- In the order of the fields of ShardLease.
SELECT shard_lease.shard, shard_lease.epoch, shard_lease.node_id, node.beats AS node_beats
FROM shard_lease LEFT JOIN node ON node.id = shard_lease.node_id
ORDER BY shard_lease.shard;

-- name: take_shard
UPDATE shard_lease SET epoch = epoch + 1, node_id = :node_id
WHERE shard = :shard AND epoch = :epoch
RETURNING epoch;

-- name: leave_shard
UPDATE shard_lease SET node_id = NULL WHERE shard = :shard AND epoch = :epoch AND node_id = :node_id;

-- name: remove_node
DELETE FROM node WHERE id = :node_id;

-- name: read_epoch_of_first_shard
SELECT epoch FROM shard_lease WHERE shard = 0;
