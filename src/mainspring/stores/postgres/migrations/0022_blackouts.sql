-- compatible_from: 0007
-- Blackouts: a queue, a tenant or everything is paused while a calendar holds.
CREATE TABLE blackout (
    scope text NOT NULL,
    name text NOT NULL,                     -- of the queue or tenant; empty for everything
    tenant text NOT NULL,                   -- whose calendar it is
    calendar text NOT NULL,
    version integer NOT NULL,               -- of the calendar, by which it goes
    is_pinned boolean NOT NULL,             -- it names this version; it does not follow the newest one
    mode text NOT NULL,
    note text NOT NULL,
    made_by text NOT NULL,
    since timestamptz NOT NULL,
    CONSTRAINT blackout_pkey PRIMARY KEY (scope, name, tenant, calendar),
    CONSTRAINT blackout_scope CHECK (scope IN ('all', 'queue', 'tenant')),
    CONSTRAINT blackout_mode CHECK (mode IN ('hold', 'skip'))
);
CREATE INDEX blackout_calendar ON blackout (tenant, calendar);
