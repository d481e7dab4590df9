-- Calendars, their versions, and which jobs use them.

-- name: read_calendar_revision
SELECT number FROM revision WHERE name = 'calendars';

-- name: hold_calendar_revision
-- Jobs that use calendars are written under it, so that no new version comes in between: it waits, and finds them.
SELECT number FROM revision WHERE name = 'calendars' FOR SHARE;

-- name: raise_calendar_revision
-- Nothing if something was written since: the caller decided by what is no more.
UPDATE revision SET number = number + 1 WHERE name = 'calendars' AND number = :revision RETURNING number;

-- name: add_calendars
INSERT INTO calendar (tenant, name, version, spec, created_at)
SELECT tenant, name, version, spec, created_at
FROM unnest(:tenants::text[], :names::text[], :versions::integer[], :specs::bytea[], :creations_at::timestamptz[])
    AS new (tenant, name, version, spec, created_at);

-- name: read_calendars
-- Without a number, the newest version.
SELECT calendar.tenant, calendar.name, calendar.version, calendar.spec, calendar.created_at, calendar.is_deleted,
    wanted.version IS NULL AS is_newest
FROM unnest(:names::text[], :versions::integer[]) AS wanted (name, version)
CROSS JOIN LATERAL (
    SELECT * FROM calendar
    WHERE calendar.tenant = :tenant AND calendar.name = wanted.name
        AND (wanted.version IS NULL OR calendar.version = wanted.version)
    ORDER BY calendar.version DESC LIMIT 1
) AS calendar;

-- name: list_calendars
SELECT calendar.tenant, calendar.name, calendar.version, calendar.spec, calendar.created_at, calendar.is_deleted
FROM calendar
WHERE calendar.tenant = :tenant AND calendar.name > :after AND NOT calendar.is_deleted
    AND calendar.version = (
        SELECT max(newest.version) FROM calendar AS newest
        WHERE newest.tenant = calendar.tenant AND newest.name = calendar.name
    )
ORDER BY calendar.name LIMIT :limit;

-- name: list_calendar_versions
SELECT calendar.tenant, calendar.name, calendar.version, calendar.spec, calendar.created_at, calendar.is_deleted
FROM calendar
WHERE calendar.tenant = :tenant AND calendar.name = :name AND calendar.version < :before
ORDER BY calendar.version DESC LIMIT :limit;

-- name: find_calendar
-- Whether it is there, and whether a job or a blackout uses it.
SELECT EXISTS (
    SELECT 1 FROM calendar_use WHERE calendar_use.tenant = :tenant AND calendar_use.calendar = :name
) OR EXISTS (
    SELECT 1 FROM blackout WHERE blackout.tenant = :tenant AND blackout.calendar = :name
) AS is_used
FROM calendar WHERE calendar.tenant = :tenant AND calendar.name = :name AND NOT calendar.is_deleted LIMIT 1;

-- name: delete_calendar
UPDATE calendar SET is_deleted = true WHERE tenant = :tenant AND name = :name AND NOT is_deleted;

-- name: read_calendar_uses
SELECT calendar_use.job_id, calendar_use.calendar, calendar_use.version, calendar_use.is_pinned
FROM calendar_use
WHERE calendar_use.job_id = ANY(:job_ids::uuid[])
ORDER BY calendar_use.job_id, calendar_use.calendar;

-- name: list_jobs_of_calendar
SELECT job_id FROM calendar_use
WHERE tenant = :tenant AND calendar = :name ORDER BY job_id LIMIT :limit;

-- name: list_unsettled_jobs
SELECT DISTINCT calendar_use.job_id
FROM calendar
JOIN calendar_use ON calendar_use.tenant = calendar.tenant AND calendar_use.calendar = calendar.name
WHERE NOT calendar.is_settled AND NOT calendar_use.is_pinned AND calendar_use.version < calendar.version
ORDER BY calendar_use.job_id LIMIT :limit;

-- name: settle_calendars
UPDATE calendar SET is_settled = true
WHERE NOT is_settled AND NOT EXISTS (
    SELECT 1 FROM calendar_use
    WHERE calendar_use.tenant = calendar.tenant AND calendar_use.calendar = calendar.name
        AND NOT calendar_use.is_pinned AND calendar_use.version < calendar.version
);

-- name: remove_calendar_uses
DELETE FROM calendar_use WHERE job_id = ANY(:job_ids::uuid[]);

-- name: add_calendar_uses
INSERT INTO calendar_use (job_id, tenant, calendar, version, is_pinned)
SELECT job_id, tenant, calendar, version, is_pinned
FROM unnest(:job_ids::uuid[], :tenants::text[], :calendars::text[], :versions::integer[], :are_pinned::boolean[])
    AS new (job_id, tenant, calendar, version, is_pinned);

-- name: touch_jobs
UPDATE job SET updated_at = :now WHERE job.id = ANY(:job_ids::uuid[]);
