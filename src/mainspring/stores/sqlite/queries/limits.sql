-- Limits: rules, keys, and the lines of the runs that wait under them. There is one writer, so nothing is locked.
-- A rule without a cap and without a rate is one that is not set: it stays for those who stand under it.

-- name: find_limit
SELECT name FROM limit_rule
WHERE tenant = :tenant AND name = :name AND (max_running IS NOT NULL OR per_count IS NOT NULL);

-- name: write_rule
INSERT INTO limit_rule (
    tenant, name, job_id, max_running, per_count, per_ms, burst, hold, batch_size, batch_wait_ms
)
VALUES (:tenant, :name, :job_id, :cap, :count, :period_ms, :burst, :hold, :batch_size, :batch_wait_ms)
ON CONFLICT (tenant, name) DO UPDATE SET
    max_running = excluded.max_running, per_count = excluded.per_count, per_ms = excluded.per_ms, burst = excluded.burst,
    hold = excluded.hold, batch_size = excluded.batch_size, batch_wait_ms = excluded.batch_wait_ms;

-- name: lift_own_rules
-- The rules of own limits that the newest definition of a job does not have.
UPDATE limit_rule SET max_running = NULL, per_count = NULL, per_ms = NULL, burst = NULL, batch_size = NULL,
    batch_wait_ms = NULL
WHERE job_id = :job_id AND name NOT IN (SELECT value FROM json_each(:names));

-- name: drop_limit_uses
DELETE FROM limit_use WHERE job_id = :job_id;

-- name: add_limit_use
INSERT INTO limit_use (tenant, name, job_id) VALUES (:tenant, :name, :job_id)
ON CONFLICT (tenant, name, job_id) DO NOTHING;

-- name: list_limits
SELECT name, job_id, max_running, per_count, per_ms, burst, hold FROM limit_rule
WHERE tenant = :tenant AND job_id IS NULL AND (max_running IS NOT NULL OR per_count IS NOT NULL)
  AND instr(name, ':') = 0  -- the caps of lanes have one
ORDER BY name;

-- name: list_limit_users
-- A limit of the cluster is used by the jobs of tenants that have none of that name.
SELECT job.name FROM limit_use JOIN job ON job.id = limit_use.job_id
WHERE limit_use.name = :name AND job.deleted_at IS NULL
  AND (limit_use.tenant = :tenant OR (:tenant = '*' AND NOT EXISTS (
    SELECT 1 FROM limit_rule
    WHERE limit_rule.tenant = limit_use.tenant AND limit_rule.name = limit_use.name AND {is_set}
)))
ORDER BY job.name LIMIT :limit;

-- name: lift_limit
UPDATE limit_rule SET max_running = NULL, per_count = NULL, per_ms = NULL, burst = NULL
WHERE tenant = :tenant AND name = :name AND job_id IS NULL AND (max_running IS NOT NULL OR per_count IS NOT NULL)
RETURNING name;

-- name: list_keys
WITH picked AS MATERIALIZED (
    SELECT {key_use_columns}
    FROM limit_rule
    CROSS JOIN concurrency_key ON concurrency_key.rule_id = limit_rule.id
    WHERE limit_rule.tenant = :tenant AND limit_rule.name = :name AND (:after IS NULL OR concurrency_key.key > :after)
    ORDER BY concurrency_key.key LIMIT :limit
)
{key_uses}
ORDER BY picked.key;

-- name: list_keys_by_age
-- The plus walks the ids, and so ends with the page: by the index of the rule, all of its keys would be sorted.
WITH picked AS MATERIALIZED (
    SELECT {key_use_columns}
    FROM limit_rule
    CROSS JOIN concurrency_key ON +concurrency_key.rule_id = limit_rule.id
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
    concurrency_key.level_at, limit_rule.max_running, limit_rule.per_count, limit_rule.per_ms, limit_rule.burst,
    (
        SELECT json_group_array(json_array(holder.id, theirs.tenant = mine.tenant))
        FROM key_hold
        CROSS JOIN run AS holder ON holder.id = key_hold.run_id
        CROSS JOIN lane AS theirs ON theirs.id = holder.lane_id
        WHERE key_hold.key_id = concurrency_key.id AND holder.id <> run.id
          AND (limit_rule.hold = 'run' OR (holder.token = key_hold.token AND holder.session_id IS NOT NULL))
    ) AS holders
FROM run
CROSS JOIN lane AS mine ON mine.id = run.lane_id
CROSS JOIN json_each(json_array(run.key_id, run.second_key_id, run.third_key_id)) AS own
CROSS JOIN concurrency_key ON concurrency_key.id = own.value
CROSS JOIN limit_rule ON limit_rule.id = concurrency_key.rule_id
WHERE run.id = :run_id
ORDER BY own.key;

-- name: read_wait_batch
-- The batch for which a run waits: its rule, and how many are ready for it, since when.
SELECT
    limit_rule.batch_size, limit_rule.batch_wait_ms,
    (SELECT count(*) FROM (
        SELECT 1 FROM run INDEXED BY run_line
        WHERE {is_in_line} AND run.key_id = mine.key_id AND run.lane_id = mine.lane_id AND {is_unexpired}
          AND run.ready_at <= :now
        LIMIT :limit
    )) AS ready,
    (
        SELECT run.ready_at FROM run INDEXED BY run_line
        WHERE {is_in_line} AND run.key_id = mine.key_id AND run.lane_id = mine.lane_id AND {is_unexpired}
        ORDER BY run.ready_at LIMIT 1
    ) AS head_at
FROM run AS mine
CROSS JOIN concurrency_key ON concurrency_key.id = mine.key_id
CROSS JOIN limit_rule ON limit_rule.id = concurrency_key.rule_id
WHERE mine.id = :run_id AND mine.crashes = 0 AND limit_rule.batch_size IS NOT NULL;

-- name: count_ahead
-- How many stand before a waiting run: of its lane, of its line, or of its lane's quarantined runs. No row: it does not
-- wait.
SELECT
    (SELECT count(*) FROM (
        SELECT 1 FROM run INDEXED BY run_ready
        WHERE mine.crashes = 0 AND NOT mine.is_parked AND run.lane_id = mine.lane_id AND {is_ready} AND run.crashes = 0
          AND run.ready_at <= mine.ready_at AND (run.ready_at < mine.ready_at OR run.id < mine.id)
        LIMIT :limit
    )) + (SELECT count(*) FROM (
        SELECT 1 FROM run INDEXED BY run_line
        WHERE mine.crashes = 0 AND mine.is_parked AND {is_in_line} AND run.key_id = mine.key_id
          AND run.lane_id = mine.lane_id
          AND run.ready_at <= mine.ready_at AND (run.ready_at < mine.ready_at OR run.id < mine.id)
        LIMIT :limit
    )) + (SELECT count(*) FROM (
        SELECT 1 FROM run INDEXED BY run_quarantined
        WHERE mine.crashes > 0 AND run.lane_id = mine.lane_id AND {is_waiting} AND run.crashes > 0
          AND run.ready_at <= mine.ready_at AND (run.ready_at < mine.ready_at OR run.id < mine.id)
        LIMIT :limit
    )) AS ahead,
    mine.expires_at
FROM run AS mine
WHERE mine.id = :run_id AND mine.session_id IS NULL;

-- name: find_rule
-- A tenant that has no limit of a name has that of the cluster.
SELECT limit_rule.id FROM limit_rule
WHERE limit_rule.tenant IN (:tenant, '*') AND limit_rule.name = :name
ORDER BY {is_set} DESC, limit_rule.tenant = '*' LIMIT 1;

-- name: intern_rule
-- A rule that is not there, because a limit was deleted meanwhile, is one without bounds.
INSERT INTO limit_rule (tenant, name, job_id, hold) VALUES (:tenant, :name, :job_id, 'attempt') RETURNING id;

-- name: find_key
SELECT id FROM concurrency_key WHERE rule_id = :rule_id AND key = :key;

-- name: intern_key
INSERT INTO concurrency_key (rule_id, key) VALUES (:rule_id, :key) RETURNING id;

-- name: read_lines
-- The earliest run of each line, from a line on: one search for each line, however many runs wait in it.
WITH RECURSIVE line (run_id, position) AS (
    SELECT (
        SELECT run.id FROM run INDEXED BY run_line
        WHERE {is_in_line} AND (run.key_id, run.lane_id) > (:after_key, :after_lane)
        ORDER BY run.key_id, run.lane_id, run.ready_at LIMIT 1
    ), 1
    UNION ALL
    SELECT (
        SELECT run.id FROM run INDEXED BY run_line
        WHERE {is_in_line} AND (run.key_id, run.lane_id) > (head.key_id, head.lane_id)
        ORDER BY run.key_id, run.lane_id, run.ready_at LIMIT 1
    ), line.position + 1
    FROM line CROSS JOIN run AS head ON head.id = line.run_id
    WHERE line.position < :limit
)
SELECT run.key_id, run.lane_id, run.ready_at FROM line CROSS JOIN run ON run.id = line.run_id;

-- name: read_some_line
SELECT run.key_id, run.lane_id, run.ready_at FROM run INDEXED BY run_line
WHERE {is_in_line} AND run.key_id = :key_id AND run.lane_id = :lane_id
ORDER BY run.ready_at LIMIT 1;

-- name: pick_lined_up
SELECT {run.candidate_columns} FROM run INDEXED BY run_line
WHERE {is_in_line} AND run.key_id = :key_id AND run.lane_id = :lane_id AND run.ready_at BETWEEN :low AND :now AND {is_unexpired}
ORDER BY run.ready_at LIMIT :limit;

-- name: pick_plain
-- The same for runs without keys, of a lane that has a cap.
SELECT {run.candidate_columns} FROM run INDEXED BY run_ready
WHERE {is_ready} AND run.crashes = 0 AND run.lane_id = :lane_id AND run.ready_at BETWEEN :low AND :now AND {is_unexpired}
ORDER BY run.ready_at LIMIT :limit;

-- name: read_batch
-- The first run of a line that is taken in batches, and the line's size.
SELECT run.key_id, run.lane_id, run.ready_at, limit_rule.batch_size, limit_rule.batch_wait_ms
FROM run INDEXED BY run_line
CROSS JOIN concurrency_key ON concurrency_key.id = run.key_id
CROSS JOIN limit_rule ON limit_rule.id = concurrency_key.rule_id
WHERE {is_in_line} AND run.key_id = :key_id AND run.lane_id = :lane_id AND {is_unexpired}
ORDER BY run.ready_at LIMIT 1;

-- name: read_filling
-- The run that fills a batch.
SELECT run.ready_at FROM run INDEXED BY run_line
WHERE {is_in_line} AND run.key_id = :key_id AND run.lane_id = :lane_id AND {is_unexpired}
ORDER BY run.ready_at LIMIT 1 OFFSET :before;

-- name: read_size
SELECT limit_rule.batch_size, limit_rule.batch_wait_ms
FROM concurrency_key CROSS JOIN limit_rule ON limit_rule.id = concurrency_key.rule_id
WHERE concurrency_key.id = :key_id;

-- name: pick_quarantined
-- The same for runs that crashed a worker, with keys or without, lane after lane.
SELECT {run.candidate_columns}
FROM json_each(:lanes) AS wanted
CROSS JOIN run INDEXED BY run_quarantined ON run.lane_id = CAST(wanted.key AS INTEGER)
WHERE {is_waiting} AND {is_unexpired} AND run.crashes > 0 AND run.ready_at BETWEEN wanted.value AND :now
LIMIT :limit;

-- name: read_keys_of_claim
SELECT
    key.id, key.level, key.level_at, rule.max_running, rule.per_count, rule.per_ms, rule.burst, rule.hold
FROM json_each(:key_ids) AS wanted
CROSS JOIN concurrency_key AS key ON key.id = wanted.value
CROSS JOIN limit_rule AS rule ON rule.id = key.rule_id;

-- name: drop_void_holds
-- Places that do not count. `is_by_run`: with `hold: run`.
DELETE FROM key_hold
WHERE key_hold.key_id = :key_id AND NOT EXISTS (
    SELECT 1 FROM run
    WHERE run.id = key_hold.run_id AND (:is_by_run OR (run.token = key_hold.token AND run.session_id IS NOT NULL))
);

-- name: count_holds
SELECT count(*) FROM key_hold WHERE key_id = :key_id;

-- name: list_holders
SELECT key_hold.run_id, run.session_id IS NOT NULL AS is_under_way
FROM key_hold CROSS JOIN run ON run.id = key_hold.run_id
WHERE key_hold.key_id = :key_id;

-- name: pick_holders
-- Runs that kept their places, and wait for their next attempt.
SELECT {run.candidate_columns}
FROM json_each(:run_ids) AS wanted
CROSS JOIN run ON run.id = wanted.value
WHERE run.session_id IS NULL AND run.crashes = 0 AND {is_unexpired};

-- name: start_lined_up
UPDATE run SET
    state = 'RUNNING', token = token + 1, session_id = :session_id, claim_number = :number, is_quarantined = crashes > 0,
    started_at = :now, deadline_at = :now + timeout_ms * 1000
WHERE id IN (SELECT value FROM json_each(:run_ids));

-- name: find_started
SELECT
    {run.claimed_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested, lane.tenant
FROM json_each(:run_ids) AS wanted
CROSS JOIN run ON run.id = wanted.value
CROSS JOIN lane ON lane.id = run.lane_id;

-- name: add_hold
INSERT INTO key_hold (key_id, run_id, token) VALUES (:key_id, :run_id, :token);

-- name: keep_hold
-- A place that a run has had since an earlier attempt. OR REPLACE: several are one.
UPDATE OR REPLACE key_hold SET token = :token WHERE key_id = :key_id AND run_id = :run_id;

-- name: begin_line
-- Runs that are live outside of the line of their job have places in it, so that it waits for their end.
INSERT INTO key_hold (key_id, run_id, token)
SELECT :key_id, run.id, run.token FROM run
WHERE run.job_id = :job_id AND run.key_id IS NOT :key_id
  AND NOT EXISTS (SELECT 1 FROM key_hold WHERE key_hold.key_id = :key_id AND key_hold.run_id = run.id);

-- name: set_bucket
UPDATE concurrency_key SET level = :level, level_at = :level_at WHERE id = :key_id;

-- name: insert_lined_up
INSERT INTO run ({new_columns}, is_parked, key_id, second_key_id, third_key_id)
VALUES (
    :run_id, :job_id, :version, :run_lane, :kind, 'PENDING', :fire_at, :due_at, max(:due_at, :now), :now, :expiry_at,
    :timeout_ms, :payload, :target_key, :fire_range_id, :trace, 1, :key_id, :second_key, :third_key
);

-- name: prune_holds
DELETE FROM key_hold WHERE (key_id, run_id, token) IN (
    SELECT key_hold.key_id, key_hold.run_id, key_hold.token FROM key_hold
    WHERE NOT EXISTS (
        SELECT 1 FROM run
        WHERE run.id = key_hold.run_id AND (
            (run.token = key_hold.token AND run.session_id IS NOT NULL)
            OR 'run' = (
                SELECT limit_rule.hold FROM concurrency_key CROSS JOIN limit_rule ON limit_rule.id = concurrency_key.rule_id
                WHERE concurrency_key.id = key_hold.key_id
            )
        )
    )
    LIMIT :limit
);

-- name: delete_idle_keys
-- Keys under which no run stands, and whose permits have all come in again.
DELETE FROM concurrency_key WHERE id IN (
    SELECT concurrency_key.id FROM concurrency_key
    LEFT JOIN limit_rule ON limit_rule.id = concurrency_key.rule_id
    WHERE (
        concurrency_key.level_at IS NULL OR limit_rule.per_ms IS NULL
        OR concurrency_key.level_at
            < :now - 1000 * limit_rule.per_ms * (1.0 * coalesce(limit_rule.burst, 1) / limit_rule.per_count + 1)
    )
      -- The keys of caps that are set are those of all claims from their lanes.
      AND NOT coalesce(
        limit_rule.tenant = '*' AND limit_rule.max_running IS NOT NULL AND instr(limit_rule.name, ':') > 0, 0
    )
      AND NOT EXISTS (SELECT 1 FROM key_hold WHERE key_hold.key_id = concurrency_key.id)
      AND NOT EXISTS (
        SELECT 1 FROM run INDEXED BY run_line WHERE {is_in_line} AND run.key_id = concurrency_key.id
    )
      AND NOT EXISTS (
        SELECT 1 FROM run INDEXED BY run_second_key WHERE run.second_key_id = concurrency_key.id
    )
      AND NOT EXISTS (
        SELECT 1 FROM run INDEXED BY run_third_key WHERE run.third_key_id = concurrency_key.id
    )
      AND concurrency_key.id NOT IN (
        SELECT run.key_id FROM run INDEXED BY run_quarantined
        WHERE {is_waiting} AND run.crashes > 0 AND run.key_id IS NOT NULL
    )
    LIMIT :limit
);

-- name: delete_idle_rules
-- Rules that are not set, and own limits of deleted jobs, under which no run stands.
DELETE FROM limit_rule WHERE id IN (
    SELECT limit_rule.id FROM limit_rule
    WHERE (
        (limit_rule.max_running IS NULL AND limit_rule.per_count IS NULL AND limit_rule.batch_size IS NULL)
        OR (
            limit_rule.job_id IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = limit_rule.job_id AND job.deleted_at IS NULL)
        )
    )
      AND NOT EXISTS (SELECT 1 FROM concurrency_key WHERE concurrency_key.rule_id = limit_rule.id)
    LIMIT :limit
);
