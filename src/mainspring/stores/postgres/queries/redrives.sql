-- Redrives and their steps.

-- name: count_dead_versions
SELECT job_id, version, count(*) AS letters FROM dead_run
WHERE settled_at IS NULL AND {is_dead_wanted}
GROUP BY job_id, version
ORDER BY letters DESC, job_id, version LIMIT :limit;

-- name: add_redrive
INSERT INTO redrive (id, tenant, state, filter, is_newest, rate, total, created_at)
VALUES (:redrive_id, :tenant, 'running', :filter, :is_newest, :rate, :total, :now);

-- name: get_redrive
SELECT {redrive_columns} FROM redrive WHERE redrive.id = :redrive_id;

-- name: list_redrives
SELECT {redrive_columns} FROM redrive
WHERE redrive.tenant = :tenant AND redrive.id < :before
ORDER BY redrive.id DESC LIMIT :limit;

-- name: change_redrive
UPDATE redrive SET
    state = :state, closed_at = CASE WHEN :state = 'cancelled' THEN coalesce(redrive.closed_at, :now) ELSE redrive.closed_at END
FROM (SELECT id, state FROM redrive WHERE id = :redrive_id FOR UPDATE) AS old
WHERE redrive.id = old.id AND redrive.state = ANY(:states::text[])
RETURNING old.state AS before;

-- name: list_running_redrives
SELECT {redrive_columns} FROM redrive WHERE redrive.state = 'running' ORDER BY redrive.id LIMIT :limit;

-- name: find_dead_to_redrive
-- Which letters are meant is asked only of those that it looks at.
SELECT max(id) AS last, coalesce(array_agg(id ORDER BY id) FILTER (WHERE {is_dead_wanted}), '{}') AS run_ids
FROM (
    SELECT * FROM dead_run
    WHERE dead_run.tenant = :tenant AND dead_run.settled_at IS NULL AND dead_run.id > :after
    ORDER BY dead_run.id LIMIT :limit
) AS looked;

-- name: advance_redrive
-- What was redriven since then counts, whoever did it.
UPDATE redrive SET
    cursor = :cursor_to, done = redrive.done + passed.redriven,
    state = CASE WHEN :is_done THEN 'done' ELSE redrive.state END,
    closed_at = CASE WHEN :is_done THEN :now::timestamptz END
FROM (
    SELECT count(*) AS redriven FROM dead_run
    WHERE id > :cursor_from AND id <= :cursor_to AND settlement = 'redriven' AND settled_at >= :since_made
      AND {is_dead_wanted}
) AS passed
WHERE redrive.id = :redrive_id AND redrive.state = 'running' AND redrive.cursor = :cursor_from;
