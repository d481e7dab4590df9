-- Calendars, their versions, and which jobs use them.

-- name: read_calendar_revision
SELECT number FROM revision WHERE name = 'calendars';

-- name: raise_calendar_revision
-- Nothing if something was written since: the caller decided by what is no more.
UPDATE revision SET number = number + 1 WHERE name = 'calendars' AND number = :revision RETURNING number;

-- name: add_calendars
INSERT INTO calendar (tenant, name, version, spec, created_at)
VALUES (:tenant, :name, :version, :spec, :creation_at);

-- name: read_calendars
-- Without a number, the newest version.
SELECT calendar.tenant, calendar.name, calendar.version, calendar.spec, calendar.created_at, calendar.is_deleted
FROM json_each(:keys) AS wanted
CROSS JOIN calendar ON calendar.tenant = :tenant AND calendar.name = wanted.value ->> 0
WHERE calendar.version = coalesce(
    wanted.value ->> 1,
    (SELECT max(newest.version) FROM calendar AS newest WHERE newest.tenant = :tenant AND newest.name = wanted.value ->> 0)
);

-- name: list_calendars
SELECT calendar.tenant, calendar.name, calendar.version, calendar.spec, calendar.created_at, calendar.is_deleted
FROM calendar
WHERE calendar.tenant = :tenant AND calendar.name > :after AND calendar.is_deleted = 0
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
FROM calendar WHERE calendar.tenant = :tenant AND calendar.name = :name AND calendar.is_deleted = 0 LIMIT 1;

-- name: delete_calendar
UPDATE calendar SET is_deleted = 1 WHERE tenant = :tenant AND name = :name AND is_deleted = 0;

-- name: read_calendar_uses
SELECT calendar_use.job_id, calendar_use.calendar, calendar_use.version, calendar_use.is_pinned
FROM json_each(:job_ids) AS wanted
CROSS JOIN calendar_use ON calendar_use.job_id = unhex(wanted.value)
ORDER BY calendar_use.job_id, calendar_use.calendar;

-- name: list_jobs_of_calendar
SELECT job_id FROM calendar_use
WHERE tenant = :tenant AND calendar = :name ORDER BY job_id LIMIT :limit;

-- name: list_unsettled_jobs
SELECT DISTINCT calendar_use.job_id
FROM calendar
JOIN calendar_use ON calendar_use.tenant = calendar.tenant AND calendar_use.calendar = calendar.name
WHERE calendar.is_settled = 0 AND calendar_use.is_pinned = 0 AND calendar_use.version < calendar.version
ORDER BY calendar_use.job_id LIMIT :limit;

-- name: settle_calendars
UPDATE calendar SET is_settled = 1
WHERE is_settled = 0 AND NOT EXISTS (
    SELECT 1 FROM calendar_use
    WHERE calendar_use.tenant = calendar.tenant AND calendar_use.calendar = calendar.name
        AND calendar_use.is_pinned = 0 AND calendar_use.version < calendar.version
);

-- name: remove_calendar_uses
DELETE FROM calendar_use WHERE job_id IN (SELECT unhex(value) FROM json_each(:job_ids));

-- name: add_calendar_uses
INSERT INTO calendar_use (job_id, tenant, calendar, version, is_pinned)
VALUES (:job_id, :tenant, :calendar, :version, :is_pinned);

-- name: touch_jobs
UPDATE job SET updated_at = :now WHERE id IN (SELECT unhex(value) FROM json_each(:job_ids));
