-- Alerts: rules, channels, silences; what was found, and the messages that tell of it.

-- name: put_alert_rule
INSERT INTO alert_rule (tenant, name, rule) VALUES (:tenant, :name, :rule)
ON CONFLICT (tenant, name) DO UPDATE SET rule = excluded.rule
RETURNING xmax = 0 AS is_new;

-- name: add_alert_rule
INSERT INTO alert_rule (tenant, name, rule) VALUES (:tenant, :name, :rule) ON CONFLICT (tenant, name) DO NOTHING;

-- name: delete_alert_rule
DELETE FROM alert_rule WHERE tenant = :tenant AND name = :name RETURNING name;

-- name: list_alert_rules
SELECT alert_rule.rule FROM alert_rule ORDER BY alert_rule.tenant, alert_rule.name;

-- name: put_channel
INSERT INTO channel (tenant, name, settings) VALUES (:tenant, :name, :settings)
ON CONFLICT (tenant, name) DO UPDATE SET settings = excluded.settings, last_error = NULL, failed_at = NULL
RETURNING xmax = 0 AS is_new;

-- name: delete_channel
DELETE FROM channel WHERE tenant = :tenant AND name = :name RETURNING name;

-- name: delete_undelivered
DELETE FROM notification
WHERE channel_tenant = :tenant AND channel = :name AND sent_at IS NULL AND given_up_at IS NULL;

-- name: list_channels
SELECT channel.tenant, channel.name, channel.settings, channel.last_error, channel.failed_at FROM channel
ORDER BY channel.tenant, channel.name;

-- name: note_delivery
-- What went wrong with a channel's last message; nothing if it was delivered.
UPDATE channel SET
    last_error = :error::text, failed_at = CASE WHEN :error::text IS NULL THEN NULL ELSE :now::timestamptz END
WHERE tenant = :tenant AND name = :name AND (:error::text IS NOT NULL OR last_error IS NOT NULL);

-- name: add_silence
INSERT INTO silence (tenant, rule, subject, from_at, until_at, reason, made_by)
VALUES (:tenant, :rule, :subject, :from_at, :until_at, :reason, :made_by)
RETURNING id;

-- name: end_silence
UPDATE silence SET until_at = :now, from_at = least(from_at, :now)
WHERE id = :silence_id AND tenant = :tenant AND until_at > :now
RETURNING id;

-- name: list_silences
SELECT {silence.silence_columns} FROM silence WHERE silence.until_at > :ending_after ORDER BY silence.id;

-- name: list_open_alerts
SELECT {alert.alert_columns} FROM alert WHERE alert.state <> 'RESOLVED' ORDER BY alert.id;

-- name: list_alerts
SELECT {alert.alert_columns} FROM alert
WHERE alert.tenant = ANY(:tenants::text[]) AND alert.id < :before AND alert.state = ANY(:states::text[])
ORDER BY alert.id DESC LIMIT :limit;

-- name: list_all_alerts
SELECT {alert.alert_columns} FROM alert
WHERE alert.id < :before AND alert.state = ANY(:states::text[])
ORDER BY alert.id DESC LIMIT :limit;

-- name: get_alert
SELECT {alert.alert_columns} FROM alert WHERE alert.id = :alert_id AND alert.tenant = ANY(:tenants::text[]);

-- name: acknowledge_alert
UPDATE alert SET acknowledged_by = :by, acknowledged_at = :now
WHERE id = :alert_id AND tenant = ANY(:tenants::text[]) AND acknowledged_at IS NULL
RETURNING id;

-- name: read_alert_revision
SELECT number FROM revision WHERE name = 'alerts';

-- name: raise_alert_revision
-- Nothing if another verdict was saved since: the caller decided by what is no more.
UPDATE revision SET number = number + 1 WHERE name = 'alerts' AND number = :revision RETURNING number;

-- name: add_alerts
INSERT INTO alert (
    tenant, rule_tenant, rule, subject, state, severity, since, fired_at, value, summary, run_id, telling
)
SELECT tenant, rule_tenant, rule, subject, state, severity, since, fired_at, value, summary, run_id, telling
FROM json_to_recordset(:alerts::json) AS new (
    tenant text, rule_tenant text, rule text, subject text, state text, severity text, since timestamptz,
    fired_at timestamptz, value double precision, summary text, run_id bigint, telling text
)
ON CONFLICT DO NOTHING;

-- name: change_alerts
UPDATE alert SET
    state = new.state, severity = new.severity, fired_at = new.fired_at, resolved_at = new.resolved_at,
    value = new.value, summary = new.summary, run_id = new.run_id, telling = new.telling
FROM json_to_recordset(:alerts::json) AS new (
    id bigint, state text, severity text, fired_at timestamptz, resolved_at timestamptz, value double precision,
    summary text, run_id bigint, telling text
)
WHERE alert.id = new.id AND alert.state <> 'RESOLVED';

-- name: remove_alerts
DELETE FROM alert WHERE id = ANY(:alert_ids::bigint[]) AND state = 'PENDING';

-- name: add_notifications
INSERT INTO notification (channel_tenant, channel, message_group, message, made_at, next_at)
SELECT channel_tenant, channel, message_group, message, :now, :now
FROM json_to_recordset(:notifications::json) AS new (
    channel_tenant text, channel text, message_group text, message text
);

-- name: list_lost_sessions
SELECT session.id, session.worker, session.host, session.ended_at FROM session
WHERE session.state = 'dead' AND session.ended_at >= :since
ORDER BY session.id;

-- name: list_expiring_tokens
-- By their own time, or because their account has not signed in at its provider for long, whichever comes first. Each is
-- found by one of the two. `lasts` is in microseconds.
SELECT {ending.token_columns}, ending.ends_at FROM (
    SELECT {token.token_columns}, {token_ends_at} AS ends_at
    FROM token JOIN account ON account.name = token.account
    WHERE
        token.prefix IN (
            SELECT soon.prefix FROM token AS soon
            WHERE soon.expires_at > :after::timestamptz AND soon.expires_at < :before::timestamptz AND soon.revoked_at IS NULL
            UNION
            SELECT own.prefix FROM account AS silent JOIN token AS own ON own.account = silent.name
            WHERE
                silent.issuer IS NOT NULL AND own.revoked_at IS NULL
                AND coalesce(silent.last_login_at, silent.created_at) > :after::timestamptz - :lasts::bigint * interval '1 microsecond'
                AND coalesce(silent.last_login_at, silent.created_at) < :before::timestamptz - :lasts::bigint * interval '1 microsecond'
        )
        AND token.revoked_at IS NULL AND token.login IS NULL AND NOT account.is_disabled
        AND NOT EXISTS (SELECT 1 FROM token AS newer WHERE newer.replaces = token.prefix)
) AS ending
WHERE ending.ends_at > :after::timestamptz AND ending.ends_at < :before::timestamptz
ORDER BY ending.ends_at, ending.prefix LIMIT :limit;

-- name: drop_repeats
-- That something still fires is told once when a channel takes messages again.
DELETE FROM notification
WHERE channel_tenant = :channel_tenant AND channel = :channel AND message_group = :message_group
  AND sent_at IS NULL AND given_up_at IS NULL AND (attempts = 0 OR last_error IS NOT NULL)
  AND message::json ->> 'kind' = 'repeat';

-- name: take_notifications
-- One without an error that was taken is under way.
UPDATE notification SET attempts = attempts + 1, next_at = :again_at, last_error = NULL
WHERE id IN (
    SELECT due.id FROM notification AS due
    WHERE due.sent_at IS NULL AND due.given_up_at IS NULL AND due.next_at <= :now
      AND due.channel_tenant <> ALL(:busy_tenants::text[])
      AND due.channel_tenant || '/' || due.channel <> ALL(:busy::text[])
      AND NOT EXISTS (
        SELECT FROM notification AS earlier
        WHERE earlier.channel_tenant = due.channel_tenant AND earlier.channel = due.channel
          AND earlier.message_group = due.message_group AND earlier.id < due.id
          AND earlier.sent_at IS NULL AND earlier.given_up_at IS NULL
    )
    ORDER BY due.next_at, due.id LIMIT :limit
)
RETURNING {notification_columns};

-- name: list_undelivered
-- Messages that were given up, and those behind them.
SELECT waiting.id, waiting.channel_tenant, waiting.channel, waiting.message_group, waiting.message,
       waiting.next_at >= :never AS is_given_up
FROM (
    SELECT DISTINCT due.channel_tenant, due.channel, due.message_group FROM notification AS due
    WHERE due.sent_at IS NULL AND due.given_up_at IS NULL AND due.next_at >= :never LIMIT :limit
) AS stalled
CROSS JOIN LATERAL (
    SELECT * FROM notification
    WHERE notification.channel_tenant = stalled.channel_tenant AND notification.channel = stalled.channel
      AND notification.message_group = stalled.message_group
      AND notification.sent_at IS NULL AND notification.given_up_at IS NULL
) AS waiting
ORDER BY waiting.id;

-- name: give_up_notifications
UPDATE notification SET given_up_at = :now, next_at = :now WHERE id = ANY(:notification_ids::bigint[]);

-- name: drop_notifications
DELETE FROM notification WHERE id = ANY(:notification_ids::bigint[]);

-- name: rewrite_notifications
UPDATE notification SET message = new.message
FROM json_to_recordset(:messages::json) AS new (id bigint, message text)
WHERE notification.id = new.id;

-- name: settle_notification
UPDATE notification SET
    next_at = coalesce(:again_at::timestamptz, next_at), last_error = :error::text,
    sent_at = CASE WHEN :error::text IS NULL THEN :now::timestamptz END,
    given_up_at = CASE WHEN :error::text IS NOT NULL AND :again_at::timestamptz IS NULL THEN :now::timestamptz END
WHERE id = :notification_id AND attempts = :attempts AND sent_at IS NULL AND given_up_at IS NULL
RETURNING channel_tenant, channel;

-- name: forget_repeat
-- That something still fires is of no use once it was told, or given up.
DELETE FROM notification
WHERE id = :notification_id AND (sent_at IS NOT NULL OR given_up_at IS NOT NULL) AND message::json ->> 'kind' = 'repeat';

-- name: prune_alerts
DELETE FROM alert WHERE id IN (
    SELECT old.id FROM alert AS old WHERE old.state = 'RESOLVED' AND old.resolved_at < :before LIMIT :limit
);

-- name: prune_notifications
DELETE FROM notification WHERE id IN (
    SELECT old.id FROM notification AS old
    WHERE (old.sent_at IS NOT NULL OR old.given_up_at IS NOT NULL) AND old.made_at < :before LIMIT :limit
);

-- name: prune_silences
DELETE FROM silence WHERE until_at < :before;
