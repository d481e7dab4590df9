-- Dead letters. The lists are planned anew for each call, with its values: filters that are NULL fall away.

-- name: list_dead
-- It is brief: what may be large is read for one run alone.
WITH wanted AS MATERIALIZED (
    SELECT id, error_group, {settled_columns} FROM dead_run
    WHERE ((:is_settled::boolean AND settled_at IS NOT NULL) OR (NOT :is_settled AND settled_at IS NULL))
      AND {is_dead_wanted} AND id < :before::bigint
    ORDER BY id DESC LIMIT :limit
)
SELECT found.*, wanted.error_group, {wanted.settled_columns}
FROM wanted
CROSS JOIN LATERAL (
    SELECT {listed_columns} FROM ended_run WHERE ended_run.id = wanted.id AND ended_run.state = 'FAILED' LIMIT 1
) AS found
ORDER BY found.id DESC;

-- name: group_dead
SELECT
    job_id, error_group, count(*) AS letters, min(finished_at) AS first_at, max(finished_at) AS last_at,
    max(id) AS newest
FROM dead_run
WHERE settled_at IS NULL AND {is_dead_wanted}
GROUP BY job_id, error_group
ORDER BY letters DESC, newest DESC LIMIT :limit;

-- name: count_dead
SELECT count(*) AS letters FROM dead_run
WHERE settled_at IS NULL AND {is_dead_wanted};

-- name: read_settled_dead
SELECT dead_run.id, {dead_run.settled_columns}
FROM dead_run
WHERE dead_run.id = ANY(:run_ids::bigint[]) AND dead_run.settled_at IS NOT NULL;

-- name: lock_dead
SELECT dead_run.id, {dead_run.settled_columns}
FROM dead_run
WHERE dead_run.id = ANY(:run_ids::bigint[])
ORDER BY dead_run.id FOR UPDATE;

-- name: find_dead_to_discard
SELECT id FROM dead_run WHERE settled_at IS NULL AND {is_dead_wanted} ORDER BY id DESC LIMIT :limit;

-- name: discard_dead
UPDATE dead_run SET settled_at = :now, settlement = 'discarded', settle_reason = :reason
WHERE id = ANY(:run_ids::bigint[]);

-- name: settle_redrives
UPDATE dead_run SET settled_at = :now, settlement = 'redriven', redriven_as = new.redriven_as
FROM unnest(:run_ids::bigint[], :redriven_as::bigint[]) AS new (id, redriven_as)
WHERE dead_run.id = new.id AND dead_run.settled_at IS NULL;

-- name: prune_dead
-- Removes what was settled long ago, with what is kept of its attempts, and takes it off the tally.
WITH gone AS (
    DELETE FROM dead_run WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM dead_run WHERE settled_at < :before LIMIT :limit FOR UPDATE SKIP LOCKED
    ))
    RETURNING id, tenant, (finished_at AT TIME ZONE 'UTC')::date AS day, state, finished_at
), attempts AS (
    DELETE FROM kept_attempt USING gone WHERE kept_attempt.run_id = gone.id
), unsettled AS (
    UPDATE run_tally SET runs = run_tally.runs - counted.runs
    FROM (
        SELECT tenant, day, state, count(*) AS runs FROM gone
        WHERE finished_at < :settled_before::timestamptz GROUP BY tenant, day, state
    ) AS counted
    WHERE run_tally.tenant = counted.tenant AND run_tally.day = counted.day AND run_tally.state = counted.state
)
SELECT count(*) AS removed FROM gone;
