-- Fires and fire ranges.

-- name: read_due
-- In the order of the fields of DueClock.
SELECT
    job_clock.job_id, job.tenant, job.version, job_clock.priority, job_clock.revision, job_clock.next_fire_at AS fire_at,
    job_clock.due_at, job_clock.fired_through, job_clock.run_outline AS outline, job_clock.fires_left
FROM job_clock INDEXED BY job_clock_due
CROSS JOIN job ON job.id = job_clock.job_id
WHERE job_clock.priority = :priority AND job_clock.due_at BETWEEN :since AND :until
  AND job_clock.shard IN (SELECT value FROM json_each(:shards))
ORDER BY job_clock.due_at
LIMIT :limit;

-- name: hold_shards
SELECT shard, epoch FROM shard_lease WHERE shard IN (SELECT value FROM json_each(:shards));

-- name: fire_clock
-- The law (design 2, law 2): one fire, one run.
UPDATE job_clock SET
    next_fire_at = :next_fire_at, due_at = :due_at, fired_through = :fired_through, fires_left = :fires_left
WHERE
    job_id = :job_id AND revision = :revision AND next_fire_at = :fire_at
    AND (fired_through IS NULL OR fired_through < :fire_at)
RETURNING job_id;

-- name: find_waiting_job
-- The job, if it has a run that waits and has never started. One that was submitted for later counts then.
SELECT run.job_id FROM run
WHERE run.job_id = :job_id AND run.kind <> 'backfill' AND run.token = 0 AND (run.fire_at IS NOT NULL OR run.ready_at <= :now)
LIMIT 1;

-- name: list_live_of_job
SELECT run.id, run.fire_at FROM run WHERE run.job_id = :job_id AND run.kind <> 'backfill';

-- name: find_busy_job
-- A backfill's run is of another time: it makes no fire of today a skipped one.
SELECT 1 FROM run WHERE job_id = :job_id AND kind <> 'backfill' LIMIT 1;

-- name: add_fire_range
-- A gap with an end is a finished record; all others are open.
INSERT INTO fire_range (job_id, version, shard, kind, from_at, to_at, reason, calendars, is_open, created_at, closed_at)
VALUES (
    :job_id, :version, :shard, :kind, :from_at, :to_at, :reason, :calendars, :kind <> 'gap' OR :to_at IS NULL, :now,
    CASE WHEN :kind = 'gap' AND :to_at IS NOT NULL THEN :now END
);

-- name: drop_empty_gap
-- The pause ended before the first fire that it would have skipped, so there is nothing to record.
DELETE FROM fire_range WHERE job_id = :job_id AND kind = 'gap' AND is_open AND from_at > :now;

-- name: close_gap
UPDATE fire_range SET is_open = 0, closed_at = :now, to_at = coalesce(to_at, :now)
WHERE job_id = :job_id AND kind = 'gap' AND is_open;

-- name: close_fire_range
UPDATE fire_range SET is_open = 0, closed_at = :now, to_at = coalesce(to_at, :now)
WHERE job_id = :job_id AND closed_at IS NULL;

-- name: read_fire_ranges
WITH page AS MATERIALIZED (
    SELECT fire_range.*, job.tenant, job.version AS newest
    FROM fire_range INDEXED BY fire_range_draining
    CROSS JOIN job ON job.id = fire_range.job_id AND job.deleted_at IS NULL AND NOT job.is_paused
    WHERE
        fire_range.is_open AND fire_range.kind <> 'gap' AND fire_range.id > :after
        AND fire_range.shard IN (SELECT value FROM json_each(:shards))
        AND NOT EXISTS (
            SELECT 1 FROM fire_range AS older INDEXED BY fire_range_job
            WHERE older.job_id = fire_range.job_id AND older.id < fire_range.id AND older.is_open AND older.kind <> 'gap'
        )
    ORDER BY fire_range.id
    LIMIT :limit
)
SELECT
    {page.fire_range_columns}, page.tenant, page.newest, job_clock.catch_up_level AS level,
    job_clock.catch_up_level_at AS level_at,
    (
        SELECT count(*) FROM fire_range AS own INDEXED BY fire_range_job
        CROSS JOIN run INDEXED BY run_fire_range ON run.fire_range_id = own.id
        WHERE own.job_id = page.job_id AND own.kind = 'catch_up'
    ) AS live
FROM page
CROSS JOIN job_clock ON job_clock.job_id = page.job_id
ORDER BY page.id;

-- name: advance_fire_range
UPDATE fire_range SET
    cursor_at = :cursor_to, is_open = NOT :is_done, closed_at = CASE WHEN :is_done THEN :now END,
    to_at = CASE WHEN :is_done THEN coalesce(to_at, :now) ELSE to_at END
WHERE
    id = :fire_range_id AND is_open AND cursor_at IS :cursor_from
    AND EXISTS (SELECT 1 FROM job WHERE job.id = fire_range.job_id AND job.deleted_at IS NULL AND NOT job.is_paused)
RETURNING id;

-- name: keep_permits
UPDATE job_clock SET catch_up_level = :level, catch_up_level_at = :level_at WHERE job_id = :job_id;

-- name: list_fire_ranges
SELECT {fire_range.fire_range_columns}, job.tenant
FROM fire_range
JOIN job ON job.id = fire_range.job_id
WHERE fire_range.job_id = :job_id
ORDER BY fire_range.id DESC
LIMIT :limit;
