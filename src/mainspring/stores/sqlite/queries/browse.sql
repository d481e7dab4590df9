-- Lists of runs. Each of these finds ids; get_runs then reads the runs.

-- name: find_all
SELECT id FROM any_run WHERE {is_listed}
ORDER BY id DESC LIMIT :limit;

-- name: find_all_of_job
SELECT id FROM any_run WHERE job_id = :job_id AND {is_listed}
ORDER BY id DESC LIMIT :limit;

-- name: find_live
SELECT run.id FROM run CROSS JOIN lane ON lane.id = run.lane_id
WHERE {is_live_listed} AND run.state = :state
ORDER BY run.id DESC LIMIT :limit;

-- name: find_live_of_job
SELECT run.id FROM run INDEXED BY run_job CROSS JOIN lane ON lane.id = run.lane_id
WHERE run.job_id = :job_id AND {is_live_listed} AND run.state = :state
ORDER BY run.id DESC LIMIT :limit;

-- name: find_held
-- As many as are RUNNING, not the backlog.
SELECT run.id FROM run INDEXED BY run_held CROSS JOIN lane ON lane.id = run.lane_id
WHERE {is_live_listed} AND run.state = 'RUNNING'
ORDER BY run.id DESC LIMIT :limit;

-- name: find_held_of_job
SELECT run.id FROM run INDEXED BY run_held CROSS JOIN lane ON lane.id = run.lane_id
WHERE run.job_id = :job_id AND {is_live_listed} AND run.state = 'RUNNING'
ORDER BY run.id DESC LIMIT :limit;

-- name: find_ended
SELECT id FROM run_history WHERE {is_listed} AND state = :state
ORDER BY id DESC LIMIT :limit;

-- name: find_ended_of_job
SELECT id FROM run_history INDEXED BY run_history_job WHERE job_id = :job_id AND {is_listed} AND state = :state
ORDER BY id DESC LIMIT :limit;

-- name: find_unusual
SELECT id FROM run_history INDEXED BY run_history_unusual
WHERE {is_listed} AND state <> 'SUCCEEDED' AND state = :state
ORDER BY id DESC LIMIT :limit;

-- name: find_dead
SELECT id FROM dead_run WHERE {is_listed} AND state = :state
ORDER BY id DESC LIMIT :limit;

-- name: find_dead_of_job
SELECT id FROM dead_run INDEXED BY dead_run_job WHERE job_id = :job_id AND {is_listed} AND state = :state
ORDER BY id DESC LIMIT :limit;

-- name: read_run_bounds
SELECT
    (
        SELECT min(id) FROM (
            SELECT min(id) AS id FROM run
            UNION ALL SELECT min(id) FROM run_history
            UNION ALL SELECT min(id) FROM dead_run
        )
    ) AS lowest,
    (
        SELECT max(id) FROM (
            SELECT max(id) AS id FROM run
            UNION ALL SELECT max(id) FROM run_history
            UNION ALL SELECT max(id) FROM dead_run
        )
    ) AS highest;

-- name: read_creation
SELECT created_at FROM (
    SELECT * FROM (SELECT id, created_at FROM run WHERE id >= :run_id ORDER BY id LIMIT 1)
    UNION ALL
    SELECT * FROM (SELECT id, created_at FROM run_history WHERE id >= :run_id ORDER BY id LIMIT 1)
    UNION ALL
    SELECT * FROM (SELECT id, created_at FROM dead_run WHERE id >= :run_id ORDER BY id LIMIT 1)
)
ORDER BY id LIMIT 1;
