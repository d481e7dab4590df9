-- The audit.

-- name: insert_audit
INSERT INTO audit (
    at, tenant, actor, actor_kind, token, address, request_id, action, subject_kind, subject_id, subject_name,
    outcome, before, after
)
SELECT
    at, tenant, actor, actor_kind, token, address, request_id, action, subject_kind, subject_id, subject_name,
    outcome, before, after
FROM jsonb_to_recordset(:entries::jsonb) AS entry (
    at timestamptz, tenant text, actor text, actor_kind text, token text, address text, request_id text,
    action text, subject_kind text, subject_id text, subject_name text, outcome text, before jsonb, after jsonb
);

-- name: list_audit
SELECT {audit.audit_columns} FROM audit
WHERE audit.id < :under AND (:subject_kind::text IS NULL OR audit.subject_kind = :subject_kind) AND {is_audit_wanted}
ORDER BY audit.id DESC LIMIT :limit;

-- name: list_audit_of_tenant
SELECT {audit.audit_columns} FROM audit
WHERE audit.tenant = :tenant AND audit.id < :under
  AND (:subject_kind::text IS NULL OR audit.subject_kind = :subject_kind) AND {is_audit_wanted}
ORDER BY audit.id DESC LIMIT :limit;

-- name: list_audit_of_subject
-- By its id, also among many things at once if it is one of the first of them; and by its name.
SELECT {audit.audit_columns} FROM (
    (
        SELECT * FROM audit
        WHERE audit.subject_kind = :subject_kind AND audit.subject_id = :subject_id AND audit.id < :under
          AND (:tenant::text IS NULL OR audit.tenant = :tenant) AND {is_audit_wanted}
        ORDER BY audit.id DESC LIMIT :limit
    ) UNION ALL (
        SELECT * FROM audit
        WHERE audit.subject_kind = :subject_kind AND audit.subject_id = '' AND audit.id < :under
          AND (audit.after -> 'ids') @> to_jsonb(:subject_id::text)
          AND (:tenant::text IS NULL OR audit.tenant = :tenant) AND {is_audit_wanted}
        ORDER BY audit.id DESC LIMIT :limit
    ) UNION ALL (
        SELECT * FROM audit
        WHERE audit.subject_kind = :subject_kind AND audit.subject_name = :subject_name AND audit.id < :under
          AND (:subject_id::text IS NULL OR audit.subject_id <> :subject_id)
          AND (:tenant::text IS NULL OR audit.tenant = :tenant) AND {is_audit_wanted}
        ORDER BY audit.id DESC LIMIT :limit
    )
) AS audit
ORDER BY audit.id DESC LIMIT :limit;

-- name: raise_audit_horizon
-- A trigger keeps it a day behind the clock.
UPDATE audit_horizon SET kept_from = least(:before, now() - interval '24 hours')
WHERE kept_from < least(:before, now() - interval '24 hours');

-- name: drop_audit
SELECT drop_audit(:before::timestamptz) AS removed;

-- name: prune_audit
-- Removes rows outside the partitions of months.
DELETE FROM audit_default WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM audit_default WHERE at < :before LIMIT :limit FOR UPDATE SKIP LOCKED
));

-- name: list_unsealed
SELECT {audit.audit_columns} FROM audit WHERE audit.seal IS NULL ORDER BY audit.id LIMIT :limit;

-- name: read_last_seal
SELECT {seal_columns} FROM audit_seal ORDER BY audit_seal.id DESC LIMIT 1;

-- name: add_seal
INSERT INTO audit_seal ({seal_columns}) VALUES (:seal_id, :at, :count, :content, :digest, :previous);

-- name: set_seals
UPDATE audit SET seal = :seal_id WHERE id = ANY(:ids::bigint[]) AND seal IS NULL;

-- name: list_seals
SELECT {seal_columns} FROM audit_seal WHERE audit_seal.id > :after ORDER BY audit_seal.id LIMIT :limit;

-- name: list_sealed
SELECT {audit.audit_columns} FROM audit WHERE audit.seal = :seal_id ORDER BY audit.id;

-- name: find_stray_entry
SELECT {audit.audit_columns} FROM (
    (
        SELECT * FROM audit
        WHERE audit.seal > (SELECT coalesce(max(audit_seal.id), 0) FROM audit_seal)
        ORDER BY audit.seal, audit.id LIMIT 1
    ) UNION ALL (
        SELECT * FROM audit
        WHERE audit.seal < (SELECT coalesce(min(audit_seal.id), 1) FROM audit_seal) AND audit.at >= :since
        ORDER BY audit.seal, audit.id LIMIT 1
    )
) AS audit
LIMIT 1;

-- name: read_audit_horizon
-- Whatever was written into it, it is an instant that we can read.
SELECT least(greatest((SELECT min(audit_horizon.kept_from) FROM audit_horizon), 'epoch'), '9000-01-01 00:00:00Z')
AS kept_from;

-- name: prune_seals
-- The newest one of those from before the instant stays: the chain begins with it.
DELETE FROM audit_seal
WHERE at < :before AND id IN (SELECT oldest.id FROM audit_seal AS oldest ORDER BY oldest.id LIMIT :limit)
  AND (
    SELECT following.at FROM audit_seal AS following
    WHERE following.id > audit_seal.id ORDER BY following.id LIMIT 1
  ) < :before;
