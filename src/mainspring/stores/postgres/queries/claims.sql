-- Claims, and what is known of the leases that they give. The traps of the hot path are told in `runs.sql`.

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
