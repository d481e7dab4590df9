-- Scheduler nodes and the shards they own.

-- name: beat_node
INSERT INTO node (id, host, pid, version, tzdata, period, refusal, served, is_member, protocol, started_at, last_beat_at)
VALUES (:id, :host, :pid, :version, :tzdata, :period, :refusal, 
    :served, :is_member, :protocol, :now, :now)
ON CONFLICT (id) DO UPDATE
SET host = excluded.host, pid = excluded.pid, version = excluded.version, tzdata = excluded.tzdata,
    period = excluded.period, refusal = excluded.refusal, served = excluded.served, protocol = excluded.protocol,
    is_member = node.is_member OR excluded.is_member, beats = node.beats + 1, last_beat_at = excluded.last_beat_at;

-- name: read_cluster
-- If there are no nodes: one row without a node.
SELECT
    cluster.tzdata AS recorded, node.id, node.host, node.pid, node.version, node.tzdata, node.beats, node.period, node.refusal,
    node.started_at, node.last_beat_at, node.served, node.is_member
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

-- name: lock_cluster
-- Of nodes that start at the same time, one comes after the other.
SELECT cluster.tzdata FROM cluster FOR NO KEY UPDATE;

-- name: start_cluster
-- Only the first node of a cluster becomes a member this way.
UPDATE node SET is_member = true
WHERE node.id = :node_id AND NOT EXISTS (SELECT FROM node AS other WHERE other.is_member)
RETURNING node.id;

-- name: take_nodes_in
-- All nodes that are there with a member are members.
UPDATE node SET is_member = true
WHERE NOT node.is_member AND EXISTS (SELECT FROM node AS leaving WHERE leaving.id = :node_id AND leaving.is_member);

-- name: lock_starting
SELECT job.id, job.version, job.is_paused, job.pause_note, job.next_fire_at, job.fired_through
FROM (SELECT at_start.job_id FROM at_start ORDER BY at_start.job_id) AS wanted
CROSS JOIN LATERAL (
    SELECT job.*, job_clock.next_fire_at, job_clock.fired_through
    FROM job JOIN job_clock ON job_clock.job_id = job.id
    WHERE job.id = wanted.job_id AND coalesce(job.deleted_at, 'infinity') = 'infinity'
    FOR NO KEY UPDATE
) AS job;

-- name: start_clocks
UPDATE job_clock
SET next_fire_at = started.next_fire_at, due_at = started.due_at, fired_through = started.fired_through
FROM unnest(
    :job_ids::uuid[], :next_fires_at::timestamptz[], :dues_at::timestamptz[], :fired_through::timestamptz[]
) AS started (job_id, next_fire_at, due_at, fired_through)
WHERE job_clock.job_id = started.job_id;
