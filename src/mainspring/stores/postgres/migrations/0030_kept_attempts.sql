-- compatible_from: 0007
-- Attempts that stay longer than the rest of their day, those of dead and of live runs, have a table of their own. So a
-- day leaves the history in a moment: it is detached in one short transaction, and dropped in another (ADR 0061). Servers of earlier releases go on with drop_history.

CREATE TABLE kept_attempt (
    run_id bigint NOT NULL,
    token integer NOT NULL,
    number integer NOT NULL,
    outcome text NOT NULL,
    worker text NOT NULL,
    host text,
    started_at timestamptz NOT NULL,
    finished_at timestamptz NOT NULL,
    error text,
    output text,
    is_of_live boolean NOT NULL,
    PRIMARY KEY (run_id, token)
);

-- Those that may have to go when their run ends. Attempts of a dead run go with it.
CREATE INDEX kept_attempt_live ON kept_attempt (run_id) WHERE is_of_live;

-- Looks at the next attempts of a day, and copies what stays longer. Answers the last that it has looked at.
CREATE FUNCTION keep_attempts(day date, after_run bigint, after_token integer, most integer)
RETURNS TABLE (run_id bigint, token integer) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE format(
        'WITH seen AS MATERIALIZED ('
        '    SELECT * FROM %I AS old WHERE (old.run_id, old.token) > ($1, $2) ORDER BY old.run_id, old.token LIMIT $3'
        '), kept AS ('
        '    INSERT INTO kept_attempt ('
        '        run_id, token, number, outcome, worker, host, started_at, finished_at, error, output, is_of_live'
        '    )'
        '    SELECT seen.run_id, seen.token, number, outcome, worker, host, started_at, finished_at, error, output, is_live'
        '    FROM seen CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM run WHERE run.id = seen.run_id) AS is_live) AS found'
        '    WHERE is_live OR EXISTS (SELECT FROM dead_run WHERE dead_run.id = seen.run_id)'
        '    ON CONFLICT DO NOTHING'
        ') SELECT seen.run_id, seen.token FROM seen ORDER BY seen.run_id DESC, seen.token DESC LIMIT 1',
        to_char(day, '"attempt_"YYYYMMDD')
    ) USING after_run, after_token, most;
EXCEPTION WHEN undefined_table THEN
    NULL; -- another node has dropped the day
END
$$;

-- Takes a day out of the history and off the tally, so that it can be dropped. Whoever comes while this waits for a
-- reader of the day waits with it, so it gives up early, and answers whether it was done.
CREATE FUNCTION detach_day(kind text, day date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    name text := kind || to_char(day, '"_"YYYYMMDD');
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('mainspring.history', 0));
    PERFORM FROM census FOR SHARE; -- the tally stands still
    IF NOT EXISTS (
        SELECT FROM pg_inherits WHERE inhparent = kind::regclass AND inhrelid = to_regclass(quote_ident(name))
    ) THEN
        RETURN false;
    END IF;
    PERFORM set_config('lock_timeout', '100ms', true);
    EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', kind, name);
    EXECUTE format('ALTER TABLE %I RENAME TO %I', name, 'dropped_' || name);
    IF kind = 'run_history' THEN
        DELETE FROM run_tally WHERE run_tally.day = detach_day.day AND state <> 'FAILED';
    END IF;
    RETURN true;
EXCEPTION WHEN lock_not_available OR deadlock_detected OR undefined_table THEN
    RETURN false;
END
$$;

-- Drops a day that was detached. Answers how many rows it had, by the statistics of its table, and 1 if it has none.
CREATE FUNCTION drop_day(name text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    held bigint;
BEGIN
    ASSERT name ~ '^dropped_(run_history|attempt)_[0-9]{8}$';
    PERFORM set_config('lock_timeout', '1s', true);
    SELECT reltuples::bigint INTO held FROM pg_class WHERE oid = to_regclass(quote_ident(name));
    EXECUTE format('DROP TABLE %I', name);
    RETURN greatest(held, 1);
EXCEPTION WHEN lock_not_available OR deadlock_detected OR undefined_table THEN
    RETURN 0;
END
$$;
