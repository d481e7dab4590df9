-- Lists of runs. Each of these finds ids; read_listed then reads the runs.

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

-- name: read_listed
SELECT
    any_run.id, any_run.job_id, any_run.version, any_run.queue, any_run.route, any_run.tenant, any_run.priority,
    any_run.kind, any_run.state, any_run.reason, any_run.fire_at, any_run.due_at, any_run.ready_at, any_run.created_at,
    any_run.started_at, any_run.finished_at, any_run.attempt, any_run.token, any_run.crashes, any_run.session_id,
    any_run.is_cancel_requested, any_run.error, iif(:is_brief, NULL, any_run.payload) AS payload,
    iif(:is_brief, NULL, any_run.result) AS result, iif(:is_brief, NULL, any_run.output) AS output, any_run.target_key,
    any_run.fire_range_id, any_run.redrive_of, any_run.trace, any_run.flow_id, any_run.step, any_run.item
FROM json_each(:run_ids) AS wanted CROSS JOIN any_run ON any_run.id = wanted.value;

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

-- name: read_job_names
SELECT job.id, job.name FROM json_each(:job_ids) AS wanted CROSS JOIN job ON job.id = unhex(wanted.value);

-- name: page_sessions
SELECT {session_columns}
FROM session INDEXED BY session_live
WHERE state = 'live' AND id > :after AND (:tenant IS NULL OR tenant = :tenant)
ORDER BY id LIMIT :limit;

-- name: count_held
SELECT (
    SELECT count(*) FROM run INDEXED BY run_held WHERE run.session_id = wanted.value AND run.state = 'RUNNING'
) AS held
FROM json_each(:session_ids) AS wanted
ORDER BY wanted.key;

-- name: count_job_states
SELECT count(*) FILTER (WHERE NOT is_paused) AS active, count(*) FILTER (WHERE is_paused) AS paused
FROM (SELECT is_paused FROM job WHERE tenant = :tenant AND deleted_at IS NULL ORDER BY id LIMIT :limit) AS counted;

-- name: count_overdue
SELECT count(*) AS fires, min(due_at) AS oldest_due_at
FROM (
    SELECT due_at FROM job_clock INDEXED BY job_clock_due
    WHERE priority IN (0, 1, 2) AND due_at IS NOT NULL AND due_at < :before
    LIMIT :limit
) AS counted;
