-- Fires and fire ranges.

-- name: read_due
SELECT due.*
FROM unnest(:priorities::smallint[]) AS tier (priority)
CROSS JOIN LATERAL (
    SELECT
        job_clock.job_id, job.tenant, job.version, job_clock.priority, job_clock.revision, job_clock.next_fire_at AS fire_at,
        job_clock.due_at, job_clock.fired_through, job_clock.run_outline AS outline, job_clock.fires_left
    FROM job_clock JOIN job ON job.id = job_clock.job_id
    WHERE job_clock.priority = tier.priority AND job_clock.due_at BETWEEN :since AND :until
      AND job_clock.shard = ANY(:shards::smallint[])
    ORDER BY job_clock.due_at LIMIT :limit
) AS due;

-- name: hold_shards
-- Law 3: the rows are held until the transaction ends, so that nobody takes over a shard between check and write.
SELECT lease.shard, lease.epoch
FROM unnest(:shards::smallint[]) AS wanted (shard)
CROSS JOIN LATERAL (SELECT * FROM shard_lease WHERE shard_lease.shard = wanted.shard FOR SHARE) AS lease;

-- name: fire_clocks
-- Law 2. The arguments are sorted by job id; those of a row are found by binary search (see runs.sql). There are no
-- fires_left if no job of these has a maximum.
UPDATE job_clock SET
    next_fire_at = (:next_fires_at::timestamptz[])[width_bucket(job_id, :job_ids::uuid[])],
    due_at = (:dues_at::timestamptz[])[width_bucket(job_id, :job_ids::uuid[])],
    fired_through = (:fired_throughs::timestamptz[])[width_bucket(job_id, :job_ids::uuid[])],
    fires_left = (:fires_left::integer[])[width_bucket(job_id, :job_ids::uuid[])]
WHERE job_id = ANY(:job_ids::uuid[])
  AND revision = (:revisions::bigint[])[width_bucket(job_id, :job_ids::uuid[])]
  AND next_fire_at = (:fires_at::timestamptz[])[width_bucket(job_id, :job_ids::uuid[])]
  AND (fired_through IS NULL OR fired_through < next_fire_at)
RETURNING job_id;

-- name: fire_outlined
-- Laws 2 and 3 for a set of fires, each the last of its job (ADR 0040). Rows of shards are held before a clock moves. It
-- does nothing if a lane is gone; the caller then interns it. If all values of a column are the same, only the first is
-- passed. What was read of a clock holds while its revision does, so the version and all that depends on it need no
-- look at the job.
WITH owned AS MATERIALIZED (
    SELECT wanted.shard
    FROM unnest(:shards::smallint[], :epochs::bigint[]) AS wanted (shard, epoch)
    CROSS JOIN LATERAL (
        SELECT shard_lease.epoch FROM shard_lease WHERE shard_lease.shard = wanted.shard FOR SHARE
    ) AS lease
    WHERE lease.epoch = wanted.epoch
), held AS MATERIALIZED (
    SELECT lane.id
    FROM unnest(:lane_ids::bigint[]) AS wanted (id)
    CROSS JOIN LATERAL (SELECT lane.id FROM lane WHERE lane.id = wanted.id FOR KEY SHARE) AS lane
), won AS (
    UPDATE job_clock SET next_fire_at = NULL, due_at = NULL, fired_through = job_clock.next_fire_at
    WHERE job_clock.job_id = ANY(:job_ids::uuid[])
      AND (SELECT count(*) FROM held) = cardinality(:lane_ids::bigint[])
      AND job_clock.shard = ANY(ARRAY(SELECT owned.shard FROM owned))
      AND job_clock.revision = coalesce(
        (:revisions::bigint[])[width_bucket(job_clock.job_id, :job_ids::uuid[])], (:revisions::bigint[])[1])
      AND job_clock.next_fire_at = coalesce(
        (:fires_at::timestamptz[])[width_bucket(job_clock.job_id, :job_ids::uuid[])], (:fires_at::timestamptz[])[1])
      AND (job_clock.fired_through IS NULL OR job_clock.fired_through < job_clock.next_fire_at)
    RETURNING
        job_clock.job_id, job_clock.shard, job_clock.fired_through AS fire_at,
        width_bucket(job_clock.job_id, :job_ids::uuid[]) AS place
), added AS (
    INSERT INTO run ({new_columns})
    SELECT
        nextval('run_sequence') * 256 + won.shard, won.job_id,
        coalesce((:versions::integer[])[won.place], (:versions::integer[])[1]),
        coalesce((:run_lanes::bigint[])[won.place], (:run_lanes::bigint[])[1]), 'scheduled', 'PENDING', won.fire_at,
        coalesce((:dues_at::timestamptz[])[won.place], (:dues_at::timestamptz[])[1]),
        greatest(coalesce((:dues_at::timestamptz[])[won.place], (:dues_at::timestamptz[])[1]), :now),
        :now, (:expiries_at::timestamptz[])[won.place],
        coalesce((:timeouts_ms::bigint[])[won.place], (:timeouts_ms::bigint[])[1]), NULL, NULL, NULL,
        (:traces::bytea[])[won.place]
    FROM won
    RETURNING id, job_id
)
SELECT
    (SELECT count(*) FROM held) AS lanes_held, ARRAY(SELECT owned.shard FROM owned) AS shards, fired.run_ids, fired.job_ids
FROM (SELECT array_agg(added.id) AS run_ids, array_agg(added.job_id) AS job_ids FROM added) AS fired;

-- name: find_waiting_jobs
-- Those of these jobs that have a run that waits and has never started. One that was submitted for later counts then.
SELECT wanted.id
FROM unnest(:job_ids::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT FROM run
    WHERE run.job_id = wanted.id AND run.kind <> 'backfill' AND run.token = 0
      AND (run.fire_at IS NOT NULL OR run.ready_at <= :now)
    LIMIT 1
) AS run;

-- name: list_live_of_jobs
SELECT run.job_id, run.id, run.fire_at
FROM unnest(:job_ids::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT run.job_id, run.id, run.fire_at FROM run WHERE run.job_id = wanted.id AND run.kind <> 'backfill'
) AS run;

-- name: find_busy_jobs
-- A backfill's run is of another time: it makes no fire of today a skipped one.
SELECT wanted.id
FROM unnest(:job_ids::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT FROM run WHERE run.job_id = wanted.id AND run.kind <> 'backfill' LIMIT 1) AS run;

-- name: add_fire_ranges
-- A gap with an end is a finished record; all others are open.
INSERT INTO fire_range (job_id, version, shard, kind, from_at, to_at, reason, calendars, is_open, created_at, closed_at)
SELECT
    job_id, version, shard, kind, from_at, to_at, reason, calendars, kind <> 'gap' OR to_at IS NULL, :now,
    CASE WHEN kind = 'gap' AND to_at IS NOT NULL THEN :now::timestamptz END
FROM unnest(
    :job_ids::uuid[], :versions::integer[], :shards::smallint[], :kinds::text[], :froms_at::timestamptz[],
    :tos_at::timestamptz[], :reasons::text[], :calendars::text[]
) AS new (job_id, version, shard, kind, from_at, to_at, reason, calendars);

-- name: drop_empty_gaps
-- The pause ended before the first fire that it would have skipped, so there is nothing to record.
DELETE FROM fire_range
WHERE fire_range.job_id = ANY(:job_ids::uuid[]) AND fire_range.is_open AND fire_range.kind = 'gap' AND fire_range.from_at > :now;

-- name: close_gaps
UPDATE fire_range SET is_open = false, closed_at = :now, to_at = coalesce(fire_range.to_at, :now)
WHERE fire_range.job_id = ANY(:job_ids::uuid[]) AND fire_range.is_open AND fire_range.kind = 'gap';

-- name: close_fire_ranges
UPDATE fire_range SET is_open = false, closed_at = :now, to_at = coalesce(fire_range.to_at, :now)
WHERE fire_range.job_id = ANY(:job_ids::uuid[]) AND fire_range.closed_at IS NULL;

-- name: read_fire_ranges
-- The caller puts the page in order; a sort here could come before the limit.
WITH page AS MATERIALIZED (
    SELECT fire_range.*, job.tenant, job.version AS newest
    FROM fire_range JOIN job ON job.id = fire_range.job_id
    WHERE fire_range.is_open AND fire_range.kind <> 'gap' AND fire_range.shard = ANY(:shards::smallint[])
      AND fire_range.id > :after AND coalesce(job.deleted_at, 'infinity') = 'infinity' AND NOT job.is_paused
      AND NOT EXISTS (
        SELECT FROM fire_range AS older
        WHERE older.job_id = fire_range.job_id AND older.id < fire_range.id AND older.is_open AND older.kind <> 'gap'
      )
    ORDER BY fire_range.id LIMIT :limit
)
SELECT
    {page.fire_range_columns}, page.tenant, page.newest, job_clock.catch_up_level AS level,
    job_clock.catch_up_level_at AS level_at, held.live
FROM page
JOIN job_clock ON job_clock.job_id = page.job_id
CROSS JOIN LATERAL (
    SELECT count(*) AS live
    FROM fire_range AS own
    CROSS JOIN LATERAL (SELECT FROM run WHERE run.fire_range_id = own.id OFFSET 0) AS made
    WHERE own.job_id = page.job_id AND own.kind = 'catch_up'
) AS held;

-- name: lock_clocks
SELECT clock.job_id
FROM unnest(:job_ids::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT job_id FROM job_clock WHERE job_clock.job_id = wanted.id FOR NO KEY UPDATE) AS clock;

-- name: advance_fire_ranges
-- Runs after lock_clocks, as a statement of its own: a caller that waited there must see what the other one wrote.
UPDATE fire_range SET
    cursor_at = step.cursor_to, is_open = NOT step.is_done,
    closed_at = CASE WHEN step.is_done THEN :now::timestamptz END,
    to_at = CASE WHEN step.is_done THEN coalesce(fire_range.to_at, :now) ELSE fire_range.to_at END
FROM unnest(
    :fire_range_ids::bigint[], :cursors_from::timestamptz[], :cursors_to::timestamptz[], :are_done::boolean[]
) AS step (fire_range_id, cursor_from, cursor_to, is_done)
WHERE fire_range.id = step.fire_range_id AND fire_range.is_open AND fire_range.cursor_at IS NOT DISTINCT FROM step.cursor_from
  AND EXISTS (
    SELECT FROM job
    WHERE job.id = fire_range.job_id AND coalesce(job.deleted_at, 'infinity') = 'infinity' AND NOT job.is_paused
  )
RETURNING fire_range.id;

-- name: keep_permits
-- The clocks are locked already, by lock_clocks.
UPDATE job_clock SET catch_up_level = step.level, catch_up_level_at = step.level_at
FROM unnest(:job_ids::uuid[], :levels::double precision[], :levels_at::timestamptz[]) AS step (job_id, level, level_at)
WHERE job_clock.job_id = step.job_id;

-- name: list_fire_ranges
SELECT {fire_range.fire_range_columns}, job.tenant
FROM fire_range JOIN job ON job.id = fire_range.job_id
WHERE fire_range.job_id = :job_id
ORDER BY fire_range.id DESC LIMIT :limit;
