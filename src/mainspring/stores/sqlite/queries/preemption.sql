-- Preemption: what has waited for too long, what holds the slots, and who is asked to give them up.

-- name: read_urgent_lanes
SELECT lane.id, lane.queue, lane.route, lane.tenant, lane.priority, lane.preempted_at
FROM lane
WHERE lane.queue = :queue
  AND (lane.priority < :lowest OR lane.tenant IN (SELECT wanted.value FROM json_each(:tenants) AS wanted));

-- name: read_kept_waiting
SELECT run.id, run.job_id, run.version, run.ready_at
FROM run INDEXED BY run_ready
WHERE run.lane_id = :lane_id AND {is_ready} AND run.crashes = 0 AND run.ready_at <= :since AND {is_unexpired}
ORDER BY run.ready_at LIMIT :limit;

-- name: read_seated
SELECT
    run.id, run.token, run.session_id, run.job_id, run.version, run.claim_number, run.key_id,
    run.is_quarantined, run.started_at, run.preemption,
    run.cancel_requested_at IS NOT NULL AS is_cancel_requested, lane.tenant, lane.priority
FROM json_each(:session_ids) AS wanted
CROSS JOIN session ON session.id = wanted.value AND session.state = 'live'
CROSS JOIN run INDEXED BY run_held ON run.session_id = session.id AND run.claim_number >= session.held_from
CROSS JOIN lane ON lane.id = run.lane_id
WHERE run.state = 'RUNNING';

-- name: seek_slots
UPDATE lane SET preempted_at = :now
WHERE id = :lane_id AND (preempted_at IS NULL OR preempted_at <= :sought_before)
RETURNING id;

-- name: mark_preempted
UPDATE run SET preemption = :mark
WHERE id = :run_id AND token = :token AND state = 'RUNNING' AND cancel_requested_at IS NULL AND preemption IS :old
RETURNING id;
