-- Worker sessions.

-- name: add_session
INSERT INTO session (
    worker, host, pid, slots, queues, types, functions, labels, beat_period, started_at, last_beat_at, account,
    tenant, policy_epoch
)
VALUES (
    :worker, :host, :pid, :slots, :queues, :types, :functions, :labels, :beat_period, :now, :now, :account,
    :tenant, (SELECT number FROM revision WHERE name = 'policy_epoch')
)
RETURNING id;

-- name: find_session_owners
SELECT session.id, session.account, session.tenant, session.queues
FROM json_each(:session_ids) AS wanted
CROSS JOIN session ON session.id = wanted.value;

-- name: lock_session
SELECT missing, held_from, claim_number FROM session WHERE id = :session_id AND state = 'live';

-- name: beat_session
UPDATE session SET beats = beats + 1, last_beat_at = :now, held_from = :held_from, missing = :missing
WHERE id = :session_id AND state = 'live';

-- name: close_session
UPDATE session SET state = 'left', ended_at = :now WHERE id = :session_id AND state = 'live';

-- name: list_sessions
SELECT {session_columns}
FROM session INDEXED BY session_live
WHERE state = 'live'
ORDER BY id;

-- name: read_pulses
SELECT id, beats, beat_period FROM session INDEXED BY session_live WHERE state = 'live';

-- name: expire_session
UPDATE session SET state = 'dead', ended_at = :now
WHERE id = :session_id AND state = 'live' AND beats = :beats
RETURNING id;

-- name: find_workers
-- Who sessions are or were, also those whose rows are gone.
SELECT session.id, session.worker, session.host
FROM json_each(:session_ids) AS wanted
CROSS JOIN session ON session.id = wanted.value
UNION ALL
SELECT past_session.id, past_session.worker, past_session.host
FROM json_each(:session_ids) AS wanted
CROSS JOIN past_session ON past_session.id = wanted.value;
