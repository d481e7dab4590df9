-- Scheduler nodes and shards.

-- name: beat_node
INSERT INTO node (id, host, pid, version, tzdata, period, refusal, served, is_member, protocol, beats, started_at, last_beat_at)
VALUES (:id, :host, :pid, :version, :tzdata, :period, :refusal, 
    :served, :is_member, :protocol, 0, :now, :now)
ON CONFLICT (id) DO UPDATE SET
    host = excluded.host, pid = excluded.pid, version = excluded.version, tzdata = excluded.tzdata,
    period = excluded.period, refusal = excluded.refusal, served = excluded.served, protocol = excluded.protocol,
    is_member = node.is_member OR excluded.is_member, beats = node.beats + 1, last_beat_at = excluded.last_beat_at;

-- name: read_cluster
-- If there are no nodes: one row without a node.
SELECT
    cluster.tzdata AS recorded, node.id, node.host, node.pid, node.version, node.tzdata, node.beats, node.period, node.refusal, node.started_at,
    node.last_beat_at, node.served, node.is_member
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

-- name: start_cluster
-- Only the first node of a cluster becomes a member this way.
UPDATE node SET is_member = 1
WHERE id = :node_id AND NOT EXISTS (SELECT 1 FROM node AS other WHERE other.is_member)
RETURNING id;

-- name: take_nodes_in
-- All nodes that are there with a member are members.
UPDATE node SET is_member = 1
WHERE NOT is_member AND EXISTS (SELECT 1 FROM node AS leaving WHERE leaving.id = :node_id AND leaving.is_member);

-- name: lock_starting
SELECT at_start.job_id, job.version, job.is_paused, job.pause_note, job_clock.next_fire_at, job_clock.fired_through
FROM at_start
CROSS JOIN job ON job.id = at_start.job_id
CROSS JOIN job_clock ON job_clock.job_id = at_start.job_id;

-- name: start_clock
UPDATE job_clock SET next_fire_at = :next_fire_at, due_at = :due_at, fired_through = :fired_through WHERE job_id = :job_id;
