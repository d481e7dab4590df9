-- compatible_from: 0007
-- Stores without an archive pay nothing for one. Ends go to the default partition until their day has one of its own, so
-- a trigger there took a sixth of what a young store could end. It comes with the first day that is archived.

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM archive_part) THEN
        DROP TRIGGER reopens_archive_day ON run_history_default;
        DROP TRIGGER reopens_archive_day ON attempt_default;
    END IF;
END
$$;

-- As before; and what ends in a day without a table of its own is noticed, too.
CREATE OR REPLACE FUNCTION watch_archive_day(day date) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    kind text;
    name text;
BEGIN
    PERFORM set_config('lock_timeout', '1s', true);
    FOREACH kind IN ARRAY ARRAY['run_history', 'attempt'] LOOP
        FOREACH name IN ARRAY ARRAY[kind || to_char(day, '"_"YYYYMMDD'), kind || '_default'] LOOP
            IF to_regclass(quote_ident(name)) IS NOT NULL AND NOT EXISTS (
                SELECT FROM pg_trigger
                WHERE tgrelid = to_regclass(quote_ident(name)) AND tgname = 'reopens_archive_day'
            ) THEN
                EXECUTE format(
                    'CREATE TRIGGER reopens_archive_day AFTER INSERT ON %I'
                    ' FOR EACH ROW EXECUTE FUNCTION reopen_archive_day()',
                    name
                );
            END IF;
        END LOOP;
    END LOOP;
END
$$;
