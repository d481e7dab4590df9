-- Text that statements of this dialect share: how many new runs are passed at once, in the order of `new_columns`.

-- fragment: new_names
shard, job_id, version, lane_id, kind, fire_at, due_at, expires_at, timeout_ms, payload, target_key, fire_range_id;

-- fragment: new_arrays
-- If all values of a column are the same, only the first is passed.
:shards::bigint[], :job_ids::uuid[], :versions::integer[], :run_lanes::bigint[], :kinds::text[], :fires_at::timestamptz[],
:dues_at::timestamptz[], :expiries_at::timestamptz[], :timeouts_ms::bigint[], :payloads::bytea[], :target_keys::text[],
:fire_range_ids::bigint[];

-- fragment: new_values
-- After the id. A short array is filled up with NULL: the first value then stands for all.
coalesce(new.job_id, (:job_ids::uuid[])[1]), coalesce(new.version, (:versions::integer[])[1]),
coalesce(new.lane_id, (:run_lanes::bigint[])[1]), coalesce(new.kind, (:kinds::text[])[1]), 'PENDING', new.fire_at,
coalesce(new.due_at, (:dues_at::timestamptz[])[1]), greatest(coalesce(new.due_at, (:dues_at::timestamptz[])[1]), :now),
:now, new.expires_at, coalesce(new.timeout_ms, (:timeouts_ms::bigint[])[1]), new.payload, new.target_key,
new.fire_range_id;
