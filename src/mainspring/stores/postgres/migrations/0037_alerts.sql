-- compatible_from: 0007
-- Alerts: rules, channels and silences; what the watchdog found; the messages that tell of it; jobs that tell of
-- themselves.

CREATE TABLE alert_rule (
    -- The tenant * stands for all.
    tenant text NOT NULL,
    name text NOT NULL,
    -- The whole rule, as JSON.
    rule text NOT NULL,
    CONSTRAINT alert_rule_pkey PRIMARY KEY (tenant, name)
);

CREATE TABLE channel (
    tenant text NOT NULL,
    name text NOT NULL,
    -- What is set for it, as JSON.
    settings text NOT NULL,
    -- Why the last message could not be delivered, and when that was.
    last_error text,
    failed_at timestamptz,
    CONSTRAINT channel_pkey PRIMARY KEY (tenant, name)
);

CREATE TABLE silence (
    id bigint GENERATED ALWAYS AS IDENTITY,
    tenant text NOT NULL,
    rule text,
    subject text,
    from_at timestamptz NOT NULL,
    until_at timestamptz NOT NULL,
    reason text NOT NULL,
    made_by text NOT NULL,
    CONSTRAINT silence_pkey PRIMARY KEY (id)
);
CREATE INDEX silence_end ON silence (until_at);

CREATE TABLE alert (
    id bigint GENERATED ALWAYS AS IDENTITY,
    tenant text NOT NULL,
    rule_tenant text NOT NULL,
    rule text NOT NULL,
    subject text NOT NULL,
    state text NOT NULL,
    severity text NOT NULL,
    since timestamptz NOT NULL,
    fired_at timestamptz,
    resolved_at timestamptz,
    value double precision,
    summary text NOT NULL,
    run_id bigint,
    -- Whom it is told to, and when each was last told, as JSON.
    telling text NOT NULL,
    acknowledged_by text,
    acknowledged_at timestamptz,
    CONSTRAINT alert_pkey PRIMARY KEY (id),
    CONSTRAINT alert_state CHECK (state IN ('PENDING', 'FIRING', 'RESOLVED'))
);
CREATE UNIQUE INDEX alert_open ON alert (rule_tenant, rule, tenant, subject) WHERE state <> 'RESOLVED';
CREATE INDEX alert_page ON alert (tenant, id);
CREATE INDEX alert_resolved ON alert (resolved_at) WHERE state = 'RESOLVED';

CREATE TABLE notification (
    id bigint GENERATED ALWAYS AS IDENTITY,
    channel_tenant text NOT NULL,
    channel text NOT NULL,
    -- Those of one group are delivered in order.
    message_group text NOT NULL,
    -- As JSON.
    message text NOT NULL,
    made_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    next_at timestamptz NOT NULL,
    sent_at timestamptz,
    given_up_at timestamptz,
    last_error text,
    CONSTRAINT notification_pkey PRIMARY KEY (id)
);
CREATE INDEX notification_due ON notification (next_at) WHERE sent_at IS NULL AND given_up_at IS NULL;
CREATE INDEX notification_order ON notification (channel_tenant, channel, message_group, id)
WHERE sent_at IS NULL AND given_up_at IS NULL;
CREATE INDEX notification_settled ON notification (made_at) WHERE sent_at IS NOT NULL OR given_up_at IS NOT NULL;

-- Jobs with `notify`.
CREATE TABLE job_notify (
    job_id uuid NOT NULL,
    -- Which ends of runs are told, and to whom, as JSON.
    notify text NOT NULL,
    CONSTRAINT job_notify_pkey PRIMARY KEY (job_id)
);

-- True: its job tells of failed runs, and no alert has taken note of this one yet.
ALTER TABLE dead_run ADD COLUMN is_unnoticed boolean;
CREATE INDEX dead_run_unnoticed ON dead_run (id) WHERE is_unnoticed;

-- Rules look for workers that were lost, and for tokens that are about to expire.
CREATE INDEX session_dead ON session (ended_at) WHERE state = 'dead';
CREATE INDEX token_expiring ON token (expires_at) WHERE expires_at IS NOT NULL AND revoked_at IS NULL;
CREATE INDEX token_replaces ON token (replaces) WHERE replaces IS NOT NULL;
