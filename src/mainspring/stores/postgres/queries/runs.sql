-- Runs from submission to history: the hot path. Its traps are those of design 9. Never use `lane_id = ANY(array)`
-- for a claim. Use MATERIALIZED for joined sets. When looking up a run by id, never repeat the condition of a partial
-- index (the planner might pick that index): `session_id IS NOT NULL` means that a run is RUNNING. Likewise, a
-- look-up of a job by id must not say `deleted_at IS NULL`, or an empty table's plan walks job_page.
--
-- One more trap: if ANALYZE found the live table nearly empty while its indexes were full of dead entries, the
-- planner joins a batch from the wrong side and walks all entries. So rows are never joined with the batch. They are
-- looked up by `id = ANY(sorted ids)`, which also locks them in that order (law 6), or by a LATERAL, which the
-- planner cannot turn round. The values for a row are then found in the other arrays at `width_bucket(id, sorted
-- ids)`, by binary search.

-- name: hold_lanes
-- The key share lock keeps prune_lanes off the lanes until the transaction ends.
SELECT lane.id
FROM unnest(:lane_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT lane.id FROM lane WHERE lane.id = wanted.id FOR KEY SHARE) AS lane;

-- name: intern_lanes
-- The arguments are sorted, so that two callers cannot deadlock.
INSERT INTO lane (queue, route, tenant, priority)
SELECT queue, route, tenant, priority
FROM unnest(:queues::text[], :routes::text[], :tenants::text[], :priorities::smallint[])
    AS wanted (queue, route, tenant, priority)
ON CONFLICT (queue, route, tenant, priority) DO NOTHING;

-- name: find_lanes
SELECT wanted.position, lane.id
FROM unnest(:queues::text[], :routes::text[], :tenants::text[], :priorities::smallint[])
    WITH ORDINALITY AS wanted (queue, route, tenant, priority, position)
CROSS JOIN LATERAL (
    SELECT lane.id FROM lane
    WHERE lane.queue = wanted.queue AND lane.route = wanted.route
      AND lane.tenant = wanted.tenant AND lane.priority = wanted.priority
    FOR KEY SHARE
) AS lane;

-- name: submit_runs
-- A whole submission without keys in one statement. It inserts all runs, or none if a lane or job is gone or a job
-- does not have the required version; the caller then examines each run. If all values of a column are the same, only
-- the first is passed: a short array is filled up with NULL.
WITH held AS MATERIALIZED (
    SELECT lane.id
    FROM unnest(:lane_ids::bigint[]) AS wanted (id)
    CROSS JOIN LATERAL (SELECT lane.id FROM lane WHERE lane.id = wanted.id FOR KEY SHARE) AS lane
), existing AS MATERIALIZED (
    SELECT job.id
    FROM unnest(:wanted_jobs::uuid[], :wanted_versions::integer[]) AS wanted (id, version)
    CROSS JOIN LATERAL (
        SELECT job.id FROM job
        WHERE job.id = wanted.id AND coalesce(job.deleted_at, 'infinity') = 'infinity'
          AND job.version = coalesce(wanted.version, job.version)
        LIMIT 1
    ) AS job
)
INSERT INTO run ({new_columns})
SELECT
    {new_id},
    {new_values}
FROM ROWS FROM (
    unnest({new_arrays}),
    generate_series(1, :count::integer)
) AS new ({new_names}, position)
WHERE (SELECT count(*) FROM held) = cardinality(:lane_ids::bigint[])
  AND (SELECT count(*) FROM existing) = cardinality(:wanted_jobs::uuid[])
RETURNING id, {announced};

-- name: submit_one
-- The same for one run, which is a common case. Without arrays it takes a tenth less time of the server and of the
-- caller.
INSERT INTO run ({new_columns})
SELECT
    {new_id_of_one}, :job_id::uuid, :version::integer, lane.id, :kind::text, 'PENDING',
    :fire_at::timestamptz, :due_at::timestamptz, greatest(:due_at::timestamptz, :now::timestamptz), :now::timestamptz,
    :expires_at::timestamptz, :timeout_ms::bigint, :payload::bytea, :target_key::text, :fire_range_id::bigint,
    :trace::bytea
FROM (SELECT lane.id FROM lane WHERE lane.id = :lane_id FOR KEY SHARE) AS lane
CROSS JOIN LATERAL (
    SELECT FROM job
    WHERE job.id = :job_id AND coalesce(job.deleted_at, 'infinity') = 'infinity'
      AND job.version = coalesce(:newest_version::integer, job.version)
    LIMIT 1
) AS existing
RETURNING id, {announced};

-- name: announce
SELECT pg_notify('mainspring', :notice::text);

-- name: insert_runs
-- Runs that are already admitted. An id of NULL means the sequence's next. The lanes are passed in full, which sets
-- the number of rows.
INSERT INTO run ({new_columns})
SELECT
    coalesce(new.id, {new_id}),
    {new_values}
FROM unnest(:run_ids::bigint[], {new_arrays}) AS new (id, {new_names})
RETURNING id;

-- name: insert_lined_up
-- The same for runs of which some have keys, whose ids are held.
INSERT INTO run ({new_columns}, is_parked, key_id, second_key_id, third_key_id)
SELECT
    coalesce(new.id, {new_id}),
    {new_values}, new.key_id IS NOT NULL, new.key_id, new.second_key_id, new.third_key_id
FROM unnest(
    :run_ids::bigint[], {new_arrays}, :key_ids::bigint[], :second_keys::bigint[], :third_keys::bigint[]
) AS new (id, {new_names}, key_id, second_key_id, third_key_id)
RETURNING id;

-- name: insert_steps
-- The same for runs of steps.
INSERT INTO run ({new_columns}, flow_id, step, item, is_parked, key_id, second_key_id, third_key_id)
SELECT
    {new_id},
    {new_values}, new.flow_id, new.step, new.item, new.key_id IS NOT NULL, new.key_id, new.second_key_id,
    new.third_key_id
FROM unnest(
    {new_arrays}, :flow_ids::bigint[], :steps::smallint[], :items::integer[], :key_ids::bigint[], :second_keys::bigint[],
    :third_keys::bigint[]
) AS new ({new_names}, flow_id, step, item, key_id, second_key_id, third_key_id)
RETURNING id;

-- name: insert_skipped
-- Law 4: a fire that does not become work leaves a record in the history.
INSERT INTO run_history (
    id, job_id, version, queue, route, tenant, priority, kind, state, reason, fire_at, due_at, created_at,
    finished_at, attempt, token, crashes, payload, target_key, fire_range_id, trace
)
SELECT
    coalesce(new.id, nextval('run_sequence') * 256 + new.shard), new.job_id, new.version, new.queue, new.route,
    new.tenant, new.priority, new.kind, 'SKIPPED', new.reason, new.fire_at, new.due_at, :now, :now, 1, 0, 0,
    new.payload, new.target_key, new.fire_range_id, new.trace
FROM unnest(
    :run_ids::bigint[], :shards::bigint[], :job_ids::uuid[], :versions::integer[], :queues::text[], :routes::text[],
    :tenants::text[], :priorities::smallint[], :kinds::text[], :reasons::text[], :fires_at::timestamptz[],
    :dues_at::timestamptz[], :payloads::bytea[], :target_keys::text[], :fire_range_ids::bigint[], :traces::bytea[]
) AS new (
    id, shard, job_id, version, queue, route, tenant, priority, kind, reason, fire_at, due_at, payload, target_key,
    fire_range_id, trace
);

-- name: reserve_run_ids
SELECT nextval('run_sequence') AS number FROM generate_series(1, :count::integer);

-- name: find_existing_jobs
SELECT job.id, job.version
FROM unnest(:job_ids::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT job.id, job.version FROM job
    WHERE job.id = wanted.id AND coalesce(job.deleted_at, 'infinity') = 'infinity' LIMIT 1
) AS job;

-- name: reserve_keys
-- Takes the free keys. The rows of the other keys are locked too, so read_keys will find them.
INSERT INTO idempotency AS known (tenant, key, run_id, request_hash, expires_at)
SELECT tenant, key, run_id, request_hash, expires_at
FROM unnest(
    :tenants::text[], :keys::text[], :run_ids::bigint[], :request_hashes::bytea[], :expiries_at::timestamptz[]
) AS new (tenant, key, run_id, request_hash, expires_at)
ON CONFLICT (tenant, key) DO UPDATE
SET run_id = excluded.run_id, request_hash = excluded.request_hash, expires_at = excluded.expires_at,
    verdict = NULL
WHERE known.expires_at <= :now;

-- name: read_keys
SELECT known.tenant, known.key, known.run_id, known.request_hash, known.expires_at, known.verdict
FROM unnest(:tenants::text[], :keys::text[]) AS wanted (tenant, key)
CROSS JOIN LATERAL (
    SELECT * FROM idempotency
    WHERE idempotency.tenant = wanted.tenant AND idempotency.key = wanted.key
    LIMIT 1
) AS known;

-- name: mark_redrive
UPDATE run SET redrive_of = :redrive_of::bigint, flow_seed = :flow_seed::bytea WHERE id = :run_id::bigint;

-- name: request_cancels
-- Nobody but the engine asks for what it holds (session 0), so it is told.
WITH asked AS (
    UPDATE run SET cancel_requested_at = :now, cancel_reason = :reason
    WHERE run.id = ANY(:run_ids::bigint[]) AND run.cancel_requested_at IS NULL
    RETURNING run.id, run.session_id
)
INSERT INTO mail (shard, flow_id, what)
SELECT asked.id & 255, asked.id, 'cancel' FROM asked WHERE asked.session_id = 0;

-- name: find_expired
SELECT id FROM run
WHERE expires_at <= :now AND state IN ('PENDING', 'RETRYING')
ORDER BY expires_at LIMIT :limit FOR UPDATE SKIP LOCKED;

-- name: get_runs
SELECT found.*
FROM unnest(:run_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM any_run WHERE any_run.id = wanted.id LIMIT 1) AS found;

-- name: newest_runs
SELECT newest.*
FROM unnest(:job_ids::uuid[]) AS wanted (job_id)
CROSS JOIN LATERAL (
    (
        SELECT * FROM live_run
        WHERE live_run.job_id = wanted.job_id AND (due_at <= :now OR started_at IS NOT NULL)
        ORDER BY id + 0 DESC LIMIT 1
    )
    UNION ALL
    (
        SELECT * FROM ended_run
        WHERE ended_run.job_id = wanted.job_id AND (due_at <= :now OR started_at IS NOT NULL)
        ORDER BY id DESC LIMIT 1
    )
    ORDER BY id DESC LIMIT 1
) AS newest;

-- name: list_attempts
-- While a day is about to be dropped, an attempt may be in both tables.
SELECT run_id, token, number, outcome, worker, started_at, finished_at, error, output, host
FROM attempt WHERE run_id = :run_id
UNION
SELECT run_id, token, number, outcome, worker, started_at, finished_at, error, output, host
FROM kept_attempt WHERE run_id = :run_id
ORDER BY token;
