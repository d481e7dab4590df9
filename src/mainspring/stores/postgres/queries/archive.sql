-- What is copied of the history into the archive, and what is known of its parts.

-- name: find_unarchived_day
SELECT min(day) AS day FROM (
    SELECT to_date(right(place.relname, 8), 'YYYYMMDD') AS day
    FROM pg_inherits
    JOIN pg_class AS place ON place.oid = pg_inherits.inhrelid
    WHERE pg_inherits.inhparent IN ('run_history'::regclass, 'attempt'::regclass)
      AND place.relname ~ '_[0-9]{8}$' AND pg_relation_size(place.oid) > 0
    UNION ALL
    SELECT (finished_at AT TIME ZONE 'UTC')::date FROM run_history_default WHERE finished_at < :before::timestamptz
    UNION ALL
    SELECT (finished_at AT TIME ZONE 'UTC')::date FROM attempt_default WHERE finished_at < :before::timestamptz
) AS found
WHERE (day + 1)::timestamp AT TIME ZONE 'UTC' <= :before::timestamptz
  AND day NOT IN (SELECT part.day FROM archive_part AS part WHERE part.state = 'VERIFIED');

-- name: outline_archive
SELECT first, until FROM outline_archive(:kind::text, :day::date, :step::bigint);

-- name: cut_archive_pages
SELECT first, until, bytes FROM cut_archive_pages(
    :kind::text, :day::date, :first::bigint, :until::bigint, :most::bigint, :wide::bigint, :factor::bigint
);

-- name: watch_archive_day
SELECT watch_archive_day(:day::date);

-- name: copy_archived_runs
-- A day's rows lie in one table, its own or the default one: the bounds of the instant tell the planner which.
-- Runs of steps have the name of their workflow, whose id is theirs with version 7 instead of 8.
SELECT
    run.id, run.job_id, job.name, run.version, run.tenant, run.queue, run.route, run.priority, run.kind, run.state,
    run.reason, {archived_times}, (extract(epoch FROM run.finished_at) * 1000000)::bigint,
    run.attempt, run.token, run.crashes, run.session_id, run.error, run.payload, run.result, run.output,
    run.target_key, run.fire_range_id, run.redrive_of, encode(run.trace, 'hex'), run.flow_id, run.step, run.item,
    encode(run.flow_state, 'hex')
FROM run_history AS run
LEFT JOIN job ON job.id = CASE
    WHEN run.flow_id IS NULL THEN run.job_id
    ELSE overlay(run.job_id::text PLACING '7' FROM 15 FOR 1)::uuid
END
WHERE run.finished_at >= :since::timestamptz AND run.finished_at < :before::timestamptz
  AND run.ctid >= ('(' || :first::bigint || ',0)')::tid AND run.ctid < ('(' || :until::bigint || ',0)')::tid;

-- name: copy_archived_attempts
SELECT
    run_id, token, number, outcome, worker, host, (extract(epoch FROM started_at) * 1000000)::bigint,
    (extract(epoch FROM finished_at) * 1000000)::bigint, error, output
FROM attempt
WHERE finished_at >= :since::timestamptz AND finished_at < :before::timestamptz
  AND ctid >= ('(' || :first::bigint || ',0)')::tid AND ctid < ('(' || :until::bigint || ',0)')::tid;

-- name: count_archived_runs
SELECT count(*) AS rows, coalesce(sum(id), 0) AS ids FROM run_history
WHERE finished_at >= :since::timestamptz AND finished_at < :before::timestamptz
  AND ctid >= ('(' || :first::bigint || ',0)')::tid AND ctid < ('(' || :until::bigint || ',0)')::tid;

-- name: count_archived_attempts
SELECT count(*) AS rows, coalesce(sum(run_id), 0) AS ids FROM attempt
WHERE finished_at >= :since::timestamptz AND finished_at < :before::timestamptz
  AND ctid >= ('(' || :first::bigint || ',0)')::tid AND ctid < ('(' || :until::bigint || ',0)')::tid;

-- name: is_archived
-- A day that was dropped and has rows again gets parts with higher numbers.
SELECT EXISTS (
    SELECT FROM archive_part
    WHERE day = :day::date AND (state = 'VERIFIED' OR (state = 'DROPPED' AND number >= :first::integer))
) AS is_archived;

-- name: save_archive_part
INSERT INTO archive_part
    (day, kind, number, url, rows, sum_ids, first_id, last_id, bytes, digest, state, changed_at, known_rows, known_ids)
VALUES (
    :day::date, :kind, :number, :url, :rows, :sum_ids::text::numeric, :first_id, :last_id, :bytes, :digest, 'WRITTEN',
    :changed_at, :known_rows, :known_ids::text::numeric
)
ON CONFLICT (day, kind, number) DO UPDATE SET
    url = excluded.url, rows = excluded.rows, sum_ids = excluded.sum_ids, first_id = excluded.first_id,
    last_id = excluded.last_id, bytes = excluded.bytes, digest = excluded.digest, changed_at = excluded.changed_at,
    known_rows = excluded.known_rows, known_ids = excluded.known_ids
WHERE archive_part.state = 'WRITTEN';

-- name: list_archive_parts
SELECT day, kind, number, url, rows, sum_ids::text AS sum_ids, first_id, last_id, bytes, digest, state, changed_at,
    known_rows, known_ids::text AS known_ids
FROM archive_part WHERE day = :day::date ORDER BY kind DESC, number;

-- name: verify_archive_day
UPDATE archive_part SET state = 'VERIFIED', changed_at = :now
WHERE day = :day::date AND state = 'WRITTEN';

-- name: forget_archive_day
DELETE FROM archive_part WHERE day = :day::date AND state = 'WRITTEN';

-- name: list_verified_days
SELECT DISTINCT day FROM archive_part WHERE state = 'VERIFIED' ORDER BY day;

-- name: holds_history
SELECT holds_history(:day::date) AS holds_history;

-- name: drop_archive_day
UPDATE archive_part SET state = 'DROPPED', changed_at = :now WHERE day = :day::date AND state = 'VERIFIED';

-- name: list_archive_batches
SELECT
    day, kind, number / 100000 AS number,
    CASE max(CASE state WHEN 'WRITTEN' THEN 2 WHEN 'VERIFIED' THEN 1 ELSE 0 END)
        WHEN 2 THEN 'WRITTEN' WHEN 1 THEN 'VERIFIED' ELSE 'DROPPED' END AS state,
    count(*) FILTER (WHERE rows > 0) AS parts, sum(rows)::bigint AS rows, sum(known_rows)::bigint AS known, sum(bytes)::bigint AS bytes,
    max(changed_at) AS changed_at
FROM archive_part
WHERE day IN (SELECT DISTINCT newest.day FROM archive_part AS newest WHERE newest.day < :before::date ORDER BY newest.day DESC LIMIT :limit)
GROUP BY day, kind, number / 100000 ORDER BY day DESC, kind, number / 100000;

-- name: claim_archive
UPDATE cluster SET archive_url = :url RETURNING installation;

-- name: read_archive
SELECT installation, archive_url FROM cluster;

-- name: end_archive
UPDATE cluster SET archive_url = NULL;
