-- Redrives and their steps.

-- name: count_dead_versions
SELECT job_id, version, count(*) AS letters FROM dead_run INDEXED BY dead_run_open
WHERE settled_at IS NULL AND {is_dead_wanted}
GROUP BY job_id, version
ORDER BY letters DESC, job_id, version LIMIT :limit;

-- name: add_redrive
INSERT INTO redrive (id, tenant, state, filter, is_newest, rate, total, created_at)
VALUES (:redrive_id, :tenant, 'running', :filter, :is_newest, :rate, :total, :now);

-- name: get_redrive
SELECT {redrive_columns} FROM redrive WHERE redrive.id = :redrive_id;

-- name: list_redrives
SELECT {redrive_columns} FROM redrive INDEXED BY redrive_tenant
WHERE redrive.tenant = :tenant AND redrive.id < :before
ORDER BY redrive.id DESC LIMIT :limit;

-- name: change_redrive
UPDATE redrive SET
    state = :state, closed_at = CASE WHEN :state = 'cancelled' THEN coalesce(closed_at, :now) ELSE closed_at END
WHERE id = :redrive_id AND state IN (SELECT value FROM json_each(:states))
RETURNING id;

-- name: list_running_redrives
SELECT {redrive_columns} FROM redrive INDEXED BY redrive_running
WHERE redrive.state = 'running' ORDER BY redrive.id LIMIT :limit;

-- name: find_dead_to_redrive
-- Which letters are meant is asked only of those that it looks at.
SELECT max(id) AS last, json_group_array(id) FILTER (WHERE {is_dead_wanted}) AS run_ids
FROM (
    SELECT * FROM dead_run INDEXED BY dead_run_open
    WHERE dead_run.tenant = :tenant AND dead_run.settled_at IS NULL AND dead_run.id > :after
    ORDER BY dead_run.id LIMIT :limit
);

-- name: count_redriven
SELECT count(*) FROM dead_run NOT INDEXED
WHERE
    id > :cursor_from AND id <= :cursor_to AND settlement = 'redriven' AND settled_at >= :since_made
    AND {is_dead_wanted};

-- name: advance_redrive
UPDATE redrive SET
    cursor = :cursor_to, done = done + :redriven, state = CASE WHEN :is_done THEN 'done' ELSE state END,
    closed_at = CASE WHEN :is_done THEN :now END
WHERE id = :redrive_id AND state = 'running' AND cursor = :cursor_from;
