-- compatible_from: 0007
-- What is in the store and not in the archive stays, whichever server would remove it.

-- Who writes into an archive says so there, by this; and where it writes, so that all servers keep what is not written.
ALTER TABLE cluster ADD COLUMN installation text;
ALTER TABLE cluster ADD COLUMN archive_url text;
UPDATE cluster SET installation = replace(gen_random_uuid()::text, '-', '');

-- Rows of a part's range that the archive had before, in other files.
ALTER TABLE archive_part ADD COLUMN known_rows bigint NOT NULL DEFAULT 0;
ALTER TABLE archive_part ADD COLUMN known_ids numeric NOT NULL DEFAULT 0;

-- Cuts pages of the table that holds a day into ranges of so many bytes, as they will be copied. A wide row counts more
-- often, as what makes a file holds thousands of rows at once. Sizes are read without the values that lie elsewhere.
CREATE FUNCTION cut_archive_pages(kind text, day date, page bigint, last bigint, most bigint, wide bigint, factor bigint)
RETURNS TABLE (first bigint, until bigint, bytes bigint) LANGUAGE plpgsql STABLE AS $$
DECLARE
    place regclass := to_regclass(quote_ident(kind || to_char(day, '"_"YYYYMMDD')));
    widths text := CASE kind WHEN 'run_history' THEN
        '2 * coalesce(octet_length(payload), 0) + 2 * coalesce(octet_length(result), 0) + coalesce(octet_length(reason), 0)'
        ELSE '0' END;
    asked text;
    span bigint := 512;
    weight bigint := 0;
    here_weight bigint;
    here_bytes bigint;
    following bigint;
BEGIN
    IF place IS NULL OR NOT EXISTS (SELECT FROM pg_inherits WHERE inhparent = kind::regclass AND inhrelid = place) THEN
        place := (kind || '_default')::regclass;
    END IF;
    asked := format(
        'SELECT coalesce(sum(CASE WHEN size > $3 THEN size * $4 ELSE size END), 0), coalesce(sum(size), 0) FROM ('
        ' SELECT 300 + coalesce(octet_length(error), 0) + coalesce(octet_length(output), 0) + %s AS size FROM %s'
        ' WHERE ctid >= $1 AND ctid < $2) AS found',
        widths, place
    );
    first := page;
    bytes := 0;
    WHILE page < last LOOP
        following := least(page + span, last);
        EXECUTE asked INTO here_weight, here_bytes
        USING ('(' || page || ',0)')::tid, ('(' || following || ',0)')::tid, wide, factor;
        IF here_weight > most AND span > 1 THEN
            span := greatest(span / 8, 1);
            CONTINUE;
        END IF;
        IF weight > 0 AND weight + here_weight > most THEN
            until := page;
            RETURN NEXT;
            first := page;
            weight := 0;
            bytes := 0;
        END IF;
        weight := weight + here_weight;
        bytes := bytes + here_bytes;
        page := following;
        span := least(span * 2, 512);
    END LOOP;
    until := last;
    RETURN NEXT;
END
$$;

-- What ends in a day that is in the archive, because the clock was set back, is in no file of it: the day gets files
-- once more, for what they do not have yet.
CREATE FUNCTION reopen_archive_day() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    ended date := (NEW.finished_at AT TIME ZONE 'UTC')::date;
BEGIN
    -- First the lock: then what follows sees what another one has just verified.
    PERFORM FROM archive_part WHERE archive_part.day = ended AND state <> 'DROPPED' FOR UPDATE;
    UPDATE archive_part SET state = 'DROPPED' WHERE archive_part.day = ended AND state = 'VERIFIED';
    DELETE FROM archive_part WHERE archive_part.day = ended AND state = 'WRITTEN';
    RETURN NULL;
END
$$;

CREATE TRIGGER reopens_archive_day AFTER INSERT ON run_history_default
FOR EACH ROW EXECUTE FUNCTION reopen_archive_day();
CREATE TRIGGER reopens_archive_day AFTER INSERT ON attempt_default
FOR EACH ROW EXECUTE FUNCTION reopen_archive_day();

-- From now on, what ends in a day is noticed. Only an old day gets this, so that ends of now take no longer.
CREATE FUNCTION watch_archive_day(day date) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    kind text;
    name text;
BEGIN
    PERFORM set_config('lock_timeout', '1s', true);
    FOREACH kind IN ARRAY ARRAY['run_history', 'attempt'] LOOP
        name := kind || to_char(day, '"_"YYYYMMDD');
        IF to_regclass(quote_ident(name)) IS NOT NULL AND NOT EXISTS (
            SELECT FROM pg_trigger
            WHERE tgrelid = to_regclass(quote_ident(name)) AND tgname = 'reopens_archive_day'
        ) THEN
            EXECUTE format(
                'CREATE TRIGGER reopens_archive_day AFTER INSERT ON %I FOR EACH ROW EXECUTE FUNCTION reopen_archive_day()',
                name
            );
        END IF;
    END LOOP;
END
$$;

-- Whether a day may be removed, as far as the archive goes.
CREATE FUNCTION may_drop_day(day date) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT (SELECT archive_url IS NULL FROM cluster) OR EXISTS (
        SELECT FROM archive_part WHERE archive_part.day = may_drop_day.day AND state = 'VERIFIED'
    )
$$;

-- As before; and a day that has rows, and is not in the archive, stays.
CREATE OR REPLACE FUNCTION detach_day(kind text, day date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    name text := kind || to_char(day, '"_"YYYYMMDD');
    holds boolean;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('mainspring.history', 0));
    PERFORM FROM census FOR SHARE; -- the tally stands still
    IF NOT EXISTS (
        SELECT FROM pg_inherits WHERE inhparent = kind::regclass AND inhrelid = to_regclass(quote_ident(name))
    ) THEN
        RETURN false;
    END IF;
    PERFORM set_config('lock_timeout', '100ms', true);
    -- Now nothing more ends in that day. Ends of now go to another table, and do not wait.
    EXECUTE format('LOCK TABLE %I IN SHARE ROW EXCLUSIVE MODE', name);
    EXECUTE format('SELECT EXISTS (SELECT FROM %I)', name) INTO holds;
    IF holds AND NOT may_drop_day(day) THEN
        RETURN false;
    END IF;
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
