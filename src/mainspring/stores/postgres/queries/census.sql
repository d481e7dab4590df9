-- How many runs there are. The tally holds, by tenant, day and state, what ended before `census.settled_before`.

-- name: keep_snapshot
-- All statements that follow in the transaction see the same rows.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;

-- name: read_settled
SELECT settled_before FROM census;

-- name: count_live
SELECT
    lane.tenant, lane.queue, counted.state, sum(counted.runs)::bigint AS runs,
    min(counted.earliest) AS earliest_ready_at
FROM (
    SELECT lane_id, state, count(*) AS runs, min(ready_at) AS earliest FROM run GROUP BY lane_id, state
) AS counted
JOIN lane ON lane.id = counted.lane_id
WHERE :tenant::text IS NULL OR lane.tenant = :tenant
GROUP BY lane.tenant, lane.queue, counted.state;

-- name: count_ended
SELECT tenant, state, sum(runs)::bigint AS runs
FROM (
    SELECT tenant, state, runs FROM run_tally WHERE :tenant::text IS NULL OR tenant = :tenant
    UNION ALL
    SELECT tenant, state, count(*) FROM run_history
    WHERE finished_at >= :since::timestamptz AND (:tenant::text IS NULL OR tenant = :tenant) GROUP BY tenant, state
    UNION ALL
    SELECT tenant, state, count(*) FROM dead_run
    WHERE finished_at >= :since::timestamptz AND (:tenant::text IS NULL OR tenant = :tenant) GROUP BY tenant, state
) AS ended
GROUP BY tenant, state;

-- name: count_open_dead
SELECT tenant, queue, count(*) AS letters FROM dead_run
WHERE settled_at IS NULL AND (:tenant::text IS NULL OR tenant = :tenant)
GROUP BY tenant, queue;

-- name: lock_settled
SELECT settled_before FROM census FOR UPDATE;

-- name: share_settled
SELECT settled_before FROM census FOR SHARE;

-- name: settle_ends
INSERT INTO run_tally AS tally (tenant, day, state, runs)
SELECT tenant, (finished_at AT TIME ZONE 'UTC')::date, state, count(*)
FROM (
    SELECT tenant, finished_at, state FROM run_history
    WHERE finished_at >= :since::timestamptz AND finished_at < :until::timestamptz
    UNION ALL
    SELECT tenant, finished_at, state FROM dead_run
    WHERE finished_at >= :since::timestamptz AND finished_at < :until::timestamptz
) AS ended
GROUP BY 1, 2, 3
ON CONFLICT (tenant, day, state) DO UPDATE SET runs = tally.runs + excluded.runs;

-- name: move_settled
UPDATE census SET settled_before = :until::timestamptz;

-- name: put_census
UPDATE census SET body = :body::text;

-- name: read_census
SELECT body FROM census;
