-- Runs from submission to history. The hot path; the traps are those of design 9:
-- never `lane_id = ANY(array)` for a claim, MATERIALIZED for joined sets, and no condition of a partial index where a run
-- is sought by id (the index might be picked): `session_id IS NOT NULL` says that a run is RUNNING. Likewise a job
-- sought by id must not say `deleted_at IS NULL`, or an empty table's plan walks job_page.
--
-- A third: where ANALYZE met the live table nearly empty, its indexes still full of dead entries, the planner joins a
-- batch from the wrong side and walks them all. So rows are not joined with the batch: they are sought by
-- `id = ANY(sorted ids)`, which also locks them in that order (law 6), or by a LATERAL that cannot be turned round; what
-- belongs to a row is then found in the other arrays at `width_bucket(id, sorted ids)`, a binary search.

-- name: hold_lanes
-- The key share lock keeps prune_lanes away until the transaction ends.
SELECT lane.id
FROM unnest(:lane_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT lane.id FROM lane WHERE lane.id = wanted.id FOR KEY SHARE) AS lane;

-- name: intern_lanes
-- The arguments are sorted, so that two callers wait for each other in one order.
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
-- Everything that a submission without keys costs: all of it, or nothing where one of the lanes or jobs is gone or a
-- job that has to be of some version is of another; the caller then looks at each. Of a column whose values are all
-- the same only the first is given: a short array is filled up with NULL.
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
    nextval('run_sequence') * 256 + coalesce(new.shard, (:shards::bigint[])[1]),
    coalesce(new.job_id, (:job_ids::uuid[])[1]), coalesce(new.version, (:versions::integer[])[1]),
    coalesce(new.lane_id, (:run_lanes::bigint[])[1]), coalesce(new.kind, (:kinds::text[])[1]), 'PENDING', new.fire_at,
    coalesce(new.due_at, (:dues_at::timestamptz[])[1]), greatest(coalesce(new.due_at, (:dues_at::timestamptz[])[1]), :now),
    :now, new.expires_at, coalesce(new.timeout_ms, (:timeouts_ms::bigint[])[1]), new.payload, new.target_key,
    new.fire_range_id
FROM ROWS FROM (
    unnest(
        :shards::bigint[], :job_ids::uuid[], :versions::integer[], :run_lanes::bigint[], :kinds::text[],
        :fires_at::timestamptz[], :dues_at::timestamptz[], :expiries_at::timestamptz[], :timeouts_ms::bigint[],
        :payloads::bytea[], :target_keys::text[], :fire_range_ids::bigint[]
    ),
    generate_series(1, :count::integer)
) AS new (
    shard, job_id, version, lane_id, kind, fire_at, due_at, expires_at, timeout_ms, payload, target_key, fire_range_id,
    position
)
WHERE (SELECT count(*) FROM held) = cardinality(:lane_ids::bigint[])
  AND (SELECT count(*) FROM existing) = cardinality(:wanted_jobs::uuid[])
RETURNING id;

-- name: submit_one
-- The same for one run, which is how many come: without arrays a tenth less of the server's time, and of the caller's.
INSERT INTO run ({new_columns})
SELECT
    nextval('run_sequence') * 256 + :shard::bigint, :job_id::uuid, :version::integer, lane.id, :kind::text, 'PENDING',
    :fire_at::timestamptz, :due_at::timestamptz, greatest(:due_at::timestamptz, :now::timestamptz), :now::timestamptz,
    :expires_at::timestamptz, :timeout_ms::bigint, :payload::bytea, :target_key::text, :fire_range_id::bigint
FROM (SELECT lane.id FROM lane WHERE lane.id = :lane_id FOR KEY SHARE) AS lane
CROSS JOIN LATERAL (
    SELECT FROM job
    WHERE job.id = :job_id AND coalesce(job.deleted_at, 'infinity') = 'infinity'
      AND job.version = coalesce(:newest_version::integer, job.version)
    LIMIT 1
) AS existing
RETURNING id;

-- name: insert_runs
-- Runs that are known to be wanted; an id of NULL is the sequence's next. The columns are as in
-- submit_runs; the lanes are given in full, so that there are as many rows.
INSERT INTO run ({new_columns})
SELECT
    coalesce(new.id, nextval('run_sequence') * 256 + coalesce(new.shard, (:shards::bigint[])[1])),
    coalesce(new.job_id, (:job_ids::uuid[])[1]), coalesce(new.version, (:versions::integer[])[1]),
    new.lane_id, coalesce(new.kind, (:kinds::text[])[1]), 'PENDING', new.fire_at,
    coalesce(new.due_at, (:dues_at::timestamptz[])[1]), greatest(coalesce(new.due_at, (:dues_at::timestamptz[])[1]), :now),
    :now, new.expires_at, coalesce(new.timeout_ms, (:timeouts_ms::bigint[])[1]), new.payload, new.target_key,
    new.fire_range_id
FROM unnest(
    :run_ids::bigint[], :shards::bigint[], :job_ids::uuid[], :versions::integer[], :run_lanes::bigint[],
    :kinds::text[], :fires_at::timestamptz[], :dues_at::timestamptz[], :expiries_at::timestamptz[],
    :timeouts_ms::bigint[], :payloads::bytea[], :target_keys::text[], :fire_range_ids::bigint[]
) AS new (
    id, shard, job_id, version, lane_id, kind, fire_at, due_at, expires_at, timeout_ms, payload, target_key, fire_range_id
)
RETURNING id;

-- name: insert_skipped
-- Law 4: what does not become work is a record in the history.
INSERT INTO run_history (
    id, job_id, version, queue, route, tenant, priority, kind, state, reason, fire_at, due_at, created_at,
    finished_at, attempt, token, crashes, payload, target_key, fire_range_id
)
SELECT
    coalesce(new.id, nextval('run_sequence') * 256 + new.shard), new.job_id, new.version, new.queue, new.route,
    new.tenant, new.priority, new.kind, 'SKIPPED', new.reason, new.fire_at, new.due_at, :now, :now, 1, 0, 0,
    new.payload, new.target_key, new.fire_range_id
FROM unnest(
    :run_ids::bigint[], :shards::bigint[], :job_ids::uuid[], :versions::integer[], :queues::text[], :routes::text[],
    :tenants::text[], :priorities::smallint[], :kinds::text[], :reasons::text[], :fires_at::timestamptz[],
    :dues_at::timestamptz[], :payloads::bytea[], :target_keys::text[], :fire_range_ids::bigint[]
) AS new (
    id, shard, job_id, version, queue, route, tenant, priority, kind, reason, fire_at, due_at, payload, target_key,
    fire_range_id
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
-- Takes what is free. The others' rows are locked all the same, so read_keys will find them.
INSERT INTO idempotency AS known (tenant, key, run_id, request_hash, expires_at)
SELECT tenant, key, run_id, request_hash, expires_at
FROM unnest(
    :tenants::text[], :keys::text[], :run_ids::bigint[], :request_hashes::bytea[], :expiries_at::timestamptz[]
) AS new (tenant, key, run_id, request_hash, expires_at)
ON CONFLICT (tenant, key) DO UPDATE
SET run_id = excluded.run_id, request_hash = excluded.request_hash, expires_at = excluded.expires_at
WHERE known.expires_at <= :now;

-- name: read_keys
SELECT known.tenant, known.key, known.run_id, known.request_hash, known.expires_at
FROM unnest(:tenants::text[], :keys::text[]) AS wanted (tenant, key)
CROSS JOIN LATERAL (
    SELECT * FROM idempotency
    WHERE idempotency.tenant = wanted.tenant AND idempotency.key = wanted.key
    LIMIT 1
) AS known;

-- name: read_lanes
-- A lane's lower bound (the ids are sorted) keeps the walk from the entries of runs that were claimed: while a long
-- transaction is open elsewhere they cannot be cleared. Suspects are few; they are walked from the beginning.
SELECT lane.id, lane.queue, lane.route, lane.tenant, lane.priority, ready.ready_at AS earliest_ready_at,
       quarantined.ready_at AS earliest_quarantined_at
FROM lane
LEFT JOIN LATERAL (
    SELECT run.ready_at FROM run
    WHERE run.lane_id = lane.id AND {is_ready} AND run.crashes = 0
      AND run.ready_at >= CASE
        WHEN (:lane_ids::bigint[])[width_bucket(lane.id, :lane_ids::bigint[])] = lane.id
        THEN (:lows::timestamptz[])[width_bucket(lane.id, :lane_ids::bigint[])]
        ELSE '-infinity'
      END
    ORDER BY run.ready_at LIMIT 1
) AS ready ON true
LEFT JOIN LATERAL (
    SELECT run.ready_at FROM run
    WHERE run.lane_id = lane.id AND {is_ready} AND run.crashes > 0
    ORDER BY run.ready_at LIMIT 1
) AS quarantined ON true
WHERE :is_all OR lane.queue = ANY(:queues::text[]);

-- name: lock_claimers
-- For calls with several requests: the sessions' rows in id order, before the first claim.
SELECT session.id
FROM unnest(:session_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT session.id FROM session WHERE session.id = wanted.id FOR NO KEY UPDATE
) AS session;

-- name: claim_runs
-- The lateral walks run_ready in order of `ready_at`, lane after lane, and stops as soon as the outer limit is reached. Rows are
-- found again by their place, to which the lock holds them, and answered by the update itself: through a CTE each would be
-- stored once more. Where the session's row changed while this waited for it, the rest would not see what the session
-- runs since then (another claim's run alone): nothing then, as where the session is not live or the request not new.
--
-- Each claim makes a new version of the session's row, and while a transaction is open elsewhere all of them stay: by its
-- id, each claim walked all those before it (0.1 µs and 0.08 buffers each). Equal entries of an index stand in the order of
-- their places in the table, and the newest version comes last: so the walk goes backwards (a range, for the order of what
-- is equal to a constant is thought away) and stops at the first that is seen, and the row is taken by its place.
WITH seen AS MATERIALIZED (
    SELECT session.ctid, session.xmin FROM session
    WHERE session.id >= :session_id AND session.id <= :session_id ORDER BY session.id DESC LIMIT 1
), claimer AS MATERIALIZED (
    UPDATE session SET claim_number = :number
    WHERE ctid = (SELECT seen.ctid FROM seen) AND xmin = (SELECT seen.xmin FROM seen)
      AND state = 'live' AND claim_number < :number
    RETURNING id
), picked AS MATERIALIZED (
    SELECT candidate.place
    FROM claimer
    CROSS JOIN unnest(:lanes::bigint[], :lows::timestamptz[]) AS wanted (lane_id, low)
    CROSS JOIN LATERAL (
        SELECT run.ctid AS place FROM run
        WHERE run.lane_id = wanted.lane_id AND {is_ready}
          AND run.crashes = 0 AND run.ready_at BETWEEN wanted.low AND :now
          AND (run.expires_at IS NULL OR run.expires_at > :now)
        ORDER BY run.ready_at LIMIT :limit FOR UPDATE SKIP LOCKED
    ) AS candidate
    -- Whoever carries out a run alone has no other.
    WHERE NOT EXISTS (SELECT FROM run WHERE session_id = :session_id AND is_quarantined AND state = 'RUNNING')
    LIMIT :limit
)
UPDATE run SET state = 'RUNNING', token = run.token + 1, session_id = :session_id, claim_number = :number,
    started_at = :now, deadline_at = :now + run.timeout_ms * interval '1 millisecond', is_quarantined = false
WHERE run.ctid = ANY(ARRAY(SELECT picked.place FROM picked))
RETURNING
    {run.claimed_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested, run.lane_id, run.ready_at;

-- name: claim_together
-- Several sessions, their ids sorted, that are given runs of the same lanes: in one statement, for as many of them wait at
-- a busy server. Their rows are locked by a statement before (lock_claimers). What is ready is given out seat by seat, in
-- the order in which they asked. One row at least for each session that is live and whose request is new.
WITH claimer AS MATERIALIZED (
    UPDATE session SET claim_number = (:numbers::bigint[])[width_bucket(session.id, :session_ids::bigint[])]
    WHERE session.id = ANY(:session_ids::bigint[]) AND session.state = 'live'
      AND session.claim_number < (:numbers::bigint[])[width_bucket(session.id, :session_ids::bigint[])]
    RETURNING session.id, session.claim_number, width_bucket(session.id, :session_ids::bigint[]) AS place
), seated AS MATERIALIZED (
    SELECT
        array_agg(claimer.id ORDER BY (:turns::integer[])[claimer.place]) AS session_ids,
        array_agg(claimer.claim_number ORDER BY (:turns::integer[])[claimer.place]) AS numbers
    FROM claimer
    CROSS JOIN LATERAL generate_series(1, (:limits::integer[])[claimer.place])
    -- Whoever carries out a run alone has no other.
    WHERE NOT EXISTS (SELECT FROM run WHERE run.session_id = claimer.id AND run.is_quarantined AND run.state = 'RUNNING')
), picked AS MATERIALIZED (
    SELECT candidate.id, candidate.place
    FROM unnest(:lanes::bigint[], :lows::timestamptz[]) AS wanted (lane_id, low)
    CROSS JOIN LATERAL (
        SELECT run.id, run.ctid AS place FROM run
        WHERE run.lane_id = wanted.lane_id AND {is_ready}
          AND run.crashes = 0 AND run.ready_at BETWEEN wanted.low AND :now
          AND (run.expires_at IS NULL OR run.expires_at > :now)
        ORDER BY run.ready_at LIMIT (SELECT coalesce(cardinality(seated.session_ids), 0) FROM seated)
        FOR UPDATE SKIP LOCKED
    ) AS candidate
    LIMIT (SELECT coalesce(cardinality(seated.session_ids), 0) FROM seated)
), given AS MATERIALIZED (
    SELECT array_agg(numbered.id ORDER BY numbered.id) AS run_ids, array_agg(numbered.seat ORDER BY numbered.id) AS seats
    FROM (SELECT picked.id, row_number() OVER () AS seat FROM picked) AS numbered
), claimed AS (
    UPDATE run SET state = 'RUNNING', token = run.token + 1,
        session_id = seated.session_ids[given.seats[width_bucket(run.id, given.run_ids)]],
        claim_number = seated.numbers[given.seats[width_bucket(run.id, given.run_ids)]],
        started_at = :now, deadline_at = :now + run.timeout_ms * interval '1 millisecond', is_quarantined = false
    FROM given, seated
    WHERE run.ctid = ANY(ARRAY(SELECT picked.place FROM picked))
    RETURNING run.*
)
SELECT
    {claimed.claimed_columns}, claimed.cancel_requested_at IS NOT NULL AS is_cancel_requested,
    claimed.lane_id, claimed.ready_at, claimer.id AS claimer_id
FROM claimer LEFT JOIN claimed ON claimed.session_id = claimer.id;

-- name: claim_quarantined
-- The same for a run that crashed a worker, given only to a session that has nothing else. The session's row is locked
-- by a statement before (lock_claimers).
WITH claimer AS MATERIALIZED (
    UPDATE session SET claim_number = :number
    WHERE id = :session_id AND state = 'live' AND claim_number < :number
    RETURNING id
), picked AS MATERIALIZED (
    SELECT candidate.place
    FROM claimer
    CROSS JOIN unnest(:lanes::bigint[], :lows::timestamptz[]) AS wanted (lane_id, low)
    CROSS JOIN LATERAL (
        SELECT run.ctid AS place FROM run
        WHERE run.lane_id = wanted.lane_id AND {is_ready}
          AND run.crashes > 0 AND run.ready_at BETWEEN wanted.low AND :now
          AND (run.expires_at IS NULL OR run.expires_at > :now)
        ORDER BY run.ready_at LIMIT least(:limit, 1) FOR UPDATE SKIP LOCKED
    ) AS candidate
    WHERE NOT EXISTS (
        SELECT FROM run
        WHERE session_id = :session_id
          AND run.claim_number >= (SELECT held_from FROM session WHERE id = :session_id)
    )
    LIMIT least(:limit, 1)
)
UPDATE run SET state = 'RUNNING', token = run.token + 1, session_id = :session_id, claim_number = :number,
    started_at = :now, deadline_at = :now + run.timeout_ms * interval '1 millisecond', is_quarantined = true
WHERE run.ctid = ANY(ARRAY(SELECT picked.place FROM picked))
RETURNING
    {run.claimed_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested, run.lane_id, run.ready_at;

-- name: repeat_claim
-- The leases of the session's last request, as far as they still run: one row at least where the session is live.
-- A request before the last one is late: its caller gave it up, so it gets nothing.
SELECT {run.claimed_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested, run.lane_id, run.ready_at
FROM session
LEFT JOIN run
    ON run.session_id = session.id AND run.claim_number = :number
    AND session.claim_number = :number
WHERE session.id = :session_id AND session.state = 'live' AND session.claim_number >= :number;

-- name: list_tenants
SELECT lane.id, lane.tenant
FROM unnest(:lane_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM lane WHERE lane.id = wanted.id LIMIT 1) AS lane;

-- name: apply_successes
-- The end of nearly every run: a success at the first claim, whose token is the same for all. Each run once.
WITH ended AS (
    DELETE FROM run
    WHERE run.id = ANY(:run_ids::bigint[]) AND run.token = :token
      AND run.session_id = (:session_ids::bigint[])[width_bucket(run.id, :run_ids::bigint[])]
    RETURNING {run.kept_columns}, run.lane_id, run.crashes, width_bucket(run.id, :run_ids::bigint[]) AS position
)
INSERT INTO run_history (
    {kept_columns}, queue, route, tenant, priority, state, finished_at, crashes, result, output
)
SELECT
    {ended.kept_columns}, lane.queue, lane.route, lane.tenant, lane.priority, 'SUCCEEDED', :now, ended.crashes,
    (:results::bytea[])[ended.position], (:outputs::text[])[ended.position]
FROM ended CROSS JOIN LATERAL (SELECT * FROM lane WHERE lane.id = ended.lane_id LIMIT 1) AS lane;

-- name: lock_runs
-- Live runs in the order of the (sorted) ids, whoever else wants them.
SELECT
    {run.live_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested
FROM unnest(:run_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM run WHERE run.id = wanted.id FOR UPDATE) AS run;

-- name: find_workers
SELECT session.id, session.worker
FROM unnest(:session_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM session WHERE session.id = wanted.id LIMIT 1) AS session;

-- name: finish_runs
-- Locked runs on their way to the history.
WITH ended AS (
    DELETE FROM run WHERE run.id = ANY(:run_ids::bigint[])
    RETURNING run.*, width_bucket(run.id, :run_ids::bigint[]) AS position
)
INSERT INTO run_history (
    {kept_columns}, queue, route, tenant, priority, state, reason, finished_at, crashes, error, result, output
)
SELECT
    {ended.kept_columns}, lane.queue, lane.route, lane.tenant, lane.priority, (:states::text[])[ended.position],
    (:reasons::text[])[ended.position], :now, coalesce((:crashes::integer[])[ended.position], ended.crashes),
    (:errors::text[])[ended.position], (:results::bytea[])[ended.position], (:outputs::text[])[ended.position]
FROM ended CROSS JOIN LATERAL (SELECT * FROM lane WHERE lane.id = ended.lane_id LIMIT 1) AS lane;

-- name: bury_runs
-- Locked runs on their way to the dead letter queue.
WITH ended AS (
    DELETE FROM run WHERE run.id = ANY(:run_ids::bigint[])
    RETURNING run.*, width_bucket(run.id, :run_ids::bigint[]) AS position
)
INSERT INTO dead_run (
    {kept_columns}, queue, route, tenant, priority, state, reason, finished_at, crashes, error, result, output
)
SELECT
    {ended.kept_columns}, lane.queue, lane.route, lane.tenant, lane.priority, 'FAILED',
    (:reasons::text[])[ended.position], :now, coalesce((:crashes::integer[])[ended.position], ended.crashes),
    (:errors::text[])[ended.position], (:results::bytea[])[ended.position], (:outputs::text[])[ended.position]
FROM ended CROSS JOIN LATERAL (SELECT * FROM lane WHERE lane.id = ended.lane_id LIMIT 1) AS lane;

-- name: requeue_runs
-- Locked runs that wait again.
UPDATE run SET
    state = (:states::text[])[width_bucket(run.id, :run_ids::bigint[])],
    ready_at = (:readies_at::timestamptz[])[width_bucket(run.id, :run_ids::bigint[])],
    token = (:tokens::integer[])[width_bucket(run.id, :run_ids::bigint[])],
    attempt = (:attempts::integer[])[width_bucket(run.id, :run_ids::bigint[])],
    crashes = (:crashes::integer[])[width_bucket(run.id, :run_ids::bigint[])],
    quarantined_crashes = (:quarantined_crashes::integer[])[width_bucket(run.id, :run_ids::bigint[])],
    is_quarantined = false, session_id = NULL, claim_number = NULL, deadline_at = NULL
WHERE run.id = ANY(:run_ids::bigint[]);

-- name: add_attempts
INSERT INTO attempt (run_id, token, number, outcome, worker, started_at, finished_at, error, output)
SELECT run_id, token, number, outcome, worker, started_at, :now, error, output
FROM unnest(
    :run_ids::bigint[], :tokens::integer[], :numbers::integer[], :outcomes::text[], :workers::text[],
    :starts_at::timestamptz[], :errors::text[], :outputs::text[]
) AS new (run_id, token, number, outcome, worker, started_at, error, output);

-- name: read_ends
-- What is known of runs that a report could not end: their state, and the outcome that was kept under its token.
SELECT report.position, found.state, found.token, kept.outcome
FROM unnest(:run_ids::bigint[], :tokens::integer[]) WITH ORDINALITY AS report (run_id, token, position)
CROSS JOIN LATERAL (
    SELECT state, token FROM run WHERE run.id = report.run_id
    UNION ALL
    SELECT state, token FROM dead_run WHERE dead_run.id = report.run_id
    UNION ALL
    SELECT state, token FROM run_history WHERE run_history.id = report.run_id
    LIMIT 1
) AS found
LEFT JOIN LATERAL (
    SELECT outcome FROM attempt WHERE attempt.run_id = report.run_id AND attempt.token = report.token LIMIT 1
) AS kept ON true;

-- name: request_cancels
UPDATE run SET cancel_requested_at = :now, cancel_reason = :reason
WHERE run.id = ANY(:run_ids::bigint[]) AND run.cancel_requested_at IS NULL;

-- name: find_expired
SELECT id FROM run
WHERE expires_at <= :now AND state IN ('PENDING', 'RETRYING')
ORDER BY expires_at LIMIT :limit FOR UPDATE SKIP LOCKED;

-- name: list_orphans
-- From the sessions that are over, which are few: run_claimed, full of the dead entries of busy sessions, is sought only
-- for them. None of them gets another run (a claim holds the session's row), and prune_sessions keeps those that hold any.
SELECT {run.held_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested
FROM session
CROSS JOIN LATERAL (
    SELECT * FROM run
    WHERE run.session_id = session.id AND run.claim_number >= session.held_from
    ORDER BY run.session_id, run.claim_number LIMIT :limit
) AS run
WHERE session.state <> 'live'
LIMIT :limit;

-- name: list_overdue
-- By session, too: an index on the deadline would cost each claim an entry more.
SELECT {run.held_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested
FROM session
CROSS JOIN LATERAL (
    SELECT * FROM run
    WHERE run.session_id = session.id AND run.claim_number >= session.held_from
      AND run.deadline_at <= :now
    ORDER BY run.session_id, run.claim_number OFFSET 0
) AS run
ORDER BY run.deadline_at LIMIT :limit;

-- name: read_held
SELECT {run.held_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested
FROM unnest(:run_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM run WHERE run.id = wanted.id AND run.session_id IS NOT NULL LIMIT 1) AS run;

-- name: get_runs
SELECT found.*
FROM unnest(:run_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM any_run WHERE any_run.id = wanted.id LIMIT 1) AS found;

-- name: list_runs
(
    SELECT * FROM live_run
    WHERE tenant = :tenant AND id < :before AND (:state::text IS NULL OR state = :state)
    ORDER BY id DESC LIMIT :limit
)
UNION ALL
(
    SELECT * FROM ended_run
    WHERE tenant = :tenant AND id < :before AND (:state::text IS NULL OR state = :state)
    ORDER BY id DESC LIMIT :limit
)
ORDER BY id DESC LIMIT :limit;

-- name: list_runs_of_job
(
    SELECT * FROM live_run
    WHERE job_id = :job_id AND tenant = :tenant AND id + 0 < :before AND (:state::text IS NULL OR state = :state)
    ORDER BY id + 0 DESC LIMIT :limit
)
UNION ALL
(
    SELECT * FROM ended_run
    WHERE job_id = :job_id AND tenant = :tenant AND id < :before AND (:state::text IS NULL OR state = :state)
    ORDER BY id DESC LIMIT :limit
)
ORDER BY id DESC LIMIT :limit;

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
SELECT run_id, token, number, outcome, worker, started_at, finished_at, error, output
FROM attempt WHERE run_id = :run_id ORDER BY token;

-- name: count_runs
SELECT state, count(*) AS count FROM any_run WHERE tenant = :tenant GROUP BY state;
