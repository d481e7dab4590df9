-- Backfills and their steps.

-- name: list_version_times
SELECT version, created_at FROM job_version WHERE job_id = :job_id ORDER BY version;

-- name: read_fires_of_runs
SELECT
    max(looked.id) AS last,
    coalesce(array_agg(looked.fire_at)
        FILTER (WHERE looked.fire_at BETWEEN :from_at AND :to_at AND looked.state = ANY(:states::text[])), '{}') AS fires
FROM (
    SELECT any_run.id, any_run.fire_at, any_run.state FROM any_run
    WHERE any_run.job_id = :job_id AND any_run.id > :after ORDER BY any_run.id LIMIT :limit
) AS looked;

-- name: find_backfill_in_way
-- After lock_clocks, as a statement of its own: another one may have come about during the wait.
SELECT backfill.id FROM backfill
WHERE backfill.job_id = :job_id AND backfill.state IN ('open', 'paused') AND backfill.from_at < :to_at
  AND backfill.to_at > :from_at
ORDER BY backfill.id LIMIT 1;

-- name: add_backfill
INSERT INTO backfill (
    id, shard, tenant, job_id, state, from_at, to_at, skip_done, definition, per_count, per_ms, max_live, priority, note, fires,
    created_at
) VALUES (
    :backfill_id, :shard, :tenant, :job_id, 'open', :from_at, :to_at, :skip_done, :definition, :per_count, :per_ms, :max_live,
    :priority, :note, :fires, :now
);

-- name: add_sections
INSERT INTO fire_range (job_id, version, shard, kind, from_at, to_at, reason, is_open, created_at, backfill_id)
SELECT :job_id, section.version, :shard, 'backfill', section.from_at, section.to_at, 'backfill', false, :now, :backfill_id
FROM unnest(:versions::integer[], :froms_at::timestamptz[], :tos_at::timestamptz[]) WITH ORDINALITY
    AS section (version, from_at, to_at, position)
ORDER BY section.position;

-- name: get_backfills
SELECT {backfill_columns}
FROM unnest(:backfill_ids::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM backfill WHERE backfill.id = wanted.id) AS backfill
JOIN job ON job.id = backfill.job_id;

-- name: list_backfills
SELECT {backfill_columns}
FROM backfill JOIN job ON job.id = backfill.job_id
WHERE backfill.tenant = :tenant AND backfill.id < :before
ORDER BY backfill.id DESC LIMIT :limit;

-- name: list_backfills_of_job
SELECT {backfill_columns}
FROM backfill JOIN job ON job.id = backfill.job_id
WHERE backfill.job_id = :job_id AND backfill.tenant = :tenant AND backfill.id < :before
ORDER BY backfill.id DESC LIMIT :limit;

-- name: change_backfill
UPDATE backfill SET
    state = :state, closed_at = CASE WHEN :state = 'cancelled' THEN coalesce(backfill.closed_at, :now::timestamptz) END
FROM (SELECT id, state FROM backfill WHERE id = :backfill_id FOR UPDATE) AS old
WHERE backfill.id = old.id AND backfill.state = ANY(:states::text[])
  AND EXISTS (SELECT FROM job WHERE job.id = backfill.job_id AND coalesce(job.deleted_at, 'infinity') = 'infinity')
RETURNING old.state AS before;

-- name: close_sections
UPDATE fire_range SET closed_at = :now WHERE fire_range.backfill_id = :backfill_id AND fire_range.closed_at IS NULL;

-- name: list_waiting_of_backfill
SELECT run.id
FROM fire_range
CROSS JOIN LATERAL (
    SELECT run.id FROM run WHERE run.fire_range_id = fire_range.id AND run.state IN ('PENDING', 'RETRYING')
) AS run
WHERE fire_range.backfill_id = :backfill_id
LIMIT :limit;

-- name: read_backfill_work
SELECT
    backfill.id AS backfill_id, {backfill_options}, backfill.level, backfill.level_at,
    {fire_range.fire_range_columns}, job.tenant, NOT section.is_followed AS is_last, held.live,
    EXISTS (SELECT FROM run WHERE run.job_id = backfill.job_id) AS is_job_busy
FROM backfill
JOIN job ON job.id = backfill.job_id
CROSS JOIN LATERAL (
    SELECT fire_range.*, EXISTS (
        SELECT FROM fire_range AS later
        WHERE later.backfill_id = backfill.id AND later.id > fire_range.id AND later.closed_at IS NULL
    ) AS is_followed
    FROM fire_range WHERE fire_range.backfill_id = backfill.id AND fire_range.closed_at IS NULL
    ORDER BY fire_range.backfill_id, fire_range.id LIMIT 1
) AS section
JOIN fire_range ON fire_range.id = section.id
CROSS JOIN LATERAL (
    SELECT count(*) AS live
    FROM fire_range AS any_section
    CROSS JOIN LATERAL (SELECT FROM run WHERE run.fire_range_id = any_section.id OFFSET 0) AS made
    WHERE any_section.backfill_id = backfill.id
) AS held
WHERE backfill.state = 'open' AND backfill.id > :after AND backfill.shard = ANY(:shards::smallint[])
  AND coalesce(job.deleted_at, 'infinity') = 'infinity' AND NOT job.is_paused
ORDER BY backfill.id LIMIT :limit;

-- name: lock_backfills
-- A cancel or a pause comes before the step, or after it.
SELECT locked.id, locked.state
FROM unnest(:backfill_ids::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT backfill.id, backfill.state FROM backfill WHERE backfill.id = wanted.id FOR NO KEY UPDATE
) AS locked;

-- name: advance_sections
-- After lock_backfills, as a statement of its own: who waited there must see the cursor as the other one left it.
UPDATE fire_range SET
    cursor_at = step.cursor_to, closed_at = CASE WHEN step.is_done THEN :now::timestamptz END
FROM unnest(
    :fire_range_ids::bigint[], :cursors_from::timestamptz[], :cursors_to::timestamptz[], :are_done::boolean[]
) AS step (fire_range_id, cursor_from, cursor_to, is_done)
WHERE fire_range.id = step.fire_range_id AND fire_range.closed_at IS NULL
  AND fire_range.cursor_at IS NOT DISTINCT FROM step.cursor_from
  AND EXISTS (
    SELECT FROM job
    WHERE job.id = fire_range.job_id AND coalesce(job.deleted_at, 'infinity') = 'infinity' AND NOT job.is_paused
  )
RETURNING fire_range.id;

-- name: count_backfills
UPDATE backfill SET
    made = backfill.made + step.made, skipped = backfill.skipped + step.skipped, level = step.level, level_at = step.level_at,
    state = CASE WHEN step.is_done THEN 'done' ELSE backfill.state END,
    closed_at = CASE WHEN step.is_done THEN :now::timestamptz END
FROM unnest(
    :backfill_ids::uuid[], :counts_made::integer[], :counts_skipped::integer[], :levels::double precision[],
    :levels_at::timestamptz[], :are_done::boolean[]
) AS step (id, made, skipped, level, level_at, is_done)
WHERE backfill.id = step.id;
