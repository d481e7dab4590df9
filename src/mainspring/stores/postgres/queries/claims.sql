-- Claims, and the facts about the leases that they give. `runs.sql` describes the traps of the hot path.

-- name: read_lanes
-- A lane's lower bound (the ids are sorted) keeps the scan off the entries of runs that were claimed: while a long
-- transaction is open elsewhere, they cannot be removed. Quarantined runs are few, and scanned from the beginning.
SELECT lane.id, lane.queue, lane.route, lane.tenant, lane.priority, ready.ready_at AS earliest_ready_at,
       quarantined.ready_at AS earliest_quarantined_at
FROM (
    SELECT lane.id, lane.queue, lane.route, lane.tenant, lane.priority FROM lane
    WHERE lane.id > :after AND (:is_all OR lane.queue = ANY(:queues::text[]))
    ORDER BY lane.id LIMIT :limit
) AS lane
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
{with_quarantined};

-- name: read_some_lanes
-- The same for lanes that are named, each with its lower bound.
SELECT lane.id, lane.queue, lane.route, lane.tenant, lane.priority, ready.ready_at AS earliest_ready_at,
       quarantined.ready_at AS earliest_quarantined_at
FROM unnest(:lanes::bigint[], :lows::timestamptz[]) AS wanted (lane_id, low)
CROSS JOIN LATERAL (SELECT * FROM lane WHERE lane.id = wanted.lane_id LIMIT 1) AS lane
LEFT JOIN LATERAL (
    SELECT run.ready_at FROM run
    WHERE run.lane_id = lane.id AND {is_ready} AND run.crashes = 0 AND run.ready_at >= wanted.low
    ORDER BY run.ready_at LIMIT 1
) AS ready ON true
{with_quarantined};

-- name: read_ready_instants
-- Since when the first runs of each lane have been ready, as claim_runs would take them.
SELECT wanted.lane_id, ready.ready_at
FROM unnest(:lanes::bigint[], :lows::timestamptz[]) AS wanted (lane_id, low)
CROSS JOIN LATERAL (
    SELECT run.ready_at FROM run
    WHERE run.lane_id = wanted.lane_id AND {is_ready} AND {is_unexpired}
      AND run.crashes = 0 AND run.ready_at BETWEEN wanted.low AND :now
    ORDER BY run.ready_at LIMIT :limit
) AS ready;

-- name: lock_claimers
-- For calls with several requests: the sessions' rows in id order, before the first claim.
SELECT session.id
FROM unnest(:session_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT session.id FROM session WHERE session.id = wanted.id FOR NO KEY UPDATE
) AS session;

-- name: claim_runs
-- The lateral walks run_ready in order of `ready_at`, lane after lane, and stops as soon as the outer limit is
-- reached. If the session's row changed while this statement waited for it, the rest would not see what the session has
-- been running since then (a quarantined run of another claim). Then it returns nothing, as when the session is not
-- live or the request is not new.
--
-- Each claim makes a new version of the session's row, and while a transaction is open elsewhere all versions stay. A
-- search by id would walk all older versions at each claim (0.1 µs and 0.08 buffers each). Equal index entries are in
-- the order of their places in the table, and the newest version comes last. So the scan goes backwards, stops at the
-- first visible version, and takes the row by its place. It is a range, because the planner drops the order of what
-- equals a constant.
WITH seen AS MATERIALIZED (
    SELECT session.ctid, session.xmin FROM session
    WHERE session.id >= :session_id AND session.id <= :session_id ORDER BY session.id DESC LIMIT 1
), claimer AS MATERIALIZED (
    UPDATE session SET claim_number = :number
    WHERE ctid = (SELECT seen.ctid FROM seen) AND xmin = (SELECT seen.xmin FROM seen)
      AND state = 'live' AND claim_number < :number AND {is_current}
    RETURNING id
), picked AS MATERIALIZED (
    SELECT candidate.place
    FROM claimer
    CROSS JOIN unnest(:lanes::bigint[], :lows::timestamptz[], :quotas::integer[]) AS wanted (lane_id, low, quota)
    CROSS JOIN LATERAL (
        SELECT run.ctid AS place FROM run
        WHERE run.lane_id = wanted.lane_id AND {is_ready} AND {is_unexpired}
          AND run.crashes = 0 AND run.ready_at BETWEEN wanted.low AND :now
        ORDER BY run.ready_at LIMIT wanted.quota FOR UPDATE SKIP LOCKED
    ) AS candidate
    -- A session with a quarantined run gets no other.
    WHERE NOT EXISTS (SELECT FROM run WHERE session_id = :session_id AND is_quarantined AND state = 'RUNNING')
    LIMIT :limit
)
{start_picked};

-- name: try_claim
-- Runs come first, and only if there is one the session's row is written: a claim that finds nothing takes no lock, so its end
-- waits for no flush. A session's row that somebody else is writing, or has written since the statement began, is left
-- alone; see claim_runs for the way in which it is found.
WITH seen AS MATERIALIZED (
    SELECT session.ctid, session.xmin FROM session
    WHERE session.id >= :session_id AND session.id <= :session_id ORDER BY session.id DESC LIMIT 1
), ready AS MATERIALIZED (
    SELECT candidate.place
    FROM unnest(:lanes::bigint[], :lows::timestamptz[], :quotas::integer[]) AS wanted (lane_id, low, quota)
    CROSS JOIN LATERAL (
        SELECT run.ctid AS place FROM run
        WHERE run.lane_id = wanted.lane_id AND {is_ready} AND {is_unexpired}
          AND run.crashes = 0 AND run.ready_at BETWEEN wanted.low AND :now
        ORDER BY run.ready_at LIMIT wanted.quota FOR UPDATE SKIP LOCKED
    ) AS candidate
    -- A session with a quarantined run gets no other.
    WHERE NOT EXISTS (SELECT FROM run WHERE session_id = :session_id AND is_quarantined AND state = 'RUNNING')
    LIMIT :limit
), claimer AS MATERIALIZED (
    UPDATE session SET claim_number = :number
    WHERE ctid = (
        SELECT session.ctid FROM session
        WHERE ctid = (SELECT seen.ctid FROM seen) AND xmin = (SELECT seen.xmin FROM seen)
          AND state = 'live' AND claim_number < :number AND {is_current} AND EXISTS (SELECT FROM ready)
        FOR NO KEY UPDATE SKIP LOCKED
    )
    RETURNING id
), picked AS MATERIALIZED (
    SELECT ready.place FROM ready CROSS JOIN claimer
)
{start_picked};

-- name: submit_claimed
-- submit_one and try_claim in one: the run is inserted as one that the session runs already, so that it takes one commit
-- and never becomes ready. The first lock is taken only if nothing that can be seen speaks against it, so a refusal
-- waits for no flush.
WITH seen AS MATERIALIZED (
    SELECT session.ctid, session.xmin, session.state, session.claim_number, session.policy_epoch FROM session
    WHERE session.id >= :session_id AND session.id <= :session_id ORDER BY session.id DESC LIMIT 1
), held AS MATERIALIZED (
    SELECT lane.id FROM lane
    WHERE lane.id = :lane_id
      AND EXISTS (SELECT FROM seen WHERE seen.state = 'live' AND seen.claim_number < :number AND {is_current})
      AND EXISTS (
        SELECT FROM job
        WHERE job.id = :job_id AND coalesce(job.deleted_at, 'infinity') = 'infinity'
          AND job.version = coalesce(:newest_version::integer, job.version)
    )
      -- What is ready comes first, and a session with a quarantined run gets no other.
      AND NOT EXISTS (SELECT FROM run WHERE session_id = :session_id AND is_quarantined AND state = 'RUNNING')
      AND NOT EXISTS (
        SELECT FROM unnest(:lanes::bigint[], :lows::timestamptz[]) AS wanted (lane_id, low)
        CROSS JOIN LATERAL (
            SELECT run.id FROM run
            WHERE run.lane_id = wanted.lane_id AND {is_ready} AND {is_unexpired}
              AND run.crashes = 0 AND run.ready_at BETWEEN wanted.low AND :now
            ORDER BY run.ready_at LIMIT 1
        ) AS ready
    )
    FOR KEY SHARE
), claimer AS MATERIALIZED (
    UPDATE session SET claim_number = :number
    WHERE ctid = (
        SELECT session.ctid FROM session
        WHERE ctid = (SELECT seen.ctid FROM seen) AND xmin = (SELECT seen.xmin FROM seen)
          AND state = 'live' AND claim_number < :number AND {is_current} AND EXISTS (SELECT FROM held)
        FOR NO KEY UPDATE SKIP LOCKED
    )
    RETURNING id
)
INSERT INTO run ({new_columns}, token, session_id, claim_number, started_at, deadline_at)
SELECT
    {new_id_of_one}, :job_id::uuid, :version::integer, held.id, :kind::text, 'RUNNING',
    :fire_at::timestamptz, :due_at::timestamptz, greatest(:due_at::timestamptz, :now::timestamptz), :now::timestamptz,
    :expires_at::timestamptz, :timeout_ms::bigint, :payload::bytea, :target_key::text, :fire_range_id::bigint,
    :trace::bytea, 1, claimer.id, :number, :now, :now + :timeout_ms * interval '1 millisecond'
FROM held CROSS JOIN claimer
RETURNING id;

-- name: claim_together
-- Gives runs of the same lanes to several sessions, their ids sorted, in one statement: at a busy server, many of
-- them wait. A statement before has locked their rows (lock_claimers). Ready runs are given out seat by seat, in the
-- order of the requests. Every session that is live and whose request is new gets at least one row.
WITH claimer AS MATERIALIZED (
    UPDATE session SET claim_number = (:numbers::bigint[])[width_bucket(session.id, :session_ids::bigint[])]
    WHERE session.id = ANY(:session_ids::bigint[]) AND session.state = 'live'
      AND session.claim_number < (:numbers::bigint[])[width_bucket(session.id, :session_ids::bigint[])]
      AND {is_current}
    RETURNING session.id, session.claim_number, width_bucket(session.id, :session_ids::bigint[]) AS place
), seated AS MATERIALIZED (
    SELECT
        array_agg(claimer.id ORDER BY (:turns::integer[])[claimer.place]) AS session_ids,
        array_agg(claimer.claim_number ORDER BY (:turns::integer[])[claimer.place]) AS numbers
    FROM claimer
    CROSS JOIN LATERAL generate_series(1, (:limits::integer[])[claimer.place])
    -- A session with a quarantined run gets no other.
    WHERE NOT EXISTS (SELECT FROM run WHERE run.session_id = claimer.id AND run.is_quarantined AND run.state = 'RUNNING')
), picked AS MATERIALIZED (
    SELECT candidate.id, candidate.place
    FROM unnest(:lanes::bigint[], :lows::timestamptz[], :quotas::integer[]) AS wanted (lane_id, low, quota)
    CROSS JOIN LATERAL (
        SELECT run.id, run.ctid AS place FROM run
        WHERE run.lane_id = wanted.lane_id AND {is_ready} AND {is_unexpired}
          AND run.crashes = 0 AND run.ready_at BETWEEN wanted.low AND :now
        ORDER BY run.ready_at LIMIT wanted.quota FOR UPDATE SKIP LOCKED
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

-- name: repeat_claim
-- The leases of the session's last request, as far as they still run; at least one row if the session is live. A
-- request before the last one is late: its caller has given it up, so it gets nothing. So does a new one under another
-- policy epoch.
SELECT
    {run.claimed_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested, run.lane_id, run.ready_at,
    session.claim_number < :number AS is_policy_old
FROM session
LEFT JOIN run
    ON run.session_id = session.id AND run.claim_number = :number
    AND session.claim_number = :number
WHERE session.id = :session_id AND session.state = 'live' AND (session.claim_number >= :number OR NOT {is_current});

-- name: list_tenants
SELECT lane.id, lane.tenant
FROM unnest(:lane_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM lane WHERE lane.id = wanted.id LIMIT 1) AS lane;

-- name: list_orphans
-- Starts from the ended sessions, which are few: run_claimed, full of dead entries of busy sessions, is searched only
-- for them. None of them gets another run (a claim holds the session's row), and prune_sessions keeps those that hold
-- any.
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
-- By session, too: an index on the deadline would cost every claim another entry.
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
-- What the engine holds (session 0) has no attempt of a worker.
SELECT {run.held_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested
FROM unnest(:run_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM run WHERE run.id = wanted.id AND run.session_id > 0 LIMIT 1) AS run;
