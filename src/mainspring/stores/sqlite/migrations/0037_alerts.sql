-- compatible_from: 0007
-- Alerts: rules, channels and silences; what the watchdog found; the messages that tell of it; jobs that tell of
-- themselves.

CREATE TABLE alert_rule (
    -- The tenant * stands for all.
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    -- The whole rule, as JSON.
    rule TEXT NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE channel (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    -- What is set for it, as JSON.
    settings TEXT NOT NULL,
    -- Why the last message could not be delivered, and when that was.
    last_error TEXT,
    failed_at INTEGER,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE silence (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    rule TEXT,
    subject TEXT,
    from_at INTEGER NOT NULL,
    until_at INTEGER NOT NULL,
    reason TEXT NOT NULL,
    made_by TEXT NOT NULL
) STRICT;
CREATE INDEX silence_end ON silence (until_at);

CREATE TABLE alert (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    rule_tenant TEXT NOT NULL,
    rule TEXT NOT NULL,
    subject TEXT NOT NULL,
    state TEXT NOT NULL CONSTRAINT alert_state CHECK (state IN ('PENDING', 'FIRING', 'RESOLVED')),
    severity TEXT NOT NULL,
    since INTEGER NOT NULL,
    fired_at INTEGER,
    resolved_at INTEGER,
    value REAL,
    summary TEXT NOT NULL,
    run_id INTEGER,
    -- Whom it is told to, and when each was last told, as JSON.
    telling TEXT NOT NULL,
    acknowledged_by TEXT,
    acknowledged_at INTEGER
) STRICT;
CREATE UNIQUE INDEX alert_open ON alert (rule_tenant, rule, tenant, subject) WHERE state <> 'RESOLVED';
CREATE INDEX alert_page ON alert (tenant, id);
CREATE INDEX alert_resolved ON alert (resolved_at) WHERE state = 'RESOLVED';

CREATE TABLE notification (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    channel_tenant TEXT NOT NULL,
    channel TEXT NOT NULL,
    -- Those of one group are delivered in order.
    message_group TEXT NOT NULL,
    -- As JSON.
    message TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_at INTEGER NOT NULL,
    sent_at INTEGER,
    given_up_at INTEGER,
    last_error TEXT
) STRICT;
CREATE INDEX notification_due ON notification (next_at) WHERE sent_at IS NULL AND given_up_at IS NULL;
CREATE INDEX notification_order ON notification (channel_tenant, channel, message_group, id)
WHERE sent_at IS NULL AND given_up_at IS NULL;
CREATE INDEX notification_settled ON notification (made_at) WHERE sent_at IS NOT NULL OR given_up_at IS NOT NULL;

-- Jobs with `notify`.
CREATE TABLE job_notify (
    job_id BLOB PRIMARY KEY,
    -- Which ends of runs are told, and to whom, as JSON.
    notify TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- True: its job tells of failed runs, and no alert has taken note of this one yet.
ALTER TABLE dead_run ADD COLUMN is_unnoticed INTEGER;
CREATE INDEX dead_run_unnoticed ON dead_run (id) WHERE is_unnoticed;

-- Rules look for workers that were lost, and for tokens that are about to expire.
CREATE INDEX session_dead ON session (ended_at) WHERE state = 'dead';
CREATE INDEX token_expiring ON token (expires_at) WHERE expires_at IS NOT NULL AND revoked_at IS NULL;
CREATE INDEX token_replaces ON token (replaces) WHERE replaces IS NOT NULL;
