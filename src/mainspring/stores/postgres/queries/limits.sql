-- Limits: rules, keys, and the lines of the runs that wait under them. `runs.sql` describes the traps of the hot path.
-- In a claim, rows are locked in the order sessions, runs, keys. Nobody waits for a key or, once it has a key, for a run.

-- A rule without a cap and without a rate is one that is not set: it stays for those who stand under it.

-- name: find_limits
SELECT name FROM limit_rule
WHERE tenant = :tenant AND name = ANY(:names::text[]) AND (max_running IS NOT NULL OR per_count IS NOT NULL);

-- name: hold_limits
-- Those of the tenants, and of the cluster. Until the jobs that use them are stored: a delete waits for that, and then
-- finds the use. Settings need not wait.
SELECT wanted.tenant, wanted.name
FROM unnest(:tenants::text[], :names::text[]) AS wanted (tenant, name)
CROSS JOIN LATERAL (
    SELECT limit_rule.id FROM limit_rule
    WHERE limit_rule.tenant = ANY(ARRAY[wanted.tenant, '*']) AND limit_rule.name = wanted.name AND {is_set}
    FOR KEY SHARE
) AS limit_rule;

-- name: lock_limit
-- Before a look at who uses it, as a statement of its own: a job that comes to use it is stored by then, or waits.
SELECT limit_rule.id FROM limit_rule WHERE limit_rule.tenant = :tenant AND limit_rule.name = :name FOR UPDATE;

-- name: write_rules
-- The arguments are sorted, so that two callers cannot deadlock.
INSERT INTO limit_rule (
    tenant, name, job_id, max_running, per_count, per_ms, burst, hold, batch_size, batch_wait_ms
)
SELECT tenant, name, job_id, max_running, per_count, per_ms, burst, hold, batch_size, batch_wait_ms
FROM unnest(
    :tenants::text[], :names::text[], :job_ids::uuid[], :caps::integer[], :counts::integer[], :periods_ms::bigint[],
    :bursts::integer[], :holds::text[], :batch_sizes::integer[], :batch_waits_ms::bigint[]
) AS new (tenant, name, job_id, max_running, per_count, per_ms, burst, hold, batch_size, batch_wait_ms)
ON CONFLICT (tenant, name) DO UPDATE SET
    max_running = excluded.max_running, per_count = excluded.per_count, per_ms = excluded.per_ms, burst = excluded.burst,
    hold = excluded.hold, batch_size = excluded.batch_size, batch_wait_ms = excluded.batch_wait_ms;

-- name: lift_own_rules
-- The rules of own limits that the newest definitions of these jobs do not have.
UPDATE limit_rule SET max_running = NULL, per_count = NULL, per_ms = NULL, burst = NULL, batch_size = NULL,
    batch_wait_ms = NULL
WHERE job_id = ANY(:job_ids::uuid[]) AND NOT (name = ANY(:names::text[]));

-- name: drop_limit_uses
DELETE FROM limit_use WHERE job_id = ANY(:job_ids::uuid[]);

-- name: add_limit_uses
INSERT INTO limit_use (tenant, name, job_id)
SELECT tenant, name, job_id
FROM unnest(:tenants::text[], :names::text[], :job_ids::uuid[]) AS used (tenant, name, job_id)
ON CONFLICT (tenant, name, job_id) DO NOTHING;

-- name: list_limits
SELECT name, job_id, max_running, per_count, per_ms, burst, hold FROM limit_rule
WHERE tenant = :tenant AND job_id IS NULL AND (max_running IS NOT NULL OR per_count IS NOT NULL)
  AND strpos(name, ':') = 0  -- the caps of lanes have one
ORDER BY name;

-- name: list_limit_users
-- A limit of the cluster is used by the jobs of tenants that have none of that name.
SELECT job.name FROM limit_use JOIN job ON job.id = limit_use.job_id
WHERE limit_use.name = :name AND job.deleted_at IS NULL
  AND (limit_use.tenant = :tenant OR :tenant = '*' AND NOT EXISTS (
    SELECT FROM limit_rule
    WHERE limit_rule.tenant = limit_use.tenant AND limit_rule.name = limit_use.name AND {is_set}
))
ORDER BY job.name LIMIT :limit;

-- name: lift_limit
UPDATE limit_rule SET max_running = NULL, per_count = NULL, per_ms = NULL, burst = NULL
WHERE tenant = :tenant AND name = :name AND job_id IS NULL AND (max_running IS NOT NULL OR per_count IS NOT NULL);

-- name: list_keys
WITH picked AS (
    SELECT {key_use_columns}
    FROM limit_rule
    JOIN concurrency_key ON concurrency_key.rule_id = limit_rule.id
    WHERE limit_rule.tenant = :tenant AND limit_rule.name = :name
      AND (:after::text IS NULL OR concurrency_key.key > :after)
    ORDER BY concurrency_key.key LIMIT :limit
)
{key_uses}
ORDER BY picked.key;

-- name: list_keys_by_age
WITH picked AS (
    SELECT {key_use_columns}
    FROM limit_rule
    JOIN concurrency_key ON concurrency_key.rule_id = limit_rule.id
    WHERE limit_rule.tenant = :tenant AND limit_rule.name = :name AND concurrency_key.id > :after
    ORDER BY concurrency_key.id LIMIT :limit
)
{key_uses}
ORDER BY picked.id;

-- name: read_wait_keys
-- The keys of a waiting run, that of its line first. A place that it has kept itself is not in its way. Under a limit of
-- the cluster, runs of other tenants are counted, but not named.
SELECT
    limit_rule.name, limit_rule.tenant = '*' AS is_of_cluster, concurrency_key.key, concurrency_key.level,
    concurrency_key.level_at, limit_rule.max_running, limit_rule.per_count, limit_rule.per_ms, limit_rule.burst, held.count AS held, held.run_ids[1:5] AS run_ids
FROM run
CROSS JOIN LATERAL unnest(ARRAY[run.key_id, run.second_key_id, run.third_key_id])
    WITH ORDINALITY AS own (key_id, position)
JOIN concurrency_key ON concurrency_key.id = own.key_id
JOIN limit_rule ON limit_rule.id = concurrency_key.rule_id
JOIN lane AS mine ON mine.id = run.lane_id
CROSS JOIN LATERAL (
    SELECT
        count(*) AS count,
        array_agg(holder.id ORDER BY key_hold.id) FILTER (WHERE theirs.tenant = mine.tenant) AS run_ids
    FROM key_hold JOIN run AS holder ON holder.id = key_hold.run_id JOIN lane AS theirs ON theirs.id = holder.lane_id
    WHERE key_hold.key_id = concurrency_key.id AND holder.id <> run.id
      AND (limit_rule.hold = 'run' OR holder.token = key_hold.token AND holder.session_id IS NOT NULL)
) AS held
WHERE run.id = :run_id
ORDER BY own.position;

-- name: read_wait_batch
-- The batch for which a run waits: its rule, and how many are ready for it, since when.
SELECT
    limit_rule.batch_size, limit_rule.batch_wait_ms,
    (SELECT count(*) FROM (
        SELECT FROM run
        WHERE {is_in_line} AND run.key_id = mine.key_id AND run.lane_id = mine.lane_id AND {is_unexpired}
          AND run.ready_at <= :now
        LIMIT :limit
    ) AS ready) AS ready,
    (
        SELECT run.ready_at FROM run
        WHERE {is_in_line} AND run.key_id = mine.key_id AND run.lane_id = mine.lane_id AND {is_unexpired}
        ORDER BY run.ready_at LIMIT 1
    ) AS head_at
FROM run AS mine
JOIN concurrency_key ON concurrency_key.id = mine.key_id
JOIN limit_rule ON limit_rule.id = concurrency_key.rule_id
WHERE mine.id = :run_id AND mine.crashes = 0 AND limit_rule.batch_size IS NOT NULL;

-- name: count_ahead
-- How many stand before a waiting run: of its lane, of its line, or of its lane's quarantined runs. No row: it does not
-- wait.
SELECT
    (SELECT count(*) FROM (
        SELECT FROM run
        WHERE mine.crashes = 0 AND NOT mine.is_parked AND run.lane_id = mine.lane_id AND {is_ready} AND run.crashes = 0
          AND run.ready_at <= mine.ready_at AND (run.ready_at < mine.ready_at OR run.id < mine.id)
        ORDER BY run.ready_at LIMIT :limit
    ) AS ready) + (SELECT count(*) FROM (
        SELECT FROM run
        WHERE mine.crashes = 0 AND mine.is_parked AND {is_in_line} AND run.key_id = mine.key_id
          AND run.lane_id = mine.lane_id
          AND run.ready_at <= mine.ready_at AND (run.ready_at < mine.ready_at OR run.id < mine.id)
        ORDER BY run.ready_at LIMIT :limit
    ) AS line) + (SELECT count(*) FROM (
        SELECT FROM run
        WHERE mine.crashes > 0 AND run.lane_id = mine.lane_id AND {is_waiting} AND run.crashes > 0
          AND run.ready_at <= mine.ready_at AND (run.ready_at < mine.ready_at OR run.id < mine.id)
        ORDER BY run.ready_at LIMIT :limit
    ) AS quarantined) AS ahead,
    mine.expires_at
FROM run AS mine
WHERE mine.id = :run_id AND mine.session_id IS NULL;

-- name: intern_rules
-- A rule that is not there, because a limit was deleted meanwhile, is one without bounds. The arguments are sorted.
INSERT INTO limit_rule (tenant, name, job_id, hold)
SELECT tenant, name, job_id, 'attempt'
FROM unnest(:tenants::text[], :names::text[], :job_ids::uuid[]) AS wanted (tenant, name, job_id)
WHERE NOT EXISTS (
    SELECT FROM limit_rule WHERE limit_rule.tenant = '*' AND limit_rule.name = wanted.name AND {is_set}
)
ON CONFLICT (tenant, name) DO NOTHING;

-- name: intern_keys
-- The arguments are sorted, so that two callers cannot deadlock.
INSERT INTO concurrency_key (rule_id, key)
SELECT limit_rule.id, wanted.key
FROM unnest(:tenants::text[], :names::text[], :keys::text[]) AS wanted (tenant, name, key)
CROSS JOIN LATERAL (
    SELECT limit_rule.id FROM limit_rule
    WHERE limit_rule.tenant = {rule_tenant} AND limit_rule.name = wanted.name
    FOR KEY SHARE
) AS limit_rule
ON CONFLICT (rule_id, key) DO NOTHING;

-- name: find_keys
-- A tenant that has no limit of a name has that of the cluster. The key share lock keeps prune_limits off the keys until
-- the transaction ends. Claims do not wait for it.
SELECT wanted.position, concurrency_key.id
FROM unnest(:tenants::text[], :names::text[], :keys::text[]) WITH ORDINALITY AS wanted (tenant, name, key, position)
CROSS JOIN LATERAL (
    SELECT limit_rule.id FROM limit_rule
    WHERE limit_rule.tenant = {rule_tenant} AND limit_rule.name = wanted.name
) AS limit_rule
CROSS JOIN LATERAL (
    SELECT concurrency_key.id FROM concurrency_key
    WHERE concurrency_key.rule_id = limit_rule.id AND concurrency_key.key = wanted.key
    FOR KEY SHARE
) AS concurrency_key;

-- name: read_lines
-- The earliest run of each line, from a line on: one search for each line, however many runs wait in it.
WITH RECURSIVE line AS (
    (
        SELECT run.key_id, run.lane_id, run.ready_at, 1 AS position FROM run
        WHERE {is_in_line} AND (run.key_id, run.lane_id) > (:after_key::bigint, :after_lane::bigint)
        ORDER BY run.key_id, run.lane_id, run.ready_at LIMIT 1
    )
    UNION ALL
    SELECT following.key_id, following.lane_id, following.ready_at, line.position + 1
    FROM line
    CROSS JOIN LATERAL (
        SELECT run.key_id, run.lane_id, run.ready_at FROM run
        WHERE {is_in_line} AND (run.key_id, run.lane_id) > (line.key_id, line.lane_id)
        ORDER BY run.key_id, run.lane_id, run.ready_at LIMIT 1
    ) AS following
    WHERE line.position < :limit
)
SELECT line.key_id, line.lane_id, line.ready_at FROM line;

-- name: read_some_lines
SELECT wanted.key_id, wanted.lane_id, head.ready_at
FROM unnest(:key_ids::bigint[], :lane_ids::bigint[]) AS wanted (key_id, lane_id)
CROSS JOIN LATERAL (
    SELECT run.ready_at FROM run
    WHERE {is_in_line} AND run.key_id = wanted.key_id AND run.lane_id = wanted.lane_id
    ORDER BY run.ready_at LIMIT 1
) AS head;

-- name: begin_claims
-- Uses the numbers of requests whose sessions are live, and says what these hold. A statement before has locked their
-- rows (lock_claimers).
WITH claimer AS (
    UPDATE session SET claim_number = (:numbers::bigint[])[width_bucket(session.id, :session_ids::bigint[])]
    WHERE session.id = ANY(:session_ids::bigint[]) AND session.state = 'live'
      AND session.claim_number < (:numbers::bigint[])[width_bucket(session.id, :session_ids::bigint[])]
      AND {is_current}
    RETURNING session.id, session.held_from
)
SELECT
    claimer.id,
    EXISTS (SELECT FROM run WHERE run.session_id = claimer.id AND run.claim_number >= claimer.held_from) AS is_busy,
    EXISTS (
        SELECT FROM run WHERE run.session_id = claimer.id AND run.is_quarantined AND run.state = 'RUNNING'
    ) AS is_busy_with_quarantined
FROM claimer;

-- name: pick_lined_up
-- Candidates, line after line. They are locked, not yet decided about.
SELECT candidate.*
FROM unnest(:key_ids::bigint[], :lane_ids::bigint[], :lows::timestamptz[], :quotas::integer[])
    AS wanted (key_id, lane_id, low, quota)
CROSS JOIN LATERAL (
    SELECT {run.candidate_columns}, run.ctid AS place FROM run
    WHERE {is_in_line} AND run.key_id = wanted.key_id AND run.lane_id = wanted.lane_id
      AND run.ready_at BETWEEN wanted.low AND :now AND {is_unexpired}
    ORDER BY run.ready_at LIMIT wanted.quota FOR UPDATE SKIP LOCKED
) AS candidate
LIMIT :limit;

-- name: pick_plain
-- The same for runs without keys, of lanes that have a cap.
SELECT candidate.*
FROM unnest(:lane_ids::bigint[], :lows::timestamptz[], :quotas::integer[]) AS wanted (lane_id, low, quota)
CROSS JOIN LATERAL (
    SELECT {run.candidate_columns}, run.ctid AS place FROM run
    WHERE run.lane_id = wanted.lane_id AND {is_ready} AND {is_unexpired}
      AND run.crashes = 0 AND run.ready_at BETWEEN wanted.low AND :now
    ORDER BY run.ready_at LIMIT wanted.quota FOR UPDATE SKIP LOCKED
) AS candidate
LIMIT :limit;

-- name: read_batches
-- When lines have a batch: what the first run of each says, and the run that fills one, unless the first has waited. The
-- limits keep the planner to one search for each line.
SELECT
    wanted.key_id, wanted.lane_id, head.ready_at AS head_at, rule.batch_size, rule.batch_wait_ms,
    filling.ready_at AS full_at
FROM unnest(:key_ids::bigint[], :lane_ids::bigint[]) AS wanted (key_id, lane_id)
CROSS JOIN LATERAL (
    SELECT run.ready_at FROM run
    WHERE {is_in_line} AND run.key_id = wanted.key_id AND run.lane_id = wanted.lane_id AND {is_unexpired}
    ORDER BY run.ready_at LIMIT 1
) AS head
CROSS JOIN LATERAL (
    SELECT concurrency_key.rule_id FROM concurrency_key WHERE concurrency_key.id = wanted.key_id LIMIT 1
) AS key
CROSS JOIN LATERAL (
    SELECT limit_rule.batch_size, limit_rule.batch_wait_ms FROM limit_rule WHERE limit_rule.id = key.rule_id LIMIT 1
) AS rule
LEFT JOIN LATERAL (
    SELECT run.ready_at FROM run
    WHERE {is_in_line} AND run.key_id = wanted.key_id AND run.lane_id = wanted.lane_id AND {is_unexpired}
      AND head.ready_at + rule.batch_wait_ms * interval '1 millisecond' > :now
    ORDER BY run.ready_at LIMIT 1 OFFSET rule.batch_size - 1
) AS filling ON true;

-- name: lock_batches
-- The ids are sorted. As for lock_keys; the lock comes before the pick, so that a batch is not split between claims.
SELECT key.id, rule.batch_size, rule.batch_wait_ms
FROM unnest(:key_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT concurrency_key.id, concurrency_key.rule_id FROM concurrency_key
    WHERE concurrency_key.id = wanted.id FOR NO KEY UPDATE SKIP LOCKED
) AS key
CROSS JOIN LATERAL (SELECT * FROM limit_rule WHERE limit_rule.id = key.rule_id LIMIT 1) AS rule;

-- name: pick_quarantined
-- The same for runs that crashed a worker, with keys or without.
SELECT candidate.*
FROM unnest(:lanes::bigint[], :lows::timestamptz[]) AS wanted (lane_id, low)
CROSS JOIN LATERAL (
    SELECT {run.candidate_columns}, run.ctid AS place FROM run
    WHERE run.lane_id = wanted.lane_id AND {is_waiting} AND {is_unexpired}
      AND run.crashes > 0 AND run.ready_at BETWEEN wanted.low AND :now
    ORDER BY run.ready_at LIMIT :limit FOR UPDATE SKIP LOCKED
) AS candidate
LIMIT :limit;

-- name: lock_keys
-- The ids are sorted. A key that somebody else decides about now is passed over: that defers, it decides nothing.
SELECT
    key.id, key.held_from, key.level, key.level_at, rule.max_running, rule.per_count, rule.per_ms, rule.burst, rule.hold
FROM unnest(:key_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT * FROM concurrency_key WHERE concurrency_key.id = wanted.id FOR NO KEY UPDATE SKIP LOCKED
) AS key
CROSS JOIN LATERAL (SELECT * FROM limit_rule WHERE limit_rule.id = key.rule_id LIMIT 1) AS rule;

-- name: count_holds
-- In a statement of its own after lock_keys: in one statement the count would be as old as the wait for the lock. Where
-- `are_compared`, places are compared with their runs, and those that do not count are removed; elsewhere they are only
-- counted, so it may say more than are held. `are_by_run`: with `hold: run`.
WITH seen AS MATERIALIZED (
    SELECT wanted.key_id, hold.id, hold.run_id, hold.place, wanted.is_by_run,
           NOT wanted.is_compared OR held.id IS NOT NULL AS is_held, held.session_id IS NOT NULL AS is_under_way
    FROM unnest(:key_ids::bigint[], :helds_from::bigint[], :are_compared::boolean[], :are_by_run::boolean[])
        AS wanted (key_id, held_from, is_compared, is_by_run)
    CROSS JOIN LATERAL (
        SELECT key_hold.id, key_hold.run_id, key_hold.token, key_hold.ctid AS place FROM key_hold
        WHERE key_hold.key_id = wanted.key_id AND key_hold.id >= wanted.held_from
        ORDER BY key_hold.key_id, key_hold.id OFFSET 0
    ) AS hold
    LEFT JOIN LATERAL (
        SELECT run.id, run.session_id FROM run
        WHERE wanted.is_compared AND run.id = hold.run_id
          AND (wanted.is_by_run OR run.token = hold.token AND run.session_id IS NOT NULL)
        LIMIT 1
    ) AS held ON true
), gone AS (
    DELETE FROM key_hold WHERE key_hold.ctid = ANY(ARRAY(SELECT seen.place FROM seen WHERE NOT seen.is_held))
)
SELECT
    seen.key_id, count(*) FILTER (WHERE seen.is_held) AS held, min(seen.id) FILTER (WHERE seen.is_held) AS oldest,
    coalesce(array_agg(seen.run_id) FILTER (WHERE seen.is_held AND seen.is_by_run), '{}') AS run_ids,
    coalesce(array_agg(seen.run_id) FILTER (WHERE seen.is_held AND seen.is_by_run AND seen.is_under_way), '{}')
        AS under_way
FROM seen GROUP BY seen.key_id;

-- name: pick_holders
-- Runs that kept their places, and wait for their next attempt. Nobody waits for them here.
SELECT candidate.*
FROM unnest(:run_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT {run.candidate_columns}, run.ctid AS place FROM run
    WHERE run.id = wanted.id AND run.session_id IS NULL AND run.crashes = 0 AND {is_unexpired}
    FOR UPDATE SKIP LOCKED
) AS candidate;

-- name: start_lined_up
-- Starts what was admitted, with a place under each key, a new one or one that was kept. The rows have been locked since
-- they were picked, so their tokens are known.
WITH held AS (
    INSERT INTO key_hold (key_id, run_id, token)
    SELECT new.key_id, new.run_id, new.token
    FROM unnest(:hold_keys::bigint[], :hold_runs::bigint[], :hold_tokens::integer[]) AS new (key_id, run_id, token)
), kept AS (
    UPDATE key_hold
    SET token = (:kept_tokens::integer[])[array_position(:kept_runs::bigint[], key_hold.run_id)]
    WHERE key_hold.ctid = ANY(ARRAY(
        SELECT hold.place
        FROM unnest(:kept_keys::bigint[], :kept_runs::bigint[], :kept_from::bigint[]) AS old (key_id, run_id, held_from)
        CROSS JOIN LATERAL (
            SELECT key_hold.run_id, key_hold.ctid AS place FROM key_hold
            WHERE key_hold.key_id = old.key_id AND key_hold.id >= old.held_from
            ORDER BY key_hold.key_id, key_hold.id OFFSET 0
        ) AS hold
        WHERE hold.run_id = old.run_id
    ))
), keys AS (
    UPDATE concurrency_key SET
        level = (:levels::double precision[])[width_bucket(concurrency_key.id, :changed_keys::bigint[])],
        level_at = (:levels_at::timestamptz[])[width_bucket(concurrency_key.id, :changed_keys::bigint[])],
        held_from = (:helds_from::bigint[])[width_bucket(concurrency_key.id, :changed_keys::bigint[])]
    WHERE concurrency_key.id = ANY(:changed_keys::bigint[])
)
UPDATE run SET
    state = 'RUNNING', token = run.token + 1,
    session_id = (:run_sessions::bigint[])[width_bucket(run.id, :run_ids::bigint[])],
    claim_number = (:run_numbers::bigint[])[width_bucket(run.id, :run_ids::bigint[])],
    started_at = :now, deadline_at = :now::timestamptz + run.timeout_ms * interval '1 millisecond',
    is_quarantined = run.crashes > 0
WHERE run.ctid = ANY(:places::tid[])
RETURNING
    {run.claimed_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested, run.lane_id, run.ready_at,
    run.session_id;

-- name: begin_lines
-- Runs that are live outside of the line of their job have places in it, so that it waits for their end.
INSERT INTO key_hold (key_id, run_id, token)
SELECT line.key_id, run.id, run.token
FROM unnest(:job_ids::uuid[], :key_ids::bigint[]) AS line (job_id, key_id)
JOIN run ON run.job_id = line.job_id
WHERE run.key_id IS DISTINCT FROM line.key_id
  AND NOT EXISTS (SELECT FROM key_hold WHERE key_hold.key_id = line.key_id AND key_hold.run_id = run.id)
ORDER BY run.id;

-- name: prune_holds
DELETE FROM key_hold WHERE key_hold.ctid = ANY(ARRAY(
    SELECT key_hold.ctid FROM key_hold
    WHERE NOT EXISTS (
        SELECT FROM run
        WHERE run.id = key_hold.run_id AND (
            run.token = key_hold.token AND run.session_id IS NOT NULL
            OR 'run' = (
                SELECT limit_rule.hold FROM concurrency_key JOIN limit_rule ON limit_rule.id = concurrency_key.rule_id
                WHERE concurrency_key.id = key_hold.key_id
            )
        )
    )
    LIMIT :limit FOR UPDATE SKIP LOCKED
));

-- name: lock_idle_keys
-- Only candidates: this may not see a submit that has just committed, so delete_idle_keys checks again.
SELECT concurrency_key.id FROM concurrency_key
LEFT JOIN limit_rule ON limit_rule.id = concurrency_key.rule_id
WHERE (
    concurrency_key.level_at IS NULL OR limit_rule.per_ms IS NULL
    OR concurrency_key.level_at < :now::timestamptz - interval '1 millisecond' * (
        limit_rule.per_ms * (coalesce(limit_rule.burst, 1) / limit_rule.per_count::double precision + 1)
    )
)
  AND (limit_rule.id IS NULL OR NOT {is_set_cap})
  AND NOT EXISTS (SELECT FROM key_hold WHERE key_hold.key_id = concurrency_key.id)
  AND NOT EXISTS (SELECT FROM run WHERE {is_in_line} AND run.key_id = concurrency_key.id)
LIMIT :limit FOR UPDATE OF concurrency_key SKIP LOCKED;

-- name: delete_idle_keys
DELETE FROM concurrency_key
WHERE concurrency_key.id = ANY(:key_ids::bigint[])
  AND NOT EXISTS (SELECT FROM limit_rule WHERE limit_rule.id = concurrency_key.rule_id AND {is_set_cap})
  AND NOT EXISTS (SELECT FROM key_hold WHERE key_hold.key_id = concurrency_key.id)
  AND NOT EXISTS (SELECT FROM run WHERE {is_in_line} AND run.key_id = concurrency_key.id)
  AND NOT EXISTS (SELECT FROM run WHERE run.second_key_id = concurrency_key.id)
  AND NOT EXISTS (SELECT FROM run WHERE run.third_key_id = concurrency_key.id)
  AND concurrency_key.id NOT IN (SELECT run.key_id FROM run WHERE {is_waiting} AND run.crashes > 0 AND run.key_id IS NOT NULL);

-- name: lock_idle_rules
-- Rules that are not set, and own limits of deleted jobs, as far as no run seems to stand under them.
SELECT limit_rule.id FROM limit_rule
WHERE (
    limit_rule.max_running IS NULL AND limit_rule.per_count IS NULL AND limit_rule.batch_size IS NULL
    OR limit_rule.job_id IS NOT NULL
       AND NOT EXISTS (SELECT FROM job WHERE job.id = limit_rule.job_id AND job.deleted_at IS NULL)
)
  AND NOT EXISTS (SELECT FROM concurrency_key WHERE concurrency_key.rule_id = limit_rule.id)
LIMIT :limit FOR UPDATE SKIP LOCKED;

-- name: delete_idle_rules
DELETE FROM limit_rule
WHERE limit_rule.id = ANY(:rule_ids::bigint[])
  AND NOT EXISTS (SELECT FROM concurrency_key WHERE concurrency_key.rule_id = limit_rule.id);
