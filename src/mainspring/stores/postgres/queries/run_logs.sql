-- What attempts write while they run.

-- name: hold_logged_runs
-- Until the end of the transaction, nobody takes these runs away. They come in the order of their ids.
SELECT held.id, held.token
FROM unnest(:run_ids::bigint[], :tokens::integer[], :session_ids::bigint[]) AS wanted (id, token, session_id)
CROSS JOIN LATERAL (
    SELECT run.id, run.token FROM run
    WHERE run.id = wanted.id AND run.token = wanted.token AND run.session_id = wanted.session_id AND run.state = 'RUNNING'
    FOR SHARE
) AS held;

-- name: add_log_chunks
INSERT INTO log_chunk (run_id, token, start, size, at, data)
SELECT part.run_id, part.token, part.start, part.size, :now::timestamptz, part.data
FROM unnest(:run_ids::bigint[], :tokens::integer[], :starts::bigint[], :sizes::integer[], :datas::bytea[])
    AS part (run_id, token, start, size, data);

-- name: forget_log_chunks
DELETE FROM log_chunk
WHERE log_chunk.run_id = :run_id::bigint AND log_chunk.token = :token::integer
  AND log_chunk.start >= :start::bigint AND log_chunk.start < :until::bigint;

-- name: set_run_progress
INSERT INTO run_progress (run_id, token, done, total, message, at)
SELECT told.run_id, told.token, told.done, told.total, told.message, :now::timestamptz
FROM unnest(:run_ids::bigint[], :tokens::integer[], :dones::float8[], :totals::float8[], :messages::text[])
    AS told (run_id, token, done, total, message)
ON CONFLICT (run_id) DO UPDATE SET
    token = excluded.token, done = excluded.done, total = excluded.total, message = excluded.message, at = excluded.at
WHERE excluded.token >= run_progress.token;

-- name: list_log_chunks
SELECT wanted.place, chunk.start, chunk.size, chunk.data
FROM unnest(:run_ids::bigint[], :tokens::integer[], :starts::bigint[])
    WITH ORDINALITY AS wanted (run_id, token, start, place)
CROSS JOIN LATERAL (
    SELECT log_chunk.start, log_chunk.size, log_chunk.data FROM log_chunk
    WHERE log_chunk.run_id = wanted.run_id AND log_chunk.token = wanted.token
      AND log_chunk.start > wanted.start - 65536 AND log_chunk.start + log_chunk.size > wanted.start
    ORDER BY log_chunk.run_id, log_chunk.token, log_chunk.start LIMIT :limit
) AS chunk;

-- name: get_run_progress
SELECT told.run_id, told.token, told.done, told.total, told.message, told.at
FROM unnest(:run_ids::bigint[]) AS wanted (run_id)
CROSS JOIN LATERAL (SELECT * FROM run_progress WHERE run_progress.run_id = wanted.run_id LIMIT 1) AS told;

-- name: prepare_run_logs
SELECT prepare_run_logs(:now::timestamptz, 2);

-- name: list_closed_log_days
SELECT to_date(right(day.relname, 8), 'YYYYMMDD') AS day
FROM pg_inherits
JOIN pg_class AS day ON day.oid = pg_inherits.inhrelid
WHERE pg_inherits.inhparent = 'log_chunk'::regclass
  AND day.relname ~ '_[0-9]{8}$'
  AND (to_date(right(day.relname, 8), 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC' <= :before::timestamptz
ORDER BY 1;

-- name: list_detached_log_days
SELECT relname AS name FROM pg_class
WHERE relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'log_chunk'::regclass)
  AND relkind = 'r' AND relname ~ '^dropped_log_chunk_[0-9]{8}$';

-- name: detach_log_day
SELECT detach_log_day(:day::date) AS is_detached;

-- name: prune_log_chunks
-- Of those outside the partitions of days.
DELETE FROM log_chunk_default WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM log_chunk_default WHERE at < :before LIMIT :limit FOR UPDATE SKIP LOCKED
));

-- name: prune_run_progress
-- Looks at the oldest runs only.
DELETE FROM run_progress
WHERE at < :before AND run_id IN (SELECT told.run_id FROM run_progress AS told ORDER BY told.run_id LIMIT :limit);
