"""The stored forms of alerts, rules, channels and messages: JSON texts that are the same in both dialects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec

from mainspring.core.alerting import Outgoing, Undelivered
from mainspring.core.alerts import CHANNEL_SETTINGS, Alert, AlertRule, Channel, Silence, Telling, channel_key
from mainspring.core.channel_settings import plain_from_channel, read_channel, read_channel_kind
from mainspring.core.ids import RunId
from mainspring.core.notifications import AlertState, Message, MessageKind, Severity
from mainspring.core.notify import NotifyRule
from mainspring.ports.store.alerts import Notification, SettledNotification

_rules = msgspec.json.Decoder(AlertRule)
_tellings = msgspec.json.Decoder(Telling)
_messages = msgspec.json.Decoder(Message)
_notify = msgspec.json.Decoder(NotifyRule)
WriteInstant = Callable[[datetime], int | str]
"""Makes of an instant what the dialect reads from JSON."""


def encode(plain: Any) -> str:
    """Return a value as JSON text."""
    return msgspec.json.encode(plain).decode()


def decode_rule(text: str) -> AlertRule:
    """Return the rule of a JSON text."""
    return _rules.decode(text)


def decode_notify(text: str) -> NotifyRule:
    """Return what a JSON text says of whom a job tells."""
    return _notify.decode(text)


def encode_channel(channel: Channel) -> str:
    """Return what is set for a channel as JSON text."""
    settings: dict[str, Any] = {
        "kind": channel.config.kind.value,
        "config": plain_from_channel(channel.config),
    }
    CHANNEL_SETTINGS.store_into(settings, channel)
    return encode(settings)


def make_channel(
    tenant: str, name: str, text: str, *, last_error: str | None, failed_at: datetime | None
) -> Channel:
    """Make a channel of a row."""
    settings = msgspec.json.decode(text)
    config = read_channel(read_channel_kind(settings["kind"]), settings["config"])
    return Channel(
        tenant=tenant,
        name=name,
        config=config,
        last_error=last_error,
        failed_at=failed_at,
        **CHANNEL_SETTINGS.load(settings),
    )


def make_silence(row: Mapping[str, Any], to_instant: Callable[[Any], datetime]) -> Silence:
    """Make a silence of a row."""
    return Silence(**{**row, "from_at": to_instant(row["from_at"]), "until_at": to_instant(row["until_at"])})


def make_alert(row: Mapping[str, Any], to_optional_instant: Callable[[Any], datetime | None]) -> Alert:
    """Make an alert of a row."""
    since = to_optional_instant(row["since"])
    assert since is not None, "the column is never null"
    return Alert(
        id=row["id"],
        tenant=row["tenant"],
        rule_tenant=row["rule_tenant"],
        rule=row["rule"],
        subject=row["subject"],
        state=AlertState(row["state"]),
        severity=Severity(row["severity"]),
        since=since,
        fired_at=to_optional_instant(row["fired_at"]),
        resolved_at=to_optional_instant(row["resolved_at"]),
        value=row["value"],
        summary=row["summary"],
        run_id=None if row["run_id"] is None else RunId(row["run_id"]),
        telling=_tellings.decode(row["telling"]),
        acknowledged_by=row["acknowledged_by"],
        acknowledged_at=to_optional_instant(row["acknowledged_at"]),
    )


def encode_alerts(alerts: Sequence[Alert], write_instant: WriteInstant) -> str:
    """Return alerts as a JSON list of objects."""

    def write(instant: datetime | None) -> int | str | None:
        return None if instant is None else write_instant(instant)

    rows = [
        {
            "id": alert.id,
            "tenant": alert.tenant,
            "rule_tenant": alert.rule_tenant,
            "rule": alert.rule,
            "subject": alert.subject,
            "state": alert.state.value,
            "severity": alert.severity.value,
            "since": write_instant(alert.since),
            "fired_at": write(alert.fired_at),
            "resolved_at": write(alert.resolved_at),
            "value": alert.value,
            "summary": alert.summary,
            "run_id": alert.run_id,
            "telling": encode(alert.telling),
        }
        for alert in alerts
    ]
    return encode(rows)


def encode_outgoing(outgoing: Sequence[Outgoing]) -> str:
    """Return messages as a JSON list of objects."""
    rows = []
    for one in outgoing:
        tenant, _, name = one.channel.partition("/")
        rows.append(
            {
                "channel_tenant": tenant,
                "channel": name,
                "message_group": one.group,
                "message": encode(one.message),
            }
        )
    return encode(rows)


def repeats_of(outgoing: Sequence[Outgoing]) -> list[dict[str, str]]:
    """Return the channels and groups that are told that something still fires."""
    found = {(one.channel, one.group) for one in outgoing if one.message.kind is MessageKind.REPEAT}
    return [
        {
            "channel_tenant": channel.partition("/")[0],
            "channel": channel.partition("/")[2],
            "message_group": group,
        }
        for channel, group in sorted(found)
    ]


def encode_rewritten(rewritten: Sequence[tuple[int, Message]]) -> str:
    """Return messages as a JSON list of objects with their ids."""
    return encode([{"id": one, "message": encode(message)} for one, message in rewritten])


def make_undelivered(row: Mapping[str, Any]) -> Undelivered:
    """Make a message of a row that was given up, or waits behind one."""
    return Undelivered(
        id=row["id"],
        channel=channel_key(row["channel_tenant"], row["channel"]),
        group=row["message_group"],
        message=_messages.decode(row["message"]),
        is_given_up=bool(row["is_given_up"]),
    )


def is_over_repeat(settled: SettledNotification) -> bool:
    """Say whether a message that something still fires is not tried again: then nothing of it is kept."""
    return settled.again_at is None and settled.notification.message.kind is MessageKind.REPEAT


def make_notification(row: Mapping[str, Any], made_at: datetime) -> Notification:
    """Make a message that was taken of a row."""
    return Notification(
        id=row["id"],
        channel=channel_key(row["channel_tenant"], row["channel"]),
        attempts=row["attempts"],
        message=name_message(_messages.decode(row["message"]), row["id"]),
        made_at=made_at,
    )


def name_message(message: Message, notification_id: int) -> Message:
    """Return a message with the id under which it is sent each time."""
    return replace(message, id=f"ntf_{notification_id}")
