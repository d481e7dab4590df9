-- compatible_from: 0007
-- The audit: who changed what. One partition a month, as the history has one a day. Rows are not changed, but that a seal
-- may be set once; and not deleted before they are older than what is kept.

CREATE TABLE audit (
    id bigint GENERATED ALWAYS AS IDENTITY,
    at timestamptz NOT NULL,
    tenant text NOT NULL,
    actor text NOT NULL,
    actor_kind text NOT NULL,
    token text,
    address text,
    request_id text,
    -- The id of the operation.
    action text NOT NULL,
    subject_kind text NOT NULL,
    -- Empty if there are many; `after` has the first of them then.
    subject_id text NOT NULL,
    subject_name text,
    outcome text NOT NULL,
    before jsonb,
    after jsonb,
    seal bigint,
    PRIMARY KEY (id, at)
) PARTITION BY RANGE (at);
CREATE TABLE audit_default PARTITION OF audit DEFAULT;
CREATE INDEX audit_page ON audit (tenant, id);
CREATE INDEX audit_subject ON audit (subject_kind, subject_id, id);
CREATE INDEX audit_name ON audit (subject_kind, subject_name, id) WHERE subject_name IS NOT NULL;
CREATE INDEX audit_unsealed ON audit (id) WHERE seal IS NULL;
CREATE INDEX audit_sealed ON audit (seal, id) WHERE seal IS NOT NULL;

-- A chain of digests: each over the rest of its row, which has the digest before, and one of the entries as `content`.
CREATE TABLE audit_seal (
    id bigint NOT NULL,
    at timestamptz NOT NULL,
    entries integer NOT NULL,
    content bytea NOT NULL,
    digest bytea NOT NULL,
    previous bytea,
    CONSTRAINT audit_seal_pkey PRIMARY KEY (id)
);

-- Rows from before this instant may be deleted.
CREATE TABLE audit_horizon (
    id smallint NOT NULL,
    kept_from timestamptz NOT NULL,
    CONSTRAINT audit_horizon_pkey PRIMARY KEY (id),
    CONSTRAINT audit_horizon_single CHECK (id = 1)
);
INSERT INTO audit_horizon (id, kept_from) VALUES (1, 'epoch');

CREATE FUNCTION guard_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.at < (SELECT kept_from FROM audit_horizon) THEN
            RETURN OLD;
        END IF;
    ELSIF TG_OP = 'UPDATE' AND TG_TABLE_NAME <> 'audit_seal' THEN
        IF OLD.seal IS NULL AND NEW.seal IS NOT NULL AND to_jsonb(OLD) - 'seal' = to_jsonb(NEW) - 'seal' THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'the audit is only added to' USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER audit_guard BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION guard_audit();
CREATE TRIGGER audit_guard_whole BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION guard_audit();
-- A TRUNCATE of a partition asks only the triggers of the partition.
CREATE TRIGGER audit_guard_whole BEFORE TRUNCATE ON audit_default FOR EACH STATEMENT EXECUTE FUNCTION guard_audit();
CREATE TRIGGER audit_seal_guard BEFORE UPDATE OR DELETE ON audit_seal FOR EACH ROW EXECUTE FUNCTION guard_audit();
CREATE TRIGGER audit_seal_guard_whole BEFORE TRUNCATE ON audit_seal FOR EACH STATEMENT EXECUTE FUNCTION guard_audit();

-- The horizon only moves on, and stays a day behind the clock: that is the least that can be kept.
CREATE FUNCTION guard_audit_horizon() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.kept_from >= OLD.kept_from AND NEW.kept_from <= now() - interval '24 hours' THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'the audit is only added to' USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER audit_horizon_guard BEFORE INSERT OR UPDATE OR DELETE ON audit_horizon
FOR EACH ROW EXECUTE FUNCTION guard_audit_horizon();
CREATE TRIGGER audit_horizon_guard_whole BEFORE TRUNCATE ON audit_horizon
FOR EACH STATEMENT EXECUTE FUNCTION guard_audit_horizon();

-- Makes the partitions of this month and of the next ones.
CREATE FUNCTION prepare_audit(instant timestamptz, months integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    first timestamptz;
    last timestamptz;
    partition_name text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('mainspring.history', 0));
    -- Attaching waits for whoever uses the default partition, and others would queue up behind it: give up early.
    PERFORM set_config('lock_timeout', '1s', true);
    FOR month IN 0..months LOOP
        first := (date_trunc('month', instant AT TIME ZONE 'UTC') + make_interval(months => month)) AT TIME ZONE 'UTC';
        last := (date_trunc('month', instant AT TIME ZONE 'UTC') + make_interval(months => month + 1)) AT TIME ZONE 'UTC';
        partition_name := to_char(first AT TIME ZONE 'UTC', '"audit_"YYYYMM');
        CONTINUE WHEN to_regclass(quote_ident(partition_name)) IS NOT NULL;
        -- Rows of this month are in the default partition, so it takes the others, too.
        CONTINUE WHEN EXISTS (SELECT FROM audit_default WHERE at >= first AND at < last);
        BEGIN
            EXECUTE format('CREATE TABLE %I (LIKE audit INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', partition_name);
            EXECUTE format(
                'CREATE TRIGGER audit_guard_whole BEFORE TRUNCATE ON %I'
                ' FOR EACH STATEMENT EXECUTE FUNCTION guard_audit()',
                partition_name
            );
            EXECUTE format('ALTER TABLE audit ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', partition_name, first, last);
        EXCEPTION WHEN check_violation OR lock_not_available OR deadlock_detected THEN
            NULL; -- the default partition takes the rows; the next call tries again
        END;
    END LOOP;
END
$$;
SELECT prepare_audit(now(), 1);

-- Drops the months that ended at an instant or before it. Answers how many rows they had, by the statistics of their
-- tables, and 1 for one that has none. A month that somebody reads stays until the next call.
CREATE FUNCTION drop_audit(instant timestamptz) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    old record;
    removed bigint := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('mainspring.history', 0));
    PERFORM set_config('lock_timeout', '100ms', true);
    FOR old IN
        SELECT month.relname AS name, month.reltuples::bigint AS held
        FROM pg_inherits JOIN pg_class AS month ON month.oid = pg_inherits.inhrelid
        WHERE pg_inherits.inhparent = 'audit'::regclass AND month.relname ~ '^audit_[0-9]{6}$'
          AND (to_date(right(month.relname, 6), 'YYYYMM') + interval '1 month') AT TIME ZONE 'UTC' <= instant
        ORDER BY month.relname
    LOOP
        BEGIN
            EXECUTE format('DROP TABLE %I', old.name);
            removed := removed + greatest(old.held, 1);
        EXCEPTION WHEN lock_not_available OR deadlock_detected OR undefined_table THEN
            NULL;
        END;
    END LOOP;
    RETURN removed;
END
$$;
