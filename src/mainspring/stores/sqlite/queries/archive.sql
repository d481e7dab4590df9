-- What is copied of the history into the archive, and what is known of its parts.

-- name: find_ended_run
SELECT min(finished_at) FROM run_history WHERE finished_at >= :since AND finished_at < :before;

-- name: find_ended_attempt
SELECT min(finished_at) FROM attempt WHERE finished_at >= :since AND finished_at < :before;

-- name: weigh_archived_runs
-- How many bytes each run takes in a copy, about. Sizes are read without what has them.
SELECT
    finished_at, id,
    :line + 2 * coalesce(length(payload), 0) + 2 * coalesce(length(result), 0) + coalesce(octet_length(output), 0)
    + coalesce(octet_length(error), 0) + coalesce(octet_length(reason), 0) AS size
FROM run_history INDEXED BY run_history_finished
WHERE (finished_at, id) >= (:after_at, :after_id) AND finished_at < :until
ORDER BY finished_at, id LIMIT :limit;

-- name: weigh_archived_attempts
SELECT
    finished_at, rowid,
    :line + coalesce(octet_length(output), 0) + coalesce(octet_length(error), 0) AS size
FROM attempt INDEXED BY attempt_finished
WHERE (finished_at, rowid) >= (:after_at, :after_id) AND finished_at < :until
ORDER BY finished_at, rowid LIMIT :limit;

-- name: copy_archived_runs
-- Runs of steps have the name of their workflow, whose id is theirs with version 7 instead of 8.
SELECT
    run.id, run.job_id, job.name, run.version, run.tenant, run.queue, run.route, run.priority, run.kind, run.state,
    run.reason, run.fire_at, run.due_at, run.created_at, run.started_at, run.finished_at, run.attempt, run.token,
    run.crashes, run.session_id, run.error, run.payload, run.result, run.output, run.target_key, run.fire_range_id,
    run.redrive_of, CASE WHEN run.trace IS NOT NULL THEN lower(hex(run.trace)) END,
    run.flow_id, run.step, run.item,
    CASE WHEN run.flow_state IS NOT NULL THEN lower(hex(run.flow_state)) END
FROM run_history AS run INDEXED BY run_history_finished
LEFT JOIN job ON job.id = CASE
    WHEN run.flow_id IS NULL THEN run.job_id
    ELSE unhex(substr(hex(run.job_id), 1, 12) || '7' || substr(hex(run.job_id), 14))
END
WHERE (run.finished_at, run.id) >= (:after_at, :after_id) AND (run.finished_at, run.id) < (:until, :until_id)
ORDER BY run.finished_at, run.id LIMIT :limit;

-- name: copy_archived_attempts
SELECT run_id, token, number, outcome, worker, host, started_at, finished_at, error, output, rowid AS place
FROM attempt INDEXED BY attempt_finished
WHERE (finished_at, rowid) >= (:after_at, :after_id) AND (finished_at, rowid) < (:until, :until_id)
ORDER BY finished_at, rowid LIMIT :limit;

-- name: count_archived_runs
-- The sum is taken in two halves, because it may be larger than SQLite's integers.
SELECT count(*) AS rows, coalesce(sum(id >> 31), 0) AS high, coalesce(sum(id & 2147483647), 0) AS low
FROM run_history INDEXED BY run_history_finished
WHERE (finished_at, id) >= (:first, :first_id) AND (finished_at, id) < (:until, :until_id);

-- name: count_archived_attempts
SELECT count(*) AS rows, coalesce(sum(run_id >> 31), 0) AS high, coalesce(sum(run_id & 2147483647), 0) AS low
FROM attempt INDEXED BY attempt_finished
WHERE (finished_at, rowid) >= (:first, :first_id) AND (finished_at, rowid) < (:until, :until_id);

-- name: is_archived
-- A day that was dropped and has rows again gets parts with higher numbers.
SELECT EXISTS (
    SELECT 1 FROM archive_part
    WHERE day = :day AND (state = 'VERIFIED' OR (state = 'DROPPED' AND number >= :first))
);

-- name: save_archive_part
INSERT INTO archive_part
    (day, kind, number, url, rows, sum_ids, first_id, last_id, bytes, digest, state, changed_at, known_rows, known_ids)
VALUES (
    :day, :kind, :number, :url, :rows, :sum_ids, :first_id, :last_id, :bytes, :digest, 'WRITTEN', :changed_at,
    :known_rows, :known_ids
)
ON CONFLICT (day, kind, number) DO UPDATE SET
    url = excluded.url, rows = excluded.rows, sum_ids = excluded.sum_ids, first_id = excluded.first_id,
    last_id = excluded.last_id, bytes = excluded.bytes, digest = excluded.digest, changed_at = excluded.changed_at,
    known_rows = excluded.known_rows, known_ids = excluded.known_ids
WHERE archive_part.state = 'WRITTEN';

-- name: list_archive_parts
SELECT day, kind, number, url, rows, sum_ids, first_id, last_id, bytes, digest, state, changed_at, known_rows,
    known_ids
FROM archive_part WHERE day = :day ORDER BY kind DESC, number;

-- name: verify_archive_day
UPDATE archive_part SET state = 'VERIFIED', changed_at = :now WHERE day = :day AND state = 'WRITTEN';

-- name: forget_archive_day
DELETE FROM archive_part WHERE day = :day AND state = 'WRITTEN';

-- name: list_verified_days
SELECT DISTINCT day FROM archive_part INDEXED BY archive_part_verified WHERE state = 'VERIFIED' ORDER BY day;

-- name: holds_history
SELECT
    EXISTS (
        SELECT 1 FROM run_history INDEXED BY run_history_finished WHERE finished_at >= :since AND finished_at < :before
    )
    OR EXISTS (
        SELECT 1 FROM attempt INDEXED BY attempt_finished WHERE finished_at >= :since AND finished_at < :before
    );

-- name: drop_archive_day
UPDATE archive_part SET state = 'DROPPED', changed_at = :now WHERE day = :day AND state = 'VERIFIED';

-- name: list_archive_batches
SELECT
    day, kind, number / 100000 AS number,
    CASE max(CASE state WHEN 'WRITTEN' THEN 2 WHEN 'VERIFIED' THEN 1 ELSE 0 END)
        WHEN 2 THEN 'WRITTEN' WHEN 1 THEN 'VERIFIED' ELSE 'DROPPED' END AS state,
    count(*) FILTER (WHERE rows > 0) AS parts, sum(rows) AS rows, sum(known_rows) AS known, sum(bytes) AS bytes,
    max(changed_at) AS changed_at
FROM archive_part
WHERE day IN (SELECT DISTINCT newest.day FROM archive_part AS newest WHERE newest.day < :before ORDER BY newest.day DESC LIMIT :limit)
GROUP BY day, kind, number / 100000 ORDER BY day DESC, kind, number / 100000;

-- name: claim_archive
UPDATE cluster SET archive_url = :url RETURNING installation;

-- name: read_archive
SELECT installation, archive_url FROM cluster;

-- name: end_archive
UPDATE cluster SET archive_url = NULL;

-- name: watch_ended_runs
-- What ends in a day that is in the archive, because the clock was set back, is in no file of it: the day gets files
-- once more, for what they do not have yet. A store without an archive has no such triggers: they cost each run that
-- ends some two microseconds.
CREATE TRIGGER IF NOT EXISTS run_reopens_archive_day AFTER INSERT ON run_history
WHEN EXISTS (SELECT 1 FROM archive_part WHERE day = new.finished_at / 86400000000 AND state <> 'DROPPED')
BEGIN
    UPDATE archive_part SET state = 'DROPPED' WHERE day = new.finished_at / 86400000000 AND state = 'VERIFIED';
    DELETE FROM archive_part WHERE day = new.finished_at / 86400000000 AND state = 'WRITTEN';
END;

-- name: watch_ended_attempts
CREATE TRIGGER IF NOT EXISTS attempt_reopens_archive_day AFTER INSERT ON attempt
WHEN EXISTS (SELECT 1 FROM archive_part WHERE day = new.finished_at / 86400000000 AND state <> 'DROPPED')
BEGIN
    UPDATE archive_part SET state = 'DROPPED' WHERE day = new.finished_at / 86400000000 AND state = 'VERIFIED';
    DELETE FROM archive_part WHERE day = new.finished_at / 86400000000 AND state = 'WRITTEN';
END;

-- name: unwatch_ended_runs
DROP TRIGGER IF EXISTS run_reopens_archive_day;

-- name: unwatch_ended_attempts
DROP TRIGGER IF EXISTS attempt_reopens_archive_day;
