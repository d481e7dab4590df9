-- Text that statements of this dialect share: how picked runs start, and how many new runs are passed at once, in the
-- order of `new_columns`.

-- fragment: start_picked
-- The end of a claim for one session. Rows are found again by their place, where the lock keeps them, and the update
-- itself returns them: a CTE would store each once more. `is_quarantined` is set as by `must_be_alone` in core/claiming.
UPDATE run SET state = 'RUNNING', token = run.token + 1, session_id = :session_id, claim_number = :number,
    started_at = :now, deadline_at = :now + run.timeout_ms * interval '1 millisecond', is_quarantined = run.crashes > 0
WHERE run.ctid = ANY(ARRAY(SELECT picked.place FROM picked))
RETURNING
    {run.claimed_columns}, run.cancel_requested_at IS NOT NULL AS is_cancel_requested, run.lane_id, run.ready_at;

-- fragment: is_current
-- The same as in core/claiming. A session that an earlier release has opened has no epoch, and is served by it.
coalesce(policy_epoch, :policy_epoch::bigint) = :policy_epoch::bigint;

-- fragment: is_set_cap
-- The rule of a queue, a tenant or a label. While it is set, all claims from their lanes name its key.
(limit_rule.tenant = '*' AND limit_rule.max_running IS NOT NULL AND strpos(limit_rule.name, ':') > 0);

-- fragment: announced
-- Sends a notice, if there is one, with the commit of the rows that this returns. All commits with a notice queue for one
-- lock, so only an idle cluster adds one (see HintExchange).
(SELECT pg_notify('mainspring', :notice::text) WHERE :notice IS NOT NULL)::text AS announced;

-- fragment: is_worker
-- A live session, but not one by which a server begins workflows.
(session.state = 'live' AND NOT 'workflow' = ANY(session.types));

-- fragment: new_id
-- The next number of the sequence, and the shard. SPREAD (-1) stands for the number's own last bits.
nextval('run_sequence') * 256 + CASE coalesce(new.shard, (:shards::bigint[])[1])
    WHEN -1 THEN currval('run_sequence') & 255 ELSE coalesce(new.shard, (:shards::bigint[])[1])
END;

-- fragment: new_id_of_one
-- The same for one run.
nextval('run_sequence') * 256 + CASE :shard::bigint WHEN -1 THEN currval('run_sequence') & 255 ELSE :shard END;

-- fragment: new_names
shard, job_id, version, lane_id, kind, fire_at, due_at, expires_at, timeout_ms, payload, target_key, fire_range_id, trace;

-- fragment: new_arrays
-- If all values of a column are the same, only the first is passed.
:shards::bigint[], :job_ids::uuid[], :versions::integer[], :run_lanes::bigint[], :kinds::text[], :fires_at::timestamptz[],
:dues_at::timestamptz[], :expiries_at::timestamptz[], :timeouts_ms::bigint[], :payloads::bytea[], :target_keys::text[],
:fire_range_ids::bigint[], :traces::bytea[];

-- fragment: new_values
-- After the id. A short array is filled up with NULL: the first value then stands for all.
coalesce(new.job_id, (:job_ids::uuid[])[1]), coalesce(new.version, (:versions::integer[])[1]),
coalesce(new.lane_id, (:run_lanes::bigint[])[1]), coalesce(new.kind, (:kinds::text[])[1]), 'PENDING', new.fire_at,
coalesce(new.due_at, (:dues_at::timestamptz[])[1]), greatest(coalesce(new.due_at, (:dues_at::timestamptz[])[1]), :now),
:now, new.expires_at, coalesce(new.timeout_ms, (:timeouts_ms::bigint[])[1]), new.payload, new.target_key,
new.fire_range_id, new.trace;

-- fragment: is_listed
-- What is asked of the runs of a list, but for the job.
id >= :lowest AND id < :before AND {is_chosen};

-- fragment: is_chosen
tenant = :tenant AND (:state::text IS NULL OR state = :state)
      AND (:queue::text IS NULL OR queue = :queue)
      AND (:kind::text IS NULL OR kind = :kind)
      AND (:error::text IS NULL OR starts_with(error, :error))
      AND (:since::timestamptz IS NULL OR created_at >= :since)
      AND (:until::timestamptz IS NULL OR created_at < :until)
      AND (:backfill_id::uuid IS NULL OR fire_range_id IN (
        SELECT section.id FROM fire_range AS section WHERE section.backfill_id = :backfill_id
      ));

-- fragment: listed_columns
-- A run of a list. What a brief list leaves out is not even fetched from where it is stored.
id, job_id, version, queue, route, tenant, priority, kind, state, reason, fire_at, due_at, ready_at, created_at, started_at,
    finished_at, attempt, token, crashes, session_id, is_cancel_requested, error,
    CASE WHEN :is_brief::boolean THEN NULL ELSE payload END AS payload,
    CASE WHEN :is_brief::boolean THEN NULL ELSE result END AS result,
    CASE WHEN :is_brief::boolean THEN NULL ELSE output END AS output, target_key, fire_range_id, redrive_of, trace,
    flow_id, step, item;

-- fragment: with_quarantined
-- Joins to a lane the first of its runs that crashed a worker, with keys or without.
LEFT JOIN LATERAL (
    SELECT run.ready_at FROM run
    WHERE run.lane_id = lane.id AND {is_waiting} AND run.crashes > 0
    ORDER BY run.ready_at LIMIT 1
) AS quarantined ON true;

-- fragment: rule_tenant
-- Whose limit counts: the tenant's if it is set, else the cluster's, else that of whom has ever set it. It is three
-- searches at most, where an ORDER BY would sort.
CASE
    WHEN EXISTS (
        SELECT FROM limit_rule WHERE limit_rule.tenant = wanted.tenant AND limit_rule.name = wanted.name AND {is_set}
    ) THEN wanted.tenant
    WHEN EXISTS (
        SELECT FROM limit_rule WHERE limit_rule.tenant = '*' AND limit_rule.name = wanted.name AND {is_set}
    ) THEN '*'
    WHEN EXISTS (
        SELECT FROM limit_rule WHERE limit_rule.tenant = wanted.tenant AND limit_rule.name = wanted.name
    ) THEN wanted.tenant
    ELSE '*'
END;

-- fragment: is_dead_wanted
-- What is asked of dead letters, but for being settled or not.
tenant = :tenant::text
      AND (:job_id::uuid IS NULL OR job_id = :job_id)
      AND (:queue::text IS NULL OR queue = :queue)
      AND (:reason::text IS NULL OR reason = :reason)
      AND (:error::text IS NULL OR strpos(error, :error) > 0)
      AND (:error_group::text IS NULL OR error_group = :error_group)
      AND (:since::timestamptz IS NULL OR finished_at >= :since)
      AND (:until::timestamptz IS NULL OR finished_at < :until)
      AND (:run_ids::bigint[] IS NULL OR id = ANY(:run_ids));

-- fragment: is_audit_wanted
-- What is asked of entries, but for what they are about and whose that is.
(:actor::text IS NULL OR audit.actor = :actor)
      AND (:action::text IS NULL OR audit.action = :action)
      AND (:since::timestamptz IS NULL OR audit.at >= :since)
      AND (:until::timestamptz IS NULL OR audit.at < :until);

-- fragment: archived_times
-- Instants of a run as microseconds since 1970.
(extract(epoch FROM run.fire_at) * 1000000)::bigint, (extract(epoch FROM run.due_at) * 1000000)::bigint,
(extract(epoch FROM run.created_at) * 1000000)::bigint, (extract(epoch FROM run.started_at) * 1000000)::bigint;

-- fragment: token_ends_at
-- The same as Identity.ends_at: `least` leaves nulls out.
CASE
    WHEN account.issuer IS NULL THEN token.expires_at
    ELSE least(
        token.expires_at,
        coalesce(account.last_login_at, account.created_at) + :lasts::bigint * interval '1 microsecond'
    )
END;

-- fragment: key_use_columns
-- A key of a limit beside its rule, as `key_uses` needs them.
concurrency_key.id, concurrency_key.key, concurrency_key.level, concurrency_key.level_at, limit_rule.per_count,
limit_rule.per_ms, limit_rule.burst, limit_rule.hold;

-- fragment: key_uses
-- How much of picked keys is taken. Only of these: to count for all keys of a limit takes long.
SELECT
    picked.id, picked.key, picked.level, picked.level_at, picked.per_count, picked.per_ms, picked.burst,
    held.count AS held, held.run_ids[1:5] AS run_ids, head.ready_at AS waiting_since
FROM picked
CROSS JOIN LATERAL (
    SELECT count(*) AS count, array_agg(run.id ORDER BY key_hold.id) AS run_ids
    FROM key_hold JOIN run ON run.id = key_hold.run_id
    WHERE key_hold.key_id = picked.id
      AND (picked.hold = 'run' OR run.token = key_hold.token AND run.session_id IS NOT NULL)
) AS held
LEFT JOIN LATERAL (
    SELECT min(run.ready_at) AS ready_at FROM run WHERE {is_in_line} AND run.key_id = picked.id
) AS head ON true;

-- fragment: store_folder
-- Where the database is: only where this user may know it, and only over a socket of the server's own machine.
CASE
    WHEN inet_server_addr() IS NOT NULL THEN NULL
    WHEN (SELECT pg_tablespace_location(dattablespace) FROM pg_database WHERE datname = current_database()) <> ''
        THEN (SELECT pg_tablespace_location(dattablespace) FROM pg_database WHERE datname = current_database())
    WHEN pg_has_role('pg_read_all_settings', 'USAGE') THEN current_setting('data_directory')
END AS folder;
