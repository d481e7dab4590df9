-- compatible_from: 0007
-- Events, and which jobs they start. The days of events are dropped whole.

CREATE TABLE event (
    number bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    tenant text NOT NULL,
    id text NOT NULL,
    topic text NOT NULL,
    -- Null: nobody says what it has happened to.
    key text,
    data bytea,
    received_at timestamptz NOT NULL
) PARTITION BY RANGE (received_at);
CREATE TABLE event_default PARTITION OF event DEFAULT;
CREATE INDEX event_tenant ON event (tenant, number);
CREATE INDEX event_topic ON event (tenant, topic, number);

-- Jobs that a happening starts. They come from definitions.
CREATE TABLE listener (
    job_id uuid NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    tenant text NOT NULL,
    CONSTRAINT listener_pkey PRIMARY KEY (job_id),
    CONSTRAINT listener_kind CHECK (kind = 'topic')
);
CREATE INDEX listener_name ON listener (tenant, kind, name, job_id);

-- As `prepare_run_logs`, for events. `LIKE` leaves the identity out: numbers come with the rows of the parent.
CREATE FUNCTION prepare_events(instant timestamptz, days integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    first timestamptz;
    partition_name text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('mainspring.history', 0));
    PERFORM set_config('lock_timeout', '1s', true);
    FOR day IN 0..days LOOP
        first := (date_trunc('day', instant AT TIME ZONE 'UTC') + make_interval(days => day)) AT TIME ZONE 'UTC';
        partition_name := 'event' || to_char(first AT TIME ZONE 'UTC', '"_"YYYYMMDD');
        CONTINUE WHEN to_regclass(quote_ident(partition_name)) IS NOT NULL;
        BEGIN
            EXECUTE format('CREATE TABLE %I (LIKE event INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE)',
                partition_name);
            EXECUTE format('ALTER TABLE event ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', partition_name,
                first, first + interval '1 day');
        EXCEPTION WHEN check_violation OR lock_not_available OR deadlock_detected THEN
            NULL; -- the default partition takes the rows; the next call tries again
        END;
    END LOOP;
END
$$;

-- As `detach_log_day`.
CREATE FUNCTION detach_event_day(day date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    name text := 'event' || to_char(day, '"_"YYYYMMDD');
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('mainspring.history', 0));
    IF NOT EXISTS (
        SELECT FROM pg_inherits WHERE inhparent = 'event'::regclass AND inhrelid = to_regclass(quote_ident(name))
    ) THEN
        RETURN false;
    END IF;
    PERFORM set_config('lock_timeout', '100ms', true);
    EXECUTE format('ALTER TABLE event DETACH PARTITION %I', name);
    EXECUTE format('ALTER TABLE %I RENAME TO %I', name, 'dropped_' || name);
    RETURN true;
EXCEPTION WHEN lock_not_available OR deadlock_detected OR undefined_table THEN
    RETURN false;
END
$$;

-- As before, for events, too.
CREATE OR REPLACE FUNCTION drop_day(name text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    held bigint;
BEGIN
    ASSERT name ~ '^dropped_(run_history|attempt|log_chunk|event)_[0-9]{8}$';
    PERFORM set_config('lock_timeout', '1s', true);
    SELECT reltuples::bigint INTO held FROM pg_class WHERE oid = to_regclass(quote_ident(name));
    EXECUTE format('DROP TABLE %I', name);
    RETURN greatest(held, 1);
EXCEPTION WHEN lock_not_available OR deadlock_detected OR undefined_table THEN
    RETURN 0;
END
$$;
