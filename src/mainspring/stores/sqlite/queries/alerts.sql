-- Alerts: rules, channels, silences; what was found, and the messages that tell of it.

-- name: find_alert_rule
SELECT 1 FROM alert_rule WHERE alert_rule.tenant = :tenant AND alert_rule.name = :name;

-- name: put_alert_rule
INSERT INTO alert_rule (tenant, name, rule) VALUES (:tenant, :name, :rule)
ON CONFLICT (tenant, name) DO UPDATE SET rule = excluded.rule;

-- name: add_alert_rule
INSERT INTO alert_rule (tenant, name, rule) VALUES (:tenant, :name, :rule) ON CONFLICT (tenant, name) DO NOTHING;

-- name: delete_alert_rule
DELETE FROM alert_rule WHERE tenant = :tenant AND name = :name RETURNING name;

-- name: list_alert_rules
SELECT alert_rule.rule FROM alert_rule ORDER BY alert_rule.tenant, alert_rule.name;

-- name: find_channel
SELECT 1 FROM channel WHERE channel.tenant = :tenant AND channel.name = :name;

-- name: put_channel
INSERT INTO channel (tenant, name, settings) VALUES (:tenant, :name, :settings)
ON CONFLICT (tenant, name) DO UPDATE SET settings = excluded.settings, last_error = NULL, failed_at = NULL;

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
UPDATE channel SET last_error = :error, failed_at = CASE WHEN :error IS NULL THEN NULL ELSE :now END
WHERE tenant = :tenant AND name = :name AND (:error IS NOT NULL OR last_error IS NOT NULL);

-- name: add_silence
INSERT INTO silence (tenant, rule, subject, from_at, until_at, reason, made_by)
VALUES (:tenant, :rule, :subject, :from_at, :until_at, :reason, :made_by)
RETURNING id;

-- name: end_silence
UPDATE silence SET until_at = :now, from_at = min(from_at, :now)
WHERE id = :silence_id AND tenant = :tenant AND until_at > :now
RETURNING id;

-- name: list_silences
SELECT {silence.silence_columns} FROM silence WHERE silence.until_at > :ending_after ORDER BY silence.id;

-- name: list_open_alerts
SELECT {alert.alert_columns} FROM alert INDEXED BY alert_open WHERE alert.state <> 'RESOLVED' ORDER BY alert.id;

-- name: list_alerts
SELECT {alert.alert_columns} FROM alert INDEXED BY alert_page
WHERE alert.tenant IN (SELECT value FROM json_each(:tenants)) AND alert.id < :before
  AND alert.state IN (SELECT value FROM json_each(:states))
ORDER BY alert.id DESC LIMIT :limit;

-- name: list_all_alerts
SELECT {alert.alert_columns} FROM alert NOT INDEXED
WHERE alert.id < :before AND alert.state IN (SELECT value FROM json_each(:states))
ORDER BY alert.id DESC LIMIT :limit;

-- name: get_alert
SELECT {alert.alert_columns} FROM alert
WHERE alert.id = :alert_id AND alert.tenant IN (SELECT value FROM json_each(:tenants));

-- name: acknowledge_alert
UPDATE alert SET acknowledged_by = :by, acknowledged_at = :now
WHERE id = :alert_id AND tenant IN (SELECT value FROM json_each(:tenants)) AND acknowledged_at IS NULL
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
SELECT
    json_extract(value, '$.tenant'), json_extract(value, '$.rule_tenant'), json_extract(value, '$.rule'),
    json_extract(value, '$.subject'), json_extract(value, '$.state'), json_extract(value, '$.severity'),
    json_extract(value, '$.since'), json_extract(value, '$.fired_at'), json_extract(value, '$.value'),
    json_extract(value, '$.summary'), json_extract(value, '$.run_id'), json_extract(value, '$.telling')
FROM json_each(:alerts) WHERE true
ON CONFLICT DO NOTHING;

-- name: change_alerts
UPDATE alert SET
    state = json_extract(new.value, '$.state'), severity = json_extract(new.value, '$.severity'),
    fired_at = json_extract(new.value, '$.fired_at'), resolved_at = json_extract(new.value, '$.resolved_at'),
    value = json_extract(new.value, '$.value'), summary = json_extract(new.value, '$.summary'),
    run_id = json_extract(new.value, '$.run_id'), telling = json_extract(new.value, '$.telling')
FROM json_each(:alerts) AS new
WHERE alert.id = json_extract(new.value, '$.id') AND alert.state <> 'RESOLVED';

-- name: remove_alerts
DELETE FROM alert WHERE id IN (SELECT value FROM json_each(:alert_ids)) AND state = 'PENDING';

-- name: add_notifications
INSERT INTO notification (channel_tenant, channel, message_group, message, made_at, next_at)
SELECT
    json_extract(value, '$.channel_tenant'), json_extract(value, '$.channel'), json_extract(value, '$.message_group'),
    json_extract(value, '$.message'), :now, :now
FROM json_each(:notifications);

-- name: list_lost_sessions
SELECT session.id, session.worker, session.host, session.ended_at FROM session INDEXED BY session_dead
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
            SELECT soon.prefix FROM token AS soon INDEXED BY token_expiring
            WHERE soon.expires_at > :after AND soon.expires_at < :before AND soon.revoked_at IS NULL
            UNION
            SELECT own.prefix FROM account AS silent JOIN token AS own ON own.account = silent.name
            WHERE
                silent.issuer IS NOT NULL AND own.revoked_at IS NULL
                AND coalesce(silent.last_login_at, silent.created_at) > :after - :lasts
                AND coalesce(silent.last_login_at, silent.created_at) < :before - :lasts
        )
        AND token.revoked_at IS NULL AND token.login IS NULL AND NOT account.is_disabled
        AND NOT EXISTS (SELECT 1 FROM token AS newer WHERE newer.replaces = token.prefix)
) AS ending
WHERE ending.ends_at > :after AND ending.ends_at < :before
ORDER BY ending.ends_at, ending.prefix LIMIT :limit;

-- name: drop_repeats
-- That something still fires is told once when a channel takes messages again.
DELETE FROM notification
WHERE channel_tenant = :channel_tenant AND channel = :channel AND message_group = :message_group
  AND sent_at IS NULL AND given_up_at IS NULL AND (attempts = 0 OR last_error IS NOT NULL)
  AND json_extract(message, '$.kind') = 'repeat';

-- name: take_notifications
-- One without an error that was taken is under way.
UPDATE notification SET attempts = attempts + 1, next_at = :again_at, last_error = NULL
WHERE id IN (
    SELECT due.id FROM notification AS due INDEXED BY notification_due
    WHERE due.sent_at IS NULL AND due.given_up_at IS NULL AND due.next_at <= :now
      AND due.channel_tenant NOT IN (SELECT value FROM json_each(:busy_tenants))
      AND due.channel_tenant || '/' || due.channel NOT IN (SELECT value FROM json_each(:busy))
      AND NOT EXISTS (
        SELECT 1 FROM notification AS earlier INDEXED BY notification_order
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
    SELECT DISTINCT due.channel_tenant, due.channel, due.message_group FROM notification AS due INDEXED BY notification_due
    WHERE due.sent_at IS NULL AND due.given_up_at IS NULL AND due.next_at >= :never LIMIT :limit
) AS stalled
CROSS JOIN notification AS waiting INDEXED BY notification_order
    ON waiting.channel_tenant = stalled.channel_tenant AND waiting.channel = stalled.channel
    AND waiting.message_group = stalled.message_group
    AND waiting.sent_at IS NULL AND waiting.given_up_at IS NULL
ORDER BY waiting.id;

-- name: give_up_notifications
UPDATE notification SET given_up_at = :now, next_at = :now WHERE id IN (SELECT value FROM json_each(:notification_ids));

-- name: drop_notifications
DELETE FROM notification WHERE id IN (SELECT value FROM json_each(:notification_ids));

-- name: rewrite_notifications
UPDATE notification SET message = json_extract(new.value, '$.message')
FROM json_each(:messages) AS new
WHERE notification.id = json_extract(new.value, '$.id');

-- name: settle_notification
UPDATE notification SET
    next_at = coalesce(:again_at, next_at), last_error = :error,
    sent_at = CASE WHEN :error IS NULL THEN :now END,
    given_up_at = CASE WHEN :error IS NOT NULL AND :again_at IS NULL THEN :now END
WHERE id = :notification_id AND attempts = :attempts AND sent_at IS NULL AND given_up_at IS NULL
RETURNING channel_tenant, channel;

-- name: forget_repeat
-- That something still fires is of no use once it was told, or given up.
DELETE FROM notification
WHERE id = :notification_id AND (sent_at IS NOT NULL OR given_up_at IS NOT NULL) AND json_extract(message, '$.kind') = 'repeat';

-- name: prune_alerts
DELETE FROM alert WHERE id IN (
    SELECT old.id FROM alert AS old INDEXED BY alert_resolved
    WHERE old.state = 'RESOLVED' AND old.resolved_at < :before LIMIT :limit
);

-- name: prune_notifications
DELETE FROM notification WHERE id IN (
    SELECT old.id FROM notification AS old INDEXED BY notification_settled
    WHERE (old.sent_at IS NOT NULL OR old.given_up_at IS NOT NULL) AND old.made_at < :before LIMIT :limit
);

-- name: prune_silences
DELETE FROM silence WHERE until_at < :before;
