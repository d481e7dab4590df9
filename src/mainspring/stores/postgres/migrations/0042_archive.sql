-- compatible_from: 0007
-- What was written of the history into the archive: a part is a file.

CREATE TABLE archive_part (
    day date NOT NULL,
    kind text NOT NULL,
    number integer NOT NULL,
    url text NOT NULL,
    rows bigint NOT NULL,
    sum_ids numeric NOT NULL,
    first_id bigint,
    last_id bigint,
    bytes bigint NOT NULL,
    digest bytea NOT NULL,
    state text NOT NULL,
    changed_at timestamptz NOT NULL,
    CONSTRAINT archive_part_pkey PRIMARY KEY (day, kind, number),
    CONSTRAINT archive_part_state CHECK (state IN ('WRITTEN', 'VERIFIED', 'DROPPED'))
);

-- The days that may be removed, and have not been yet.
CREATE INDEX archive_part_verified ON archive_part (day) WHERE state = 'VERIFIED';

-- Cuts the rows of a day, which lie in one table, into ranges of its pages.
CREATE FUNCTION outline_archive(kind text, day date, step bigint)
RETURNS TABLE (first bigint, until bigint) LANGUAGE plpgsql STABLE AS $$
DECLARE
    place regclass := to_regclass(quote_ident(kind || to_char(day, '"_"YYYYMMDD')));
BEGIN
    -- What no day is prepared for lies in the default partition. A day that was taken out is not read any more.
    IF place IS NULL OR NOT EXISTS (SELECT FROM pg_inherits WHERE inhparent = kind::regclass AND inhrelid = place) THEN
        place := (kind || '_default')::regclass;
    END IF;
    RETURN QUERY
    SELECT page, page + step FROM generate_series(
        0, pg_relation_size(place) / current_setting('block_size')::bigint - 1, step
    ) AS page;
END
$$;

-- Whether any row of a day is in the history, or in a table that was taken out of it and is not dropped yet.
CREATE FUNCTION holds_history(day date) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM unnest(ARRAY['run_history', 'attempt']) AS kind,
            unnest(ARRAY[kind, 'dropped_' || kind]) AS name
        WHERE to_regclass(quote_ident(name || to_char(day, '"_"YYYYMMDD'))) IS NOT NULL
    ) OR EXISTS (
        SELECT FROM run_history_default
        WHERE finished_at >= day::timestamp AT TIME ZONE 'UTC' AND finished_at < (day + 1)::timestamp AT TIME ZONE 'UTC'
    ) OR EXISTS (
        SELECT FROM attempt_default
        WHERE finished_at >= day::timestamp AT TIME ZONE 'UTC' AND finished_at < (day + 1)::timestamp AT TIME ZONE 'UTC'
    )
$$;
