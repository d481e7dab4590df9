-- compatible_from: 0007
-- What attempts write while they run. Its days are dropped whole, before those of the history.

CREATE TABLE log_chunk (
    run_id bigint NOT NULL,
    token integer NOT NULL,
    -- Its place: how many bytes the attempt had written before it.
    start bigint NOT NULL,
    -- Before it was deflated.
    size integer NOT NULL,
    at timestamptz NOT NULL,
    data bytea NOT NULL
) PARTITION BY RANGE (at);
-- It is compressed already: to try again would take more time than all the rest.
ALTER TABLE log_chunk ALTER data SET STORAGE EXTERNAL;
CREATE TABLE log_chunk_default PARTITION OF log_chunk DEFAULT;
ALTER TABLE log_chunk_default ALTER data SET STORAGE EXTERNAL;
CREATE INDEX log_chunk_run ON log_chunk (run_id, token, start);

CREATE TABLE run_progress (
    run_id bigint NOT NULL,
    token integer NOT NULL,
    done double precision NOT NULL,
    total double precision,
    message text,
    at timestamptz NOT NULL,
    CONSTRAINT run_progress_pkey PRIMARY KEY (run_id)
) WITH (fillfactor = 50);

-- As `prepare_history`, for what attempts write.
CREATE FUNCTION prepare_run_logs(instant timestamptz, days integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    first timestamptz;
    partition_name text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('mainspring.history', 0));
    PERFORM set_config('lock_timeout', '1s', true);
    FOR day IN 0..days LOOP
        first := (date_trunc('day', instant AT TIME ZONE 'UTC') + make_interval(days => day)) AT TIME ZONE 'UTC';
        partition_name := 'log_chunk' || to_char(first AT TIME ZONE 'UTC', '"_"YYYYMMDD');
        CONTINUE WHEN to_regclass(quote_ident(partition_name)) IS NOT NULL;
        BEGIN
            EXECUTE format('CREATE TABLE %I (LIKE log_chunk INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE)',
                partition_name);
            EXECUTE format('ALTER TABLE log_chunk ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', partition_name,
                first, first + interval '1 day');
        EXCEPTION WHEN check_violation OR lock_not_available OR deadlock_detected THEN
            NULL; -- the default partition takes the rows; the next call tries again
        END;
    END LOOP;
END
$$;

-- As `detach_day`. What attempts wrote is in no archive, and on no tally.
CREATE FUNCTION detach_log_day(day date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    name text := 'log_chunk' || to_char(day, '"_"YYYYMMDD');
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('mainspring.history', 0));
    IF NOT EXISTS (
        SELECT FROM pg_inherits WHERE inhparent = 'log_chunk'::regclass AND inhrelid = to_regclass(quote_ident(name))
    ) THEN
        RETURN false;
    END IF;
    PERFORM set_config('lock_timeout', '100ms', true);
    EXECUTE format('ALTER TABLE log_chunk DETACH PARTITION %I', name);
    EXECUTE format('ALTER TABLE %I RENAME TO %I', name, 'dropped_' || name);
    RETURN true;
EXCEPTION WHEN lock_not_available OR deadlock_detected OR undefined_table THEN
    RETURN false;
END
$$;

-- As before, for what attempts wrote, too.
CREATE OR REPLACE FUNCTION drop_day(name text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    held bigint;
BEGIN
    ASSERT name ~ '^dropped_(run_history|attempt|log_chunk)_[0-9]{8}$';
    PERFORM set_config('lock_timeout', '1s', true);
    SELECT reltuples::bigint INTO held FROM pg_class WHERE oid = to_regclass(quote_ident(name));
    EXECUTE format('DROP TABLE %I', name);
    RETURN greatest(held, 1);
EXCEPTION WHEN lock_not_available OR deadlock_detected OR undefined_table THEN
    RETURN 0;
END
$$;
