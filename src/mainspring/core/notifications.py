"""What a channel tells people: some alerts of one rule, in one message."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from mainspring.core.ids import RunId, format_run_id
from mainspring.core.values import value

MOST_ALERTS = 20
"""Alerts that a message describes. Of more it tells the number."""


class AlertState(StrEnum):
    """The state of an alert. Nothing is told of a pending one."""

    PENDING = "PENDING"
    FIRING = "FIRING"
    RESOLVED = "RESOLVED"


class Severity(StrEnum):
    """How bad it is that an alert fires, from the least to the worst."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class MessageKind(StrEnum):
    """Why a message is sent."""

    FIRING = "firing"
    """Something fires that was not told before."""
    REPEAT = "repeat"
    """What was told still fires."""
    RESOLVED = "resolved"
    """What was told has ended."""
    TEST = "test"
    """A user tries the channel."""


@value(kw_only=True)
class AlertFacts:
    """What a message says of one alert.

    Attributes:
        subject: what it is about, such as `queue:mail`; rule and subject tell alerts apart.
        state: FIRING or RESOLVED.
        since: when it began.
        resolved_at: when it ended; None while it fires.
        value: the number that was judged; None if the rule judges none.
        summary: one sentence.
        run_id: the run that it is about, if it is about one.
        url: the page that shows it; None if the server's public address is not set.
    """

    alert_id: int
    subject: str
    state: AlertState
    since: datetime
    summary: str
    resolved_at: datetime | None = None
    value: float | None = None
    run_id: RunId | None = None
    url: str | None = None


@value(kw_only=True)
class Message:
    """What a channel is to deliver.

    Attributes:
        id: such as `ntf_17`, the same for each retry, so that a receiver knows a message that comes twice.
        tenant: whose alerts they are.
        rule: the name of the rule.
        alerts: at least one, at most `MOST_ALERTS`.
        more: how many there are beyond these.
        channel_tenant: whose channel it is, and whose secrets it may use; None: the same tenant's.
        at: when the message was made, the same for each retry.
        alert_ids: the ids of all alerts that it is about, those among `more` too.
    """

    id: str
    kind: MessageKind
    tenant: str
    rule: str
    severity: Severity
    alerts: tuple[AlertFacts, ...]
    at: datetime
    more: int = 0
    channel_tenant: str | None = None
    alert_ids: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """How many alerts it is about."""
        return len(self.alerts) + self.more

    @property
    def title(self) -> str:
        """One line that tells what has happened, to what, and where; for a subject or a heading."""
        word = _WORDS[self.kind]
        first = self.alerts[0].summary if self.alerts else self.rule
        rest = f" (and {self.count - 1} more)" if self.count > 1 else ""
        return f"{word} {self.rule}: {first}{rest}"


def leave_out(message: Message, alert_ids: Collection[int]) -> Message | None:
    """Return a message without some alerts; None if it is about no other."""
    ids = message.alert_ids or tuple(one.alert_id for one in message.alerts)
    kept_ids = tuple(one for one in ids if one not in alert_ids)
    kept = tuple(one for one in message.alerts if one.alert_id not in alert_ids)
    if not kept:
        return None
    gone = len(ids) - len(kept_ids) - (len(message.alerts) - len(kept))
    return replace(message, alerts=kept, more=max(message.more - gone, 0), alert_ids=kept_ids)


_WORDS: Mapping[MessageKind, str] = {
    MessageKind.FIRING: "[firing]",
    MessageKind.REPEAT: "[still firing]",
    MessageKind.RESOLVED: "[resolved]",
    MessageKind.TEST: "[test]",
}


def describe_message(message: Message) -> dict[str, Any]:
    """Return a message as a webhook's body has it: the form of Standard Webhooks, plain for JSON."""
    return {
        "type": f"mainspring.alert.{message.kind}",
        "timestamp": write_instant(message.at),
        "data": {
            "tenant": message.tenant,
            "rule": message.rule,
            "severity": str(message.severity),
            "count": message.count,
            "more": message.more,
            "alerts": [_describe_alert(alert) for alert in message.alerts],
        },
    }


def _describe_alert(alert: AlertFacts) -> dict[str, Any]:
    return {
        "alert_id": alert.alert_id,
        "subject": alert.subject,
        "state": str(alert.state),
        "since": write_instant(alert.since),
        "resolved_at": None if alert.resolved_at is None else write_instant(alert.resolved_at),
        "value": alert.value,
        "summary": alert.summary,
        "run_id": None if alert.run_id is None else format_run_id(alert.run_id),
        "url": alert.url,
    }


def write_instant(instant: datetime) -> str:
    """Return an instant as RFC 3339 has it, in UTC."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")
