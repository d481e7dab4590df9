-- Text that statements of this dialect share.

-- fragment: day_of_end
finished_at / 86400000000;

-- fragment: is_listed
-- What is asked of the runs of a list, but for job and state.
id >= :lowest AND id < :before AND tenant = :tenant AND (:queue IS NULL OR queue = :queue)
    AND (:kind IS NULL OR kind = :kind) AND (:error IS NULL OR substr(error, 1, length(:error)) = :error)
    AND (:since IS NULL OR created_at >= :since) AND (:until IS NULL OR created_at < :until)
    AND (:backfill_id IS NULL OR fire_range_id IN (
        SELECT section.id FROM fire_range AS section INDEXED BY fire_range_backfill WHERE section.backfill_id = :backfill_id
    ));

-- fragment: is_live_listed
-- The same of a live run, beside its lane.
run.id >= :lowest AND run.id < :before AND lane.tenant = :tenant
    AND (:queue IS NULL OR lane.queue = :queue)
    AND (:kind IS NULL OR run.kind = :kind) AND :error IS NULL -- only what has ended holds one
    AND (:since IS NULL OR run.created_at >= :since) AND (:until IS NULL OR run.created_at < :until)
    AND (:backfill_id IS NULL OR run.fire_range_id IN (
        SELECT section.id FROM fire_range AS section INDEXED BY fire_range_backfill WHERE section.backfill_id = :backfill_id
    ));

-- fragment: lane_with_heads
-- A lane, and the first of its ready runs and of those that crashed a worker, with keys or without.
lane.id, lane.queue, lane.route, lane.tenant, lane.priority,
    (
        SELECT run.ready_at FROM run INDEXED BY run_ready
        WHERE run.lane_id = lane.id AND {is_ready} AND run.crashes = 0
        ORDER BY run.ready_at LIMIT 1
    ) AS earliest_ready_at,
    (
        SELECT run.ready_at FROM run INDEXED BY run_quarantined
        WHERE run.lane_id = lane.id AND {is_waiting} AND run.crashes > 0
        ORDER BY run.ready_at LIMIT 1
    ) AS earliest_quarantined_at;

-- fragment: is_dead_wanted
-- What is asked of dead letters, but for being settled or not.
tenant = :tenant AND (:job_id IS NULL OR job_id = :job_id) AND (:queue IS NULL OR queue = :queue)
    AND (:reason IS NULL OR reason = :reason) AND (:error IS NULL OR instr(error, :error) > 0)
    AND (:error_group IS NULL OR error_group = :error_group)
    AND (:since IS NULL OR finished_at >= :since) AND (:until IS NULL OR finished_at < :until)
    AND (:run_ids IS NULL OR id IN (SELECT value FROM json_each(:run_ids)));

-- fragment: is_audit_wanted
-- What is asked of entries, but for what they are about and whose that is.
(:actor IS NULL OR audit.actor = :actor)
    AND (:action IS NULL OR audit.action = :action)
    AND (:since IS NULL OR audit.at >= :since)
    AND (:until IS NULL OR audit.at < :until);

-- fragment: token_ends_at
-- The same as Identity.ends_at: `min` of SQLite knows no null.
CASE
    WHEN account.issuer IS NULL THEN token.expires_at
    ELSE min(
        coalesce(token.expires_at, coalesce(account.last_login_at, account.created_at) + :lasts),
        coalesce(account.last_login_at, account.created_at) + :lasts
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
    (
        SELECT json_group_array(run.id)
        FROM key_hold CROSS JOIN run ON run.id = key_hold.run_id
        WHERE key_hold.key_id = picked.id
          AND (picked.hold = 'run' OR (run.token = key_hold.token AND run.session_id IS NOT NULL))
    ) AS run_ids,
    (
        SELECT min(run.ready_at) FROM run INDEXED BY run_line WHERE {is_in_line} AND run.key_id = picked.id
    ) AS waiting_since
FROM picked;

-- fragment: is_worker
-- A live session, but not one by which a server begins workflows.
(
    session.state = 'live'
    AND NOT EXISTS (SELECT 1 FROM json_each(session.types) AS offered WHERE offered.value = 'workflow')
);
