-- Text that several statements share. A new column of a run is added to the lists that it belongs to; what an insert sets
-- it to is said in `queries/fragments.sql` and `queries/runs.sql` of each dialect.

-- fragment: is_ready
-- Part of the condition of the index run_ready, and the same as in core/claiming.
run.state IN ('PENDING', 'RETRYING') AND NOT run.is_parked;

-- fragment: is_waiting
-- Part of the condition of the index run_quarantined.
run.state IN ('PENDING', 'RETRYING');

-- fragment: is_in_line
-- The condition of the index run_line.
run.is_parked AND run.state IN ('PENDING', 'RETRYING') AND run.crashes = 0;

-- fragment: is_unexpired
-- The opposite of `is_expired` in core/claiming.
(run.expires_at IS NULL OR run.expires_at > :now);

-- fragment: is_set
-- The same as LimitRule.is_set.
(limit_rule.max_running IS NOT NULL OR limit_rule.per_count IS NOT NULL OR limit_rule.batch_size IS NOT NULL);

-- fragment: new_columns
-- The columns that an insert of a run sets.
id, job_id, version, lane_id, kind, state, fire_at, due_at, ready_at, created_at, expires_at, timeout_ms, payload, target_key,
fire_range_id, trace;

-- fragment: candidate_columns
-- What decides whether a run may start under its limits.
id, token, lane_id, ready_at, key_id, second_key_id, third_key_id;

-- fragment: claimed_columns
-- What a claim returns about a run, in the order of the fields of ClaimedRun.
id, token, job_id, version, attempt, fire_at, due_at, payload, target_key, is_quarantined, trace;

-- fragment: held_columns
-- The facts about a lease.
id, token, job_id, version, attempt, is_quarantined, quarantined_crashes, session_id, started_at, deadline_at, preemption, trace;

-- fragment: live_columns
-- What the end of an attempt depends on.
id, state, token, session_id, attempt, crashes, quarantined_crashes, is_quarantined, started_at, cancel_reason;

-- fragment: session_columns
id, worker, host, pid, slots, queues, types, functions, labels, beat_period, beats, started_at, last_beat_at,
tenant;

-- fragment: job_columns
-- A job as it is read. SQLite reads these by position, in make_job.
job.id, job.tenant, job_version.spec, job.version, job_clock.revision, job.is_paused, job_clock.next_fire_at,
job_clock.fired_through, job.created_at, job.updated_at, job_clock.fires_left, job.pause_note, job.owner,
job.undefined_since;

-- fragment: fire_range_columns
-- What is known of a fire range, but for its job's tenant.
id, job_id, version, kind, from_at, to_at, cursor_at, reason, closed_at, created_at, calendars;

-- fragment: backfill_options
backfill.skip_done, backfill.definition, backfill.per_count, backfill.per_ms, backfill.max_live, backfill.priority,
    backfill.note;

-- fragment: backfill_columns
-- A backfill and how far it has come, beside its job. One of a job that was deleted makes nothing any more.
backfill.id, backfill.tenant, backfill.job_id, backfill.from_at, backfill.to_at, {backfill_options},
    CASE WHEN job.deleted_at IS NOT NULL AND backfill.state <> 'done' THEN 'cancelled' ELSE backfill.state END AS state,
    backfill.fires, backfill.made, backfill.skipped, backfill.created_at,
    job.is_paused AND job.deleted_at IS NULL AS is_job_paused,
    CASE
        WHEN job.deleted_at IS NOT NULL AND backfill.closed_at IS NULL THEN job.deleted_at ELSE backfill.closed_at
    END AS closed_at,
    (
        SELECT max(fire_range.cursor_at) FROM fire_range WHERE fire_range.backfill_id = backfill.id
    ) AS cursor_at,
    (
        SELECT count(*) FROM fire_range JOIN run ON run.fire_range_id = fire_range.id
        WHERE fire_range.backfill_id = backfill.id
    ) AS live;

-- fragment: kept_columns
-- The columns of a live run that the history keeps unchanged.
id, job_id, version, kind, fire_at, due_at, created_at, started_at, attempt, token, session_id, payload, target_key,
fire_range_id, redrive_of, trace, flow_id, step, item;

-- fragment: settled_columns
-- What became of a dead letter.
settled_at, settlement, settle_reason, redriven_as;

-- fragment: redrive_columns
id, tenant, state, filter, is_newest, rate, cursor, total, done, created_at, closed_at;

-- fragment: audit_columns
id, at, tenant, actor, actor_kind, token, address, request_id, action, subject_kind, subject_id, subject_name, outcome,
before, after, seal;

-- fragment: seal_columns
id, at, entries, content, digest, previous;

-- fragment: account_columns
name, grants, hides_payloads, is_disabled, created_at, issuer, subject, last_login_at;

-- fragment: token_columns
-- All but what the text of the token must come to.
prefix, account, name, role, tenant, queues, rate, created_at, expires_at, last_used_at, revoked_at, replaces, login,
parent;

-- fragment: alert_columns
id, tenant, rule_tenant, rule, subject, state, severity, since, fired_at, resolved_at, value, summary, run_id, telling,
acknowledged_by, acknowledged_at;

-- fragment: silence_columns
id, tenant, rule, subject, from_at, until_at, reason, made_by;

-- fragment: notification_columns
id, channel_tenant, channel, message, made_at, attempts;

-- fragment: monitor_columns
id, tenant, name, monitor, revision;

-- fragment: artifact_columns
id, tenant, run_id, token, name, location, content_type, size, sha256, is_ready, created_at, expires_at;
