-- Keys of what runs once. Nothing is written when a run ends: a key whose run is gone from `run` is void.

-- name: take_unique_keys
-- In order of key, so that two callers cannot deadlock. It takes what is free, and waits for others who take the same.
INSERT INTO run_unique (tenant, job_id, key, run_id, expires_at)
SELECT wanted.tenant, wanted.job_id, wanted.key, wanted.run_id, wanted.expires_at
FROM unnest(
    :tenants::text[], :job_ids::uuid[], :unique_keys::bytea[], :run_ids::bigint[], :expiries_at::timestamptz[]
) AS wanted (tenant, job_id, key, run_id, expires_at)
ON CONFLICT (tenant, job_id, key) DO NOTHING
RETURNING tenant, job_id, key;

-- name: lock_unique_keys
-- The keys that others have taken, in order. Their holders are locked by the next statement: in one statement, a holder
-- that was put there while this one waited would not be seen, and there were two.
SELECT held.tenant, held.job_id, held.key, held.run_id, held.expires_at
FROM unnest(:tenants::text[], :job_ids::uuid[], :unique_keys::bytea[]) AS wanted (tenant, job_id, key)
CROSS JOIN LATERAL (
    SELECT * FROM run_unique
    WHERE run_unique.tenant = wanted.tenant AND run_unique.job_id = wanted.job_id AND run_unique.key = wanted.key
    FOR UPDATE
) AS held;

-- name: lock_holders
-- The ids are sorted (law 6). A claim passes over a locked run, and takes it when this transaction has ended.
SELECT run.id, run.state, run.ready_at, run.created_at, run.expires_at
FROM unnest(:run_ids::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM run WHERE run.id = wanted.id FOR NO KEY UPDATE) AS run;

-- name: pass_unique_keys
-- Gives keys that are locked to other runs, or for another time. Written so that the primary key is always used.
INSERT INTO run_unique (tenant, job_id, key, run_id, expires_at)
SELECT wanted.tenant, wanted.job_id, wanted.key, wanted.run_id, wanted.expires_at
FROM unnest(
    :tenants::text[], :job_ids::uuid[], :unique_keys::bytea[], :run_ids::bigint[], :expiries_at::timestamptz[]
) AS wanted (tenant, job_id, key, run_id, expires_at)
ON CONFLICT (tenant, job_id, key) DO UPDATE SET run_id = excluded.run_id, expires_at = excluded.expires_at;

-- name: replace_waiting
-- The runs are locked. A debounced run is only put off, so no reader that begins at an older `ready_at` misses it. When
-- it was due stays as it is once it was started.
UPDATE run SET
    payload = (:payloads::bytea[])[width_bucket(run.id, :run_ids::bigint[])],
    ready_at = run.ready_at
        + (:shifts::bigint[])[width_bucket(run.id, :run_ids::bigint[])] * interval '1 microsecond',
    due_at = run.due_at + CASE WHEN run.token = 0 THEN
        (:shifts::bigint[])[width_bucket(run.id, :run_ids::bigint[])] * interval '1 microsecond'
    ELSE interval '0' END,
    expires_at = run.expires_at
        + (:shifts::bigint[])[width_bucket(run.id, :run_ids::bigint[])] * interval '1 microsecond'
WHERE run.id = ANY(:run_ids::bigint[]) AND run.session_id IS NULL;

-- name: settle_keys
-- Says of idempotency keys that this transaction has reserved which run they stand for after all.
INSERT INTO idempotency (tenant, key, run_id, request_hash, expires_at, verdict)
SELECT settled.tenant, settled.key, settled.run_id, settled.request_hash, settled.expires_at, settled.verdict
FROM unnest(
    :tenants::text[], :keys::text[], :run_ids::bigint[], :request_hashes::bytea[], :expiries_at::timestamptz[],
    :verdicts::text[]
) AS settled (tenant, key, run_id, request_hash, expires_at, verdict)
ON CONFLICT (tenant, key) DO UPDATE SET
    run_id = excluded.run_id, request_hash = excluded.request_hash, expires_at = excluded.expires_at,
    verdict = excluded.verdict;

-- name: release_keys
-- Idempotency keys that this transaction has reserved for submissions that were rejected.
DELETE FROM idempotency WHERE ctid = ANY(ARRAY(
    SELECT known.ctid
    FROM unnest(:tenants::text[], :keys::text[]) AS wanted (tenant, key)
    CROSS JOIN LATERAL (
        SELECT idempotency.ctid FROM idempotency
        WHERE idempotency.tenant = wanted.tenant AND idempotency.key = wanted.key
        LIMIT 1
    ) AS known
));

-- name: find_unique_keys
-- LIMIT 1 keeps the planner from hashing all runs.
SELECT
    held.tenant, held.job_id, held.key, coalesce(held.expires_at <= :now, live.id IS NULL) AS is_void
FROM (
    SELECT * FROM run_unique
    WHERE (tenant, job_id, key) > (:tenant::text, :job_id::uuid, :unique_key::bytea)
    ORDER BY tenant, job_id, key
    LIMIT :limit
) AS held
LEFT JOIN LATERAL (SELECT run.id FROM run WHERE run.id = held.run_id LIMIT 1) AS live ON true
ORDER BY held.tenant, held.job_id, held.key;

-- name: lock_void_keys
SELECT held.tenant, held.job_id, held.key
FROM unnest(:tenants::text[], :job_ids::uuid[], :unique_keys::bytea[]) AS wanted (tenant, job_id, key)
CROSS JOIN LATERAL (
    SELECT run_unique.tenant, run_unique.job_id, run_unique.key FROM run_unique
    WHERE run_unique.tenant = wanted.tenant AND run_unique.job_id = wanted.job_id AND run_unique.key = wanted.key
    FOR UPDATE SKIP LOCKED
) AS held;

-- name: delete_unique_keys
-- The keys are locked, so this sees the holders that submissions gave them meanwhile, and leaves those keys.
DELETE FROM run_unique WHERE ctid = ANY(ARRAY(
    SELECT held.ctid
    FROM unnest(:tenants::text[], :job_ids::uuid[], :unique_keys::bytea[]) AS wanted (tenant, job_id, key)
    CROSS JOIN LATERAL (
        SELECT run_unique.ctid, run_unique.run_id, run_unique.expires_at FROM run_unique
        WHERE run_unique.tenant = wanted.tenant AND run_unique.job_id = wanted.job_id
          AND run_unique.key = wanted.key
        LIMIT 1
    ) AS held
    LEFT JOIN LATERAL (SELECT run.id FROM run WHERE run.id = held.run_id LIMIT 1) AS live ON true
    WHERE coalesce(held.expires_at <= :now, live.id IS NULL)
));
