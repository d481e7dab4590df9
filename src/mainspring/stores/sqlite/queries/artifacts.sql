-- The index of artifacts.

-- name: add_artifact
-- Only under the lease, and in place of one of the same name that is not ready.
INSERT INTO artifact (
    tenant, run_id, token, name, location, content_type, size, sha256, created_at, expires_at
)
SELECT
    :tenant, run.id, run.token, :name, :location, :content_type, :size, :digest, :now, :expiry_at
FROM run
WHERE
    run.id = :run_id AND run.token = :token AND run.session_id = :session_id
    AND (
        SELECT count(*) FROM artifact AS other
        WHERE other.run_id = :run_id AND other.token = :token AND other.name <> :name
    ) < :most
ON CONFLICT (run_id, token, name) DO UPDATE SET
    content_type = excluded.content_type, size = excluded.size, sha256 = excluded.sha256,
    expires_at = excluded.expires_at
WHERE NOT artifact.is_ready
RETURNING id;

-- name: explain_artifact
-- Why there is no room for one: the lease is gone, the name is taken, or there are too many.
SELECT
    EXISTS (
        SELECT 1 FROM run WHERE run.id = :run_id AND run.token = :token AND run.session_id = :session_id
    ) AS is_held,
    EXISTS (
        SELECT 1 FROM artifact
        WHERE artifact.run_id = :run_id AND artifact.token = :token AND artifact.name = :name AND artifact.is_ready
    ) AS is_taken;

-- name: finish_artifact
UPDATE artifact SET is_ready = 1, expires_at = :expiry_at
WHERE
    artifact.id = :artifact_id AND artifact.expires_at > :now AND NOT artifact.is_ready
    AND EXISTS (
        SELECT 1 FROM run
        WHERE run.id = artifact.run_id AND run.token = artifact.token AND run.session_id = :session_id
    )
RETURNING id;

-- name: get_artifact
SELECT {artifact.artifact_columns} FROM artifact WHERE artifact.id = :artifact_id;

-- name: list_artifacts
SELECT {artifact.artifact_columns} FROM artifact
WHERE artifact.run_id = :run_id AND artifact.token = :token AND artifact.name > :after AND artifact.is_ready
ORDER BY artifact.name
LIMIT :limit;

-- name: list_expired_artifacts
SELECT {artifact.artifact_columns} FROM artifact
WHERE artifact.expires_at < :before ORDER BY artifact.expires_at LIMIT :limit;

-- name: delete_artifacts
DELETE FROM artifact WHERE id IN (SELECT wanted.value FROM json_each(:artifact_ids) AS wanted) RETURNING id;
