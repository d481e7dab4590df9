-- compatible_from: 0007
-- Counts of ended runs are kept, and a census of all is stored (ADR 0038).

-- What ended lately is found by the blocks that hold it: a B-tree would cost every run more than this index's entry.
CREATE INDEX run_history_finished ON run_history USING brin (finished_at) WITH (pages_per_range = 64, autosummarize = on);
CREATE INDEX dead_run_finished ON dead_run (finished_at);

-- Lists of what was cancelled or skipped, which most runs are not: they pay nothing for it.
CREATE INDEX run_history_unusual ON run_history (state, id) WHERE state <> 'SUCCEEDED';

-- What ended before census.settled_before, by the day (of UTC) on which it ended.
CREATE TABLE run_tally (
    tenant text NOT NULL,
    day date NOT NULL,
    state text NOT NULL,
    runs bigint NOT NULL,
    PRIMARY KEY (tenant, day, state)
);

CREATE TABLE census (
    id smallint PRIMARY KEY CONSTRAINT census_is_one CHECK (id = 1),
    settled_before timestamptz NOT NULL,
    body text
);

-- Five minutes short of the last end, because something may still be committed late.
INSERT INTO census (id, settled_before)
SELECT 1, coalesce(max(finished_at) - interval '5 minutes', '1970-01-01 00:00Z') FROM (
    SELECT max(finished_at) AS finished_at FROM run_history UNION ALL SELECT max(finished_at) FROM dead_run
) AS ended;
INSERT INTO run_tally (tenant, day, state, runs)
SELECT tenant, (finished_at AT TIME ZONE 'UTC')::date, state, count(*)
FROM (SELECT tenant, state, finished_at FROM run_history UNION ALL SELECT tenant, state, finished_at FROM dead_run) AS ended
WHERE finished_at < (SELECT settled_before FROM census)
GROUP BY 1, 2, 3;

-- As before, and takes the day that it drops off the tally.
CREATE OR REPLACE FUNCTION drop_history(instant timestamptz) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    old record;
    held bigint;
    kept bigint;
    removed bigint := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('mainspring.history', 0));
    PERFORM FROM census FOR SHARE; -- the tally stands still
    PERFORM set_config('lock_timeout', '1s', true);
    FOR old IN
        SELECT child.relname AS name, parent.relname AS parent
        FROM pg_inherits
        JOIN pg_class AS child ON child.oid = pg_inherits.inhrelid
        JOIN pg_class AS parent ON parent.oid = pg_inherits.inhparent
        WHERE parent.oid IN ('run_history'::regclass, 'attempt'::regclass)
          AND child.relname ~ '_[0-9]{8}$'
          AND (to_date(right(child.relname, 8), 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC' <= instant
        ORDER BY parent.relname, child.relname
    LOOP
        BEGIN
            kept := 0;
            EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', old.parent, old.name);
            IF old.parent = 'attempt' THEN
                EXECUTE format(
                    'INSERT INTO attempt SELECT * FROM %I AS old WHERE EXISTS (SELECT FROM dead_run WHERE id = old.run_id)'
                    ' OR EXISTS (SELECT FROM run WHERE id = old.run_id)', old.name);
                GET DIAGNOSTICS kept = ROW_COUNT;
            END IF;
            EXECUTE format('SELECT count(*) FROM %I', old.name) INTO held;
            EXECUTE format('DROP TABLE %I', old.name);
            IF old.parent = 'run_history' THEN
                DELETE FROM run_tally WHERE day = to_date(right(old.name, 8), 'YYYYMMDD') AND state <> 'FAILED';
            END IF;
            removed := removed + held - kept;
        EXCEPTION WHEN lock_not_available OR deadlock_detected OR undefined_table THEN
            NULL; -- somebody reads it; the next call tries again
        END;
    END LOOP;
    RETURN removed;
END
$$;
