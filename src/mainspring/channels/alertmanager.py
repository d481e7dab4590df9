"""Alerts for an Alertmanager of Prometheus, by its API v2. It decides whom to tell, how often, and what is silenced."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from mainspring.channels.posting import Poster
from mainspring.core.channel_settings import AlertmanagerChannel
from mainspring.core.ids import format_run_id
from mainspring.core.notifications import AlertFacts, AlertState, Message, write_instant
from mainspring.egress.secrets import Revealer
from mainspring.ports.clock import Clock

PATH = "/api/v2/alerts"
VALID_FOR = timedelta(minutes=4)
"""An alert that is not sent again for so long has ended: four times `core.channel_settings.RESENT_EACH`."""


class AlertmanagerSender:
    """Posts alerts to Alertmanagers."""

    def __init__(self, poster: Poster, clock: Clock) -> None:
        self._poster = poster
        self._clock = clock

    async def send(self, config: AlertmanagerChannel, message: Message, revealer: Revealer) -> None:
        """Post a message's alerts; see `ports.channel.Sender`."""
        body = json.dumps(write_alerts(message, self._clock.now()), ensure_ascii=False).encode()
        url = revealer.fill(config.url).rstrip("/") + PATH
        await self._poster.post(url, body, revealer.fill_headers(config.headers), revealer)


def write_alerts(message: Message, now: datetime) -> list[dict[str, Any]]:
    """Return the body. Tenant, rule and subject tell alerts apart, so a repeat is the same alert there."""
    return [_write_alert(message, alert, now) for alert in message.alerts]


def _write_alert(message: Message, alert: AlertFacts, now: datetime) -> dict[str, Any]:
    has_ended = alert.state is AlertState.RESOLVED
    ends_at = max(min(alert.resolved_at or now, now), alert.since) if has_ended else now + VALID_FOR
    annotations = {"summary": alert.summary}
    if alert.value is not None:
        annotations["value"] = f"{alert.value:g}"
    if alert.run_id is not None:
        annotations["run_id"] = format_run_id(alert.run_id)
    written = {
        "labels": {
            "alertname": message.rule,
            "tenant": message.tenant,
            "subject": alert.subject,
            "severity": str(message.severity),
            "source": "mainspring",
        },
        "annotations": annotations,
        "startsAt": write_instant(alert.since),
        "endsAt": write_instant(ends_at),
    }
    return written if alert.url is None else {**written, "generatorURL": alert.url}
