-- compatible_from: 0007
-- Blackouts: a queue, a tenant or everything is paused while a calendar holds.
CREATE TABLE blackout (
    scope TEXT NOT NULL CONSTRAINT blackout_scope CHECK (scope IN ('all', 'queue', 'tenant')),
    name TEXT NOT NULL,                     -- of the queue or tenant; empty for everything
    tenant TEXT NOT NULL,                   -- whose calendar it is
    calendar TEXT NOT NULL,
    version INTEGER NOT NULL,               -- of the calendar, by which it goes
    is_pinned INTEGER NOT NULL,             -- it names this version; it does not follow the newest one
    mode TEXT NOT NULL CONSTRAINT blackout_mode CHECK (mode IN ('hold', 'skip')),
    note TEXT NOT NULL,
    made_by TEXT NOT NULL,
    since INTEGER NOT NULL,
    PRIMARY KEY (scope, name, tenant, calendar)
) STRICT, WITHOUT ROWID;
CREATE INDEX blackout_calendar ON blackout (tenant, calendar);
