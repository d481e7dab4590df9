-- compatible_from: 0007
-- Calendars: named sets of dates and hours that let the fires of jobs through, or keep them out.

CREATE TABLE calendar (
    tenant text NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    -- JSON: the definition, and to which versions the names in it were bound as it was written.
    spec bytea NOT NULL,
    created_at timestamptz NOT NULL,
    -- Of all versions of a deleted calendar. They stay readable by number.
    is_deleted boolean NOT NULL DEFAULT false,
    -- Every job that follows the calendar goes by this version, or by a later one.
    is_settled boolean NOT NULL DEFAULT false,
    CONSTRAINT calendar_pkey PRIMARY KEY (tenant, name, version)
);
CREATE INDEX calendar_unsettled ON calendar (tenant, name, version) WHERE NOT is_settled;

-- Which version of a calendar the clock of a job goes by. Clocks move on to a new version some time after its write.
CREATE TABLE calendar_use (
    job_id uuid NOT NULL,
    tenant text NOT NULL,
    calendar text NOT NULL,
    version integer NOT NULL,
    -- The job names this version; it does not follow the newest one.
    is_pinned boolean NOT NULL,
    CONSTRAINT calendar_use_pkey PRIMARY KEY (job_id, calendar)
);
CREATE INDEX calendar_use_calendar ON calendar_use (tenant, calendar, job_id);

-- Which versions of calendars the fires to be caught up go by, whatever the job goes by since: NAME@VERSION
-- with spaces between. NULL: none.
ALTER TABLE fire_range ADD COLUMN calendars text;

INSERT INTO revision (name, number) VALUES ('calendars', 0);
