-- Backfills and their steps.

-- name: list_version_times
SELECT version, created_at FROM job_version WHERE job_id = :job_id ORDER BY version;

-- name: read_fires_of_runs
SELECT
    max(id) AS last,
    json_group_array(fire_at) FILTER (
        WHERE fire_at BETWEEN :from_at AND :to_at AND state IN (SELECT value FROM json_each(:states))
    ) AS fires
FROM (
    SELECT any_run.id, any_run.fire_at, any_run.state FROM any_run
    WHERE any_run.job_id = :job_id AND any_run.id > :after ORDER BY any_run.id LIMIT :limit
);

-- name: find_backfill_in_way
SELECT id FROM backfill
WHERE job_id = :job_id AND state IN ('open', 'paused') AND from_at < :to_at AND to_at > :from_at
ORDER BY id LIMIT 1;

-- name: add_backfill
INSERT INTO backfill (
    id, shard, tenant, job_id, state, from_at, to_at, skip_done, definition, per_count, per_ms, max_live, priority, note, fires,
    created_at
) VALUES (
    :backfill_id, :shard, :tenant, :job_id, 'open', :from_at, :to_at, :skip_done, :definition, :per_count, :per_ms, :max_live,
    :priority, :note, :fires, :now
);

-- name: add_section
INSERT INTO fire_range (job_id, version, shard, kind, from_at, to_at, reason, is_open, created_at, backfill_id)
VALUES (:job_id, :version, :shard, 'backfill', :from_at, :to_at, 'backfill', 0, :now, :backfill_id);

-- name: get_backfills
SELECT {backfill_columns}
FROM json_each(:backfill_ids) AS wanted
CROSS JOIN backfill ON backfill.id = unhex(wanted.value)
CROSS JOIN job ON job.id = backfill.job_id;

-- name: list_backfills
SELECT {backfill_columns}
FROM backfill
CROSS JOIN job ON job.id = backfill.job_id
WHERE backfill.tenant = :tenant AND backfill.id < :before
ORDER BY backfill.id DESC LIMIT :limit;

-- name: list_backfills_of_job
SELECT {backfill_columns}
FROM backfill INDEXED BY backfill_job
CROSS JOIN job ON job.id = backfill.job_id
WHERE backfill.job_id = :job_id AND backfill.tenant = :tenant AND backfill.id < :before
ORDER BY backfill.id DESC LIMIT :limit;

-- name: change_backfill
UPDATE backfill SET state = :state, closed_at = CASE WHEN :state = 'cancelled' THEN coalesce(closed_at, :now) END
WHERE
    id = :backfill_id AND state IN (SELECT value FROM json_each(:states))
    AND EXISTS (SELECT 1 FROM job WHERE job.id = backfill.job_id AND job.deleted_at IS NULL)
RETURNING id;

-- name: close_sections
UPDATE fire_range SET closed_at = :now WHERE backfill_id = :backfill_id AND closed_at IS NULL;

-- name: list_waiting_of_backfill
SELECT run.id
FROM fire_range INDEXED BY fire_range_backfill
CROSS JOIN run INDEXED BY run_fire_range ON run.fire_range_id = fire_range.id
WHERE fire_range.backfill_id = :backfill_id AND run.state IN ('PENDING', 'RETRYING')
LIMIT :limit;

-- name: read_backfill_work
SELECT
    backfill.id AS backfill_id, {backfill_options}, backfill.level, backfill.level_at,
    {fire_range.fire_range_columns}, job.tenant,
    NOT EXISTS (
        SELECT 1 FROM fire_range AS later
        WHERE later.backfill_id = backfill.id AND later.id > fire_range.id AND later.closed_at IS NULL
    ) AS is_last,
    (
        SELECT count(*) FROM fire_range AS section INDEXED BY fire_range_backfill
        CROSS JOIN run INDEXED BY run_fire_range ON run.fire_range_id = section.id
        WHERE section.backfill_id = backfill.id
    ) AS live,
    EXISTS (SELECT 1 FROM run INDEXED BY run_job WHERE run.job_id = backfill.job_id) AS is_job_busy
FROM backfill INDEXED BY backfill_open
CROSS JOIN job ON job.id = backfill.job_id
CROSS JOIN fire_range ON fire_range.id = (
    SELECT section.id FROM fire_range AS section INDEXED BY fire_range_backfill
    WHERE section.backfill_id = backfill.id AND section.closed_at IS NULL
    ORDER BY section.id LIMIT 1
)
WHERE
    backfill.state = 'open' AND backfill.id > :after AND backfill.shard IN (SELECT value FROM json_each(:shards))
    AND job.deleted_at IS NULL AND NOT job.is_paused
ORDER BY backfill.id LIMIT :limit;

-- name: lock_backfill
-- SQLite has one writer, so nothing changes between this and the step.
SELECT id FROM backfill WHERE id = :backfill_id AND state = 'open';

-- name: advance_section
UPDATE fire_range SET cursor_at = :cursor_to, closed_at = CASE WHEN :is_done THEN :now END
WHERE
    id = :fire_range_id AND closed_at IS NULL AND cursor_at IS :cursor_from
    AND EXISTS (SELECT 1 FROM job WHERE job.id = fire_range.job_id AND job.deleted_at IS NULL AND NOT job.is_paused)
RETURNING id;

-- name: count_backfill
UPDATE backfill SET
    made = made + :count_made, skipped = skipped + :count_skipped, level = :level, level_at = :level_at,
    state = CASE WHEN :is_done THEN 'done' ELSE state END, closed_at = CASE WHEN :is_done THEN :now END
WHERE id = :backfill_id;
