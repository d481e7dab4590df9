-- Dead letters. The find_ queries find ids, which the others take.

-- name: find_open_dead
SELECT id FROM dead_run INDEXED BY dead_run_open
WHERE settled_at IS NULL AND id < :before AND {is_dead_wanted}
ORDER BY id DESC LIMIT :limit;

-- name: find_open_dead_of_job
SELECT id FROM dead_run INDEXED BY dead_run_job
WHERE job_id = :job_id AND settled_at IS NULL AND id < :before AND {is_dead_wanted}
ORDER BY id DESC LIMIT :limit;

-- name: find_named_dead
SELECT id FROM dead_run
WHERE
    id IN (SELECT value FROM json_each(:run_ids)) AND (settled_at IS NOT NULL) = :is_settled AND id < :before
    AND {is_dead_wanted}
ORDER BY id DESC LIMIT :limit;

-- name: find_settled_dead
SELECT id FROM dead_run WHERE settled_at IS NOT NULL AND id < :before AND {is_dead_wanted}
ORDER BY id DESC LIMIT :limit;

-- name: read_dead
-- It is brief: what may be large is read for one run alone.
SELECT
    any_run.id, any_run.job_id, any_run.version, any_run.queue, any_run.route, any_run.tenant, any_run.priority,
    any_run.kind, any_run.state, any_run.reason, any_run.fire_at, any_run.due_at, any_run.ready_at, any_run.created_at,
    any_run.started_at, any_run.finished_at, any_run.attempt, any_run.token, any_run.crashes, any_run.session_id,
    any_run.is_cancel_requested, any_run.error, NULL AS payload, NULL AS result, NULL AS output, any_run.target_key,
    any_run.fire_range_id, any_run.redrive_of, any_run.trace, any_run.flow_id, any_run.step, any_run.item,
    dead_run.error_group, {dead_run.settled_columns}
FROM json_each(:run_ids) AS wanted
CROSS JOIN dead_run ON dead_run.id = wanted.value
CROSS JOIN any_run ON any_run.id = dead_run.id;

-- name: group_dead
SELECT
    job_id, error_group, count(*) AS letters, min(finished_at) AS first_at, max(finished_at) AS last_at,
    max(id) AS newest
FROM dead_run INDEXED BY dead_run_group
WHERE settled_at IS NULL AND {is_dead_wanted}
GROUP BY job_id, error_group
ORDER BY letters DESC, newest DESC LIMIT :limit;

-- name: count_dead
SELECT count(*) AS letters FROM dead_run INDEXED BY dead_run_open
WHERE settled_at IS NULL AND {is_dead_wanted};

-- name: read_settled_dead
SELECT dead_run.id, {dead_run.settled_columns}
FROM json_each(:run_ids) AS wanted
CROSS JOIN dead_run ON dead_run.id = wanted.value
WHERE dead_run.settled_at IS NOT NULL;

-- name: discard_dead
UPDATE dead_run SET settled_at = :now, settlement = 'discarded', settle_reason = :reason
WHERE id IN (SELECT value FROM json_each(:run_ids)) AND settled_at IS NULL
RETURNING id;

-- name: settle_redrive
UPDATE dead_run SET settled_at = :now, settlement = 'redriven', redriven_as = :redriven_as
WHERE id = :run_id AND settled_at IS NULL;

-- name: prune_dead
-- Returns the runs, and the day of those that the tally counts.
DELETE FROM dead_run WHERE id IN (
    SELECT id FROM dead_run INDEXED BY dead_run_settled WHERE settled_at < :before LIMIT :limit
)
RETURNING id, tenant, state, iif(finished_at < (SELECT settled_before FROM census), {day_of_end}, NULL) AS day;

-- name: drop_kept_attempts
DELETE FROM kept_attempt WHERE run_id IN (SELECT value FROM json_each(:run_ids));
