-- compatible_from: 0007
-- How much may wait in queues and for tenants, how long, and how often tenants may submit.

ALTER TABLE queue ADD max_queued integer, ADD expires_after_ms bigint;

ALTER TABLE tenant
    ADD max_queued integer,
    ADD max_jobs integer,
    -- So many submissions in each submit_per_ms; NULL: as many as come.
    ADD submit_count integer,
    ADD submit_per_ms bigint,
    -- The permits for submissions at permits_at; NULL: as many as fit.
    ADD permits double precision,
    ADD permits_at timestamptz;
