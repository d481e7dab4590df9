-- How many runs there are. The tally holds, by tenant, day and state, what ended before `census.settled_before`.

-- name: read_settled
SELECT settled_before FROM census;

-- name: count_live
SELECT lane.tenant, lane.queue, counted.state, sum(counted.runs) AS runs, min(counted.earliest) AS earliest_ready_at
FROM (
    SELECT lane_id, state, count(*) AS runs, min(ready_at) AS earliest FROM run GROUP BY lane_id, state
) AS counted
CROSS JOIN lane ON lane.id = counted.lane_id
WHERE :tenant IS NULL OR lane.tenant = :tenant
GROUP BY lane.tenant, lane.queue, counted.state;

-- name: count_ended
SELECT tenant, state, sum(runs) AS runs
FROM (
    SELECT tenant, state, sum(runs) AS runs FROM run_tally GROUP BY tenant, state
    UNION ALL
    SELECT tenant, state, count(*) FROM run_history INDEXED BY run_history_finished
    WHERE finished_at >= :since GROUP BY tenant, state
    UNION ALL
    SELECT tenant, state, count(*) FROM dead_run INDEXED BY dead_run_finished
    WHERE finished_at >= :since GROUP BY tenant, state
)
WHERE :tenant IS NULL OR tenant = :tenant
GROUP BY tenant, state;

-- name: count_open_dead
SELECT tenant, queue, count(*) AS letters FROM dead_run INDEXED BY dead_run_open
WHERE settled_at IS NULL AND (:tenant IS NULL OR tenant = :tenant)
GROUP BY tenant, queue;

-- name: find_settling_end
SELECT finished_at FROM run_history INDEXED BY run_history_finished
WHERE finished_at >= :since AND finished_at < :until
ORDER BY finished_at LIMIT 1 OFFSET :skipped;

-- name: settle_ends
INSERT INTO run_tally (tenant, day, state, runs)
SELECT tenant, {day_of_end}, state, count(*)
FROM run_history INDEXED BY run_history_finished
WHERE finished_at >= :since AND finished_at < :until
GROUP BY 1, 2, 3
ON CONFLICT (tenant, day, state) DO UPDATE SET runs = run_tally.runs + excluded.runs;

-- name: settle_dead_ends
INSERT INTO run_tally (tenant, day, state, runs)
SELECT tenant, {day_of_end}, state, count(*)
FROM dead_run INDEXED BY dead_run_finished
WHERE finished_at >= :since AND finished_at < :until
GROUP BY 1, 2, 3
ON CONFLICT (tenant, day, state) DO UPDATE SET runs = run_tally.runs + excluded.runs;

-- name: move_settled
UPDATE census SET settled_before = :until;

-- name: unsettle
-- Takes runs that were removed off the tally.
UPDATE run_tally SET runs = runs - :runs WHERE tenant = :tenant AND day = :day AND state = :state;

-- name: drop_empty_tallies
DELETE FROM run_tally WHERE runs <= 0;

-- name: put_census
UPDATE census SET body = :body;

-- name: read_census
SELECT body FROM census;
