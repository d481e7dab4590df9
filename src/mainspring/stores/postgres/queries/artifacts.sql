-- The index of artifacts.

-- name: add_artifact
-- Only under the lease, and in place of one of the same name that is not ready.
INSERT INTO artifact (
    tenant, run_id, token, name, location, content_type, size, sha256, created_at, expires_at
)
SELECT
    :tenant::text, run.id, run.token, :name::text, :location::text, :content_type::text, :size::bigint,
    :digest::bytea, :now::timestamptz, :expiry_at::timestamptz
FROM run
WHERE run.id = :run_id::bigint AND run.token = :token::integer AND run.session_id = :session_id::bigint
  AND (
    SELECT count(*) FROM artifact AS other
    WHERE other.run_id = :run_id AND other.token = :token AND other.name <> :name
) < :most::integer
ON CONFLICT (run_id, token, name) DO UPDATE SET
    content_type = excluded.content_type, size = excluded.size, sha256 = excluded.sha256,
    expires_at = excluded.expires_at
WHERE NOT artifact.is_ready
RETURNING id;

-- name: explain_artifact
-- Why there is no room for one: the lease is gone, the name is taken, or there are too many.
SELECT EXISTS (
    SELECT FROM run
    WHERE run.id = :run_id::bigint AND run.token = :token::integer AND run.session_id = :session_id::bigint
) AS is_held, EXISTS (
    SELECT FROM artifact
    WHERE artifact.run_id = :run_id AND artifact.token = :token AND artifact.name = :name::text AND artifact.is_ready
) AS is_taken;

-- name: finish_artifact
UPDATE artifact SET is_ready = true, expires_at = :expiry_at::timestamptz
WHERE artifact.id = :artifact_id::bigint AND artifact.expires_at > :now::timestamptz AND NOT artifact.is_ready
  AND EXISTS (
    SELECT FROM run
    WHERE run.id = artifact.run_id AND run.token = artifact.token AND run.session_id = :session_id::bigint
)
RETURNING id;

-- name: get_artifact
SELECT {artifact.artifact_columns} FROM artifact WHERE artifact.id = :artifact_id::bigint;

-- name: list_artifacts
SELECT {artifact.artifact_columns} FROM artifact
WHERE artifact.run_id = :run_id::bigint AND artifact.token = :token::integer AND artifact.name > :after::text
  AND artifact.is_ready
ORDER BY artifact.name
LIMIT :limit::integer;

-- name: list_expired_artifacts
SELECT {artifact.artifact_columns} FROM artifact
WHERE artifact.expires_at < :before::timestamptz ORDER BY artifact.expires_at LIMIT :limit::integer;

-- name: delete_artifacts
DELETE FROM artifact WHERE id = ANY(:artifact_ids::bigint[]) RETURNING id;
