-- compatible_from: 0007
-- What became of runs: by the minute, as each process has counted it, and by the hour, of all together.

CREATE TABLE usage_minute (
    at timestamptz NOT NULL,
    tenant text NOT NULL,
    queue text NOT NULL,
    process text NOT NULL,
    -- Counts, and times by bounds, as JSON.
    body text NOT NULL,
    CONSTRAINT usage_minute_pkey PRIMARY KEY (at, tenant, queue, process)
);

CREATE TABLE usage_hour (
    at timestamptz NOT NULL,
    tenant text NOT NULL,
    queue text NOT NULL,
    body text NOT NULL,
    CONSTRAINT usage_hour_pkey PRIMARY KEY (at, tenant, queue)
);
