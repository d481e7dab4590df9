-- What the steps of durable functions have come to.

-- name: hold_checkpointed_runs
-- Until the end of the transaction, nobody takes these runs away. They come in the order of their ids.
SELECT held.id, held.token, held.session_id, held.quarantined_crashes
FROM unnest(:run_ids::bigint[], :tokens::integer[], :session_ids::bigint[]) AS wanted (id, token, session_id)
CROSS JOIN LATERAL (
    SELECT run.id, run.token, run.session_id, run.quarantined_crashes FROM run
    WHERE run.id = wanted.id AND run.token = wanted.token AND run.session_id = wanted.session_id AND run.state = 'RUNNING'
    FOR NO KEY UPDATE
) AS held;

-- name: forget_crashes
-- Of runs that are locked, and that have come further than where they crashed.
UPDATE run SET quarantined_crashes = 0 WHERE id = ANY(:run_ids::bigint[]);

-- name: add_checkpoints
INSERT INTO checkpoint (run_id, name, number, token, is_error, value, kept_at)
SELECT new.run_id, new.name, new.number, new.token, new.is_error, new.value, :now::timestamptz
FROM unnest(
    :run_ids::bigint[], :names::text[], :numbers::integer[], :tokens::integer[], :are_errors::boolean[], :datas::bytea[]
) AS new (run_id, name, number, token, is_error, value)
ON CONFLICT (run_id, name, number) DO NOTHING
RETURNING checkpoint.run_id, checkpoint.name, checkpoint.number;

-- name: list_checkpoints
SELECT name, number, token, is_error, value, kept_at FROM checkpoint
WHERE run_id = :run_id::bigint AND (name, number) > (:name::text COLLATE "C", :number::integer)
ORDER BY name, number
LIMIT :limit::integer;

-- name: prune_checkpoints
-- Runs that are under way keep theirs, however long they sleep.
WITH old AS MATERIALIZED (
    SELECT checkpoint.run_id, checkpoint.name, checkpoint.number FROM checkpoint
    WHERE checkpoint.kept_at < :before::timestamptz
      AND NOT EXISTS (SELECT FROM run WHERE run.id = checkpoint.run_id)
    ORDER BY checkpoint.kept_at LIMIT :limit::integer
)

DELETE FROM checkpoint USING old
WHERE checkpoint.run_id = old.run_id AND checkpoint.name = old.name AND checkpoint.number = old.number;
