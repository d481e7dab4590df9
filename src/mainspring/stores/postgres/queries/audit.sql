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
UPDATE audit_horizon SET kept_from = :before WHERE kept_from < :before;

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
INSERT INTO audit_seal ({seal_columns}) VALUES (:seal_id, :now, :count, :digest, :previous);

-- name: set_seals
UPDATE audit SET seal = :seal_id WHERE id = ANY(:ids::bigint[]) AND seal IS NULL;

-- name: list_seals
SELECT {seal_columns} FROM audit_seal WHERE audit_seal.id > :after ORDER BY audit_seal.id LIMIT :limit;

-- name: list_sealed
SELECT {audit.audit_columns} FROM audit WHERE audit.seal = :seal_id ORDER BY audit.id;

-- name: read_audit_horizon
SELECT kept_from FROM audit_horizon;

-- name: prune_seals
-- The newest one stays: the next one follows it.
DELETE FROM audit_seal
WHERE at < :before AND id < (SELECT max(newest.id) FROM audit_seal AS newest)
  AND id IN (SELECT oldest.id FROM audit_seal AS oldest ORDER BY oldest.id LIMIT :limit);
