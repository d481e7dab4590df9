-- Preemption: what has waited for too long, what holds the slots, and who is asked to give them up.

-- name: read_kept_waiting
SELECT
    lane.id AS lane_id, lane.queue, lane.route, lane.tenant, lane.priority, lane.preempted_at,
    waiting.id, waiting.job_id, waiting.version, waiting.ready_at
FROM unnest(:queues::text[], :sinces::timestamptz[]) AS wanted (queue, since)
CROSS JOIN LATERAL (
    SELECT lane.*, lane.tenant = ANY(:tenants::text[]) AS is_theirs FROM lane
    WHERE lane.queue = wanted.queue AND (lane.priority < :lowest::smallint OR lane.tenant = ANY(:tenants::text[]))
    OFFSET 0
) AS lane
CROSS JOIN LATERAL (
    SELECT run.id, run.job_id, run.version, run.ready_at FROM run
    WHERE run.lane_id = lane.id AND {is_ready} AND run.crashes = 0 AND {is_unexpired}
      AND run.ready_at <= CASE WHEN lane.is_theirs THEN :now ELSE wanted.since END
    ORDER BY run.ready_at LIMIT :limit
) AS waiting;

-- name: read_seated
SELECT
    run.id, run.token, run.session_id, run.job_id, run.version, run.claim_number, run.key_id,
    run.is_quarantined, run.started_at, run.preemption,
    run.cancel_requested_at IS NOT NULL AS is_cancel_requested, lane.tenant, lane.priority
FROM unnest(:session_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT session.id, session.held_from FROM session WHERE session.id = wanted.id AND session.state = 'live' LIMIT 1
) AS session
CROSS JOIN LATERAL (
    SELECT * FROM run
    WHERE run.session_id = session.id AND run.claim_number >= session.held_from
    ORDER BY run.session_id, run.claim_number OFFSET 0
) AS run
CROSS JOIN LATERAL (SELECT lane.tenant, lane.priority FROM lane WHERE lane.id = run.lane_id LIMIT 1) AS lane
WHERE run.state = 'RUNNING';

-- name: seek_slots
-- Passes over lanes for which somebody seeks slots just now. Sorted by the caller.
UPDATE lane SET preempted_at = :now
WHERE lane.id = ANY(ARRAY(
    SELECT sought.id
    FROM unnest(:lane_ids::bigint[], :soughts_before::timestamptz[]) AS wanted (id, sought_before)
    CROSS JOIN LATERAL (
        SELECT lane.id FROM lane
        WHERE lane.id = wanted.id AND (lane.preempted_at IS NULL OR lane.preempted_at <= wanted.sought_before)
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS sought
))
RETURNING lane.id;

-- name: mark_preempted
-- Passes over runs that end just now. The ids are sorted.
UPDATE run SET preemption = (:marks::text[])[width_bucket(run.id, :run_ids::bigint[])]
WHERE run.id = ANY(ARRAY(
    SELECT asked.id
    FROM unnest(:run_ids::bigint[], :tokens::integer[], :olds::text[]) AS wanted (id, token, old)
    CROSS JOIN LATERAL (
        SELECT run.id FROM run
        WHERE run.id = wanted.id AND run.token = wanted.token AND run.state = 'RUNNING'
          AND run.cancel_requested_at IS NULL AND run.preemption IS NOT DISTINCT FROM wanted.old
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS asked
))
RETURNING run.id;
