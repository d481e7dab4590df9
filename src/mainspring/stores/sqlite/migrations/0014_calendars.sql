-- compatible_from: 0007
-- Calendars: named sets of dates and hours that let the fires of jobs through, or keep them out.

CREATE TABLE calendar (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    -- JSON: the definition, and to which versions the names in it were bound as it was written.
    spec BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    -- Of all versions of a deleted calendar. They stay readable by number.
    is_deleted INTEGER NOT NULL DEFAULT 0,
    -- Every job that follows the calendar goes by this version, or by a later one.
    is_settled INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, name, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX calendar_unsettled ON calendar (tenant, name, version) WHERE is_settled = 0;

-- Which version of a calendar the clock of a job goes by. Clocks move on to a new version some time after its write.
CREATE TABLE calendar_use (
    job_id BLOB NOT NULL,
    tenant TEXT NOT NULL,
    calendar TEXT NOT NULL,
    version INTEGER NOT NULL,
    -- The job names this version; it does not follow the newest one.
    is_pinned INTEGER NOT NULL,
    PRIMARY KEY (job_id, calendar)
) STRICT, WITHOUT ROWID;
CREATE INDEX calendar_use_calendar ON calendar_use (tenant, calendar, job_id);

-- Which versions of calendars the fires to be caught up go by, whatever the job goes by since: NAME@VERSION
-- with spaces between. NULL: none.
ALTER TABLE fire_range ADD COLUMN calendars TEXT;

INSERT INTO revision (name, number) VALUES ('calendars', 0);
