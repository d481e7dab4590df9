-- Worker sessions and their heartbeats.

-- name: add_session
-- The lock keeps a change of the policy epoch from missing the session.
INSERT INTO session (
    worker, host, pid, slots, queues, types, functions, labels, beat_period, started_at, last_beat_at, account,
    tenant, policy_epoch
)
VALUES (
    :worker, :host, :pid, :slots, :queues, :types, :functions, :labels, :beat_period, :now, :now, :account,
    :tenant, (SELECT revision.number FROM revision WHERE revision.name = 'policy_epoch' FOR SHARE)
)
RETURNING id;

-- name: find_session_owners
SELECT session.id, session.account, session.tenant, session.queues
FROM unnest(:session_ids::bigint[]) AS wanted (id) JOIN session ON session.id = wanted.id;

-- name: lock_sessions
SELECT session.id, session.missing, session.held_from, session.claim_number, session.policy_epoch IS NULL AS is_foreign
FROM unnest(:session_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT * FROM session WHERE session.id = wanted.id AND session.state = 'live' FOR NO KEY UPDATE
) AS session;

-- name: beat_sessions
-- Updates locked sessions, their ids sorted. `missing` is one list of (session, run, token) for all of them.
UPDATE session SET
    beats = session.beats + (:raises::bigint[])[width_bucket(session.id, :session_ids::bigint[])], last_beat_at = :now,
    held_from = (:held_from::bigint[])[width_bucket(session.id, :session_ids::bigint[])],
    missing = ARRAY(
        SELECT unnest(ARRAY[lease.run_id, lease.token])
        FROM unnest(:missing_sessions::bigint[], :missing_runs::bigint[], :missing_tokens::bigint[])
            AS lease (session_id, run_id, token)
        WHERE lease.session_id = session.id
    )
WHERE session.id = ANY(:session_ids::bigint[]);

-- name: adopt_sessions
-- Locked sessions that a release before the policy epoch has opened: they are served by this one from now on.
UPDATE session SET policy_epoch = revision.number FROM revision
WHERE session.id = ANY(:session_ids::bigint[]) AND revision.name = 'policy_epoch';

-- name: held_by_sessions
-- Few columns: every heartbeat reads them for every lease, and nearly all leases are as they should be.
SELECT
    run.id, run.token, run.session_id, run.claim_number, run.cancel_requested_at IS NOT NULL AS is_cancel_requested,
    run.preemption
FROM unnest(:session_ids::bigint[], :held_from::bigint[]) AS wanted (id, held_from)
CROSS JOIN LATERAL (
    SELECT * FROM run
    WHERE run.session_id = wanted.id AND run.claim_number >= wanted.held_from
    ORDER BY run.session_id, run.claim_number OFFSET 0
) AS run;

-- name: close_sessions
UPDATE session SET state = 'left', ended_at = :now
WHERE session.id = ANY(:session_ids::bigint[]) AND session.state = 'live';

-- name: list_sessions
SELECT {session_columns}
FROM session WHERE state = 'live' ORDER BY id;

-- name: read_pulses
SELECT id, beats, beat_period FROM session WHERE state = 'live';

-- name: expire_sessions
-- A session whose row is locked is beating or claiming right now, so it is not dead.
UPDATE session SET state = 'dead', ended_at = :now
WHERE session.id = ANY(ARRAY(
    SELECT silent.id
    FROM unnest(:session_ids::bigint[], :beats::bigint[]) AS judged (id, beats)
    CROSS JOIN LATERAL (
        SELECT session.id FROM session
        WHERE session.id = judged.id AND session.beats = judged.beats AND session.state = 'live'
        FOR UPDATE SKIP LOCKED
    ) AS silent
))
RETURNING session.id;

-- name: find_workers
-- Who sessions are or were, also those whose rows are gone.
SELECT wanted.id, known.worker, known.host
FROM unnest(:session_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT session.worker, session.host FROM session WHERE session.id = wanted.id
    UNION ALL
    SELECT past_session.worker, past_session.host FROM past_session WHERE past_session.id = wanted.id
    LIMIT 1
) AS known;
