-- The audit.

-- name: insert_audit
INSERT INTO audit (
    at, tenant, actor, actor_kind, token, address, request_id, action, subject_kind, subject_id, subject_name,
    outcome, before, after
)
SELECT
    json_extract(value, '$.at'), json_extract(value, '$.tenant'), json_extract(value, '$.actor'),
    json_extract(value, '$.actor_kind'), json_extract(value, '$.token'), json_extract(value, '$.address'),
    json_extract(value, '$.request_id'), json_extract(value, '$.action'), json_extract(value, '$.subject_kind'),
    json_extract(value, '$.subject_id'), json_extract(value, '$.subject_name'), json_extract(value, '$.outcome'),
    json_extract(value, '$.before'), json_extract(value, '$.after')
FROM json_each(:entries);

-- name: list_audit
SELECT {audit.audit_columns} FROM audit NOT INDEXED
WHERE audit.id < :under AND (:subject_kind IS NULL OR audit.subject_kind = :subject_kind) AND {is_audit_wanted}
ORDER BY audit.id DESC LIMIT :limit;

-- name: list_audit_of_tenant
SELECT {audit.audit_columns} FROM audit INDEXED BY audit_page
WHERE audit.tenant = :tenant AND audit.id < :under
  AND (:subject_kind IS NULL OR audit.subject_kind = :subject_kind) AND {is_audit_wanted}
ORDER BY audit.id DESC LIMIT :limit;

-- name: list_audit_of_subject
-- By its id, also among many things at once if it is one of the first of them; and by its name.
SELECT {audit.audit_columns} FROM (
    SELECT * FROM (
        SELECT * FROM audit INDEXED BY audit_subject
        WHERE audit.subject_kind = :subject_kind AND audit.subject_id = :subject_id AND audit.id < :under
          AND (:tenant IS NULL OR audit.tenant = :tenant) AND {is_audit_wanted}
        ORDER BY audit.id DESC LIMIT :limit
    )
    UNION ALL
    SELECT * FROM (
        SELECT * FROM audit INDEXED BY audit_subject
        WHERE audit.subject_kind = :subject_kind AND audit.subject_id = '' AND audit.id < :under
          AND EXISTS (SELECT 1 FROM json_each(audit.after, '$.ids') AS one WHERE one.value = :subject_id)
          AND (:tenant IS NULL OR audit.tenant = :tenant) AND {is_audit_wanted}
        ORDER BY audit.id DESC LIMIT :limit
    )
    UNION ALL
    SELECT * FROM (
        SELECT * FROM audit INDEXED BY audit_name
        WHERE audit.subject_kind = :subject_kind AND audit.subject_name = :subject_name AND audit.id < :under
          AND (:subject_id IS NULL OR audit.subject_id <> :subject_id)
          AND (:tenant IS NULL OR audit.tenant = :tenant) AND {is_audit_wanted}
        ORDER BY audit.id DESC LIMIT :limit
    )
) AS audit
ORDER BY audit.id DESC LIMIT :limit;

-- name: raise_audit_horizon
-- A trigger keeps it a day behind the clock.
UPDATE audit_horizon SET kept_from = min(:before, (unixepoch() - 86400) * 1000000)
WHERE kept_from < min(:before, (unixepoch() - 86400) * 1000000);

-- name: prune_audit
-- Ids and instants grow alike, but for rows that are written at the same time: the oldest rows are looked at.
DELETE FROM audit
WHERE at < :before AND id IN (SELECT oldest.id FROM audit AS oldest ORDER BY oldest.id LIMIT :limit);

-- name: list_unsealed
SELECT {audit.audit_columns} FROM audit INDEXED BY audit_unsealed WHERE audit.seal IS NULL ORDER BY audit.id LIMIT :limit;

-- name: read_last_seal
SELECT {seal_columns} FROM audit_seal ORDER BY audit_seal.id DESC LIMIT 1;

-- name: add_seal
INSERT INTO audit_seal ({seal_columns}) VALUES (:seal_id, :at, :count, :content, :digest, :previous);

-- name: set_seals
UPDATE audit SET seal = :seal_id WHERE id IN (SELECT value FROM json_each(:ids)) AND seal IS NULL;

-- name: list_seals
SELECT {seal_columns} FROM audit_seal WHERE audit_seal.id > :after ORDER BY audit_seal.id LIMIT :limit;

-- name: list_sealed
SELECT {audit.audit_columns} FROM audit INDEXED BY audit_sealed WHERE audit.seal = :seal_id ORDER BY audit.id;

-- name: find_stray_entry
SELECT {audit.audit_columns} FROM (
    SELECT * FROM (
        SELECT * FROM audit INDEXED BY audit_sealed
        WHERE audit.seal > (SELECT coalesce(max(audit_seal.id), 0) FROM audit_seal)
        ORDER BY audit.seal, audit.id LIMIT 1
    )
    UNION ALL
    SELECT * FROM (
        SELECT * FROM audit INDEXED BY audit_sealed
        WHERE audit.seal < (SELECT coalesce(min(audit_seal.id), 1) FROM audit_seal) AND audit.at >= :since
        ORDER BY audit.seal, audit.id LIMIT 1
    )
) AS audit
LIMIT 1;

-- name: read_audit_horizon
-- Whatever was written into it, it is an instant that we can read.
SELECT min(max(coalesce((SELECT min(audit_horizon.kept_from) FROM audit_horizon), 0), 0), 221845392000000000)
AS kept_from;

-- name: prune_seals
-- The newest one of those from before the instant stays: the chain begins with it.
DELETE FROM audit_seal
WHERE at < :before AND id IN (SELECT oldest.id FROM audit_seal AS oldest ORDER BY oldest.id LIMIT :limit)
  AND (
    SELECT following.at FROM audit_seal AS following
    WHERE following.id > audit_seal.id ORDER BY following.id LIMIT 1
  ) < :before;
