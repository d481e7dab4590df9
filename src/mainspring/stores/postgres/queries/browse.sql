-- Lists of runs. They are planned anew for each call, with its values: filters that are NULL fall away, and so do the
-- tables whose CHECK constraint refuses the state.

-- name: list_runs
(
    SELECT {listed_columns} FROM live_run
    WHERE {is_listed}
    ORDER BY id DESC LIMIT :limit
)
UNION ALL
(
    SELECT {listed_columns} FROM ended_run
    WHERE {is_listed}
    ORDER BY id DESC LIMIT :limit
)
ORDER BY id DESC LIMIT :limit;

-- name: list_runs_of_job
(
    SELECT {listed_columns} FROM live_run
    WHERE job_id = :job_id AND id + 0 >= :lowest AND id + 0 < :before AND {is_chosen}
    ORDER BY id + 0 DESC LIMIT :limit
)
UNION ALL
(
    SELECT {listed_columns} FROM ended_run
    WHERE job_id = :job_id AND {is_listed}
    ORDER BY id DESC LIMIT :limit
)
ORDER BY id DESC LIMIT :limit;

-- name: list_held_runs
-- As many as are RUNNING, not the backlog: what is claimed is found by its session, what the engine holds by its flow.
WITH held AS MATERIALIZED (
    SELECT id FROM run WHERE claim_number IS NOT NULL AND state = 'RUNNING' AND id >= :lowest AND id < :before
    UNION ALL
    SELECT id FROM flow WHERE id >= :lowest AND id < :before
)
SELECT found.*
FROM held
CROSS JOIN LATERAL (
    SELECT {listed_columns} FROM live_run
    WHERE live_run.id = held.id AND (:job_id::uuid IS NULL OR job_id = :job_id) AND {is_chosen}
    LIMIT 1
) AS found
ORDER BY found.id DESC LIMIT :limit;

-- name: read_run_bounds
SELECT
    least((SELECT min(id) FROM run), (SELECT min(id) FROM run_history), (SELECT min(id) FROM dead_run)) AS lowest,
    greatest((SELECT max(id) FROM run), (SELECT max(id) FROM run_history), (SELECT max(id) FROM dead_run)) AS highest;

-- name: read_creations
SELECT wanted.id, first.created_at
FROM unnest(:run_ids::bigint[]) WITH ORDINALITY AS wanted (id, position)
LEFT JOIN LATERAL (
    SELECT created_at FROM (
        (SELECT id, created_at FROM run WHERE run.id >= wanted.id ORDER BY id LIMIT 1)
        UNION ALL
        (SELECT id, created_at FROM run_history WHERE run_history.id >= wanted.id ORDER BY id LIMIT 1)
        UNION ALL
        (SELECT id, created_at FROM dead_run WHERE dead_run.id >= wanted.id ORDER BY id LIMIT 1)
    ) AS each
    ORDER BY id LIMIT 1
) AS first ON true
ORDER BY wanted.position;

-- name: read_job_names
SELECT id, name FROM job WHERE id = ANY(:job_ids::uuid[]);

-- name: page_sessions
SELECT {session_columns}
FROM session WHERE state = 'live' AND id > :after AND (:tenant::text IS NULL OR tenant = :tenant::text)
ORDER BY id LIMIT :limit;

-- name: count_held
-- A claimed run has the number of its claim; so the index of claims finds the runs of a session.
SELECT (
    SELECT count(*) FROM run WHERE run.session_id = wanted.id AND run.claim_number IS NOT NULL
) AS held
FROM unnest(:session_ids::bigint[]) WITH ORDINALITY AS wanted (id, position)
ORDER BY wanted.position;

-- name: count_job_states
SELECT count(*) FILTER (WHERE NOT is_paused) AS active, count(*) FILTER (WHERE is_paused) AS paused
FROM (
    SELECT is_paused FROM job WHERE tenant = :tenant AND deleted_at IS NULL ORDER BY id LIMIT :limit::bigint
) AS counted;

-- name: count_overdue
SELECT count(*) AS fires, min(due_at) AS oldest_due_at
FROM (
    SELECT overdue.due_at
    FROM generate_series(0, 2) AS tier (priority)
    CROSS JOIN LATERAL (
        SELECT due_at FROM job_clock
        WHERE job_clock.priority = tier.priority AND due_at IS NOT NULL AND due_at < :before::timestamptz
        ORDER BY due_at LIMIT :limit
    ) AS overdue
    LIMIT :limit
) AS counted;
