"""Alerts, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count, islice
from typing import Any

from mainspring.core.access import EndingToken, Identity
from mainspring.core.alerting import Outgoing, Undelivered, Verdict
from mainspring.core.alerts import Alert, AlertRule, Channel, Silence, channel_key
from mainspring.core.audit import AuditEntry
from mainspring.core.ids import RunId
from mainspring.core.notifications import AlertState, MessageKind
from mainspring.ports.store.alerts import (
    NEVER,
    AlertsSaved,
    FailoverLoss,
    LostSession,
    Notification,
    SettledNotification,
)
from mainspring.ports.store.nodes import Epochs
from mainspring.stores.memory.access import AccessTables
from mainspring.stores.memory.audit import write_audit
from mainspring.stores.memory.tables import Tables


@dataclass(slots=True)
class NotificationRow:
    """A message and what became of it."""

    id: int
    outgoing: Outgoing
    made_at: datetime
    next_at: datetime
    attempts: int = 0
    sent_at: datetime | None = None
    given_up_at: datetime | None = None
    last_error: str | None = None

    @property
    def is_settled(self) -> bool:
        """Whether it was delivered or given up."""
        return self.sent_at is not None or self.given_up_at is not None


@dataclass(slots=True)
class AlertTables:
    """Rules and channels by tenant and name; silences, alerts and messages by id; how many verdicts were saved."""

    rules: dict[tuple[str, str], AlertRule] = field(default_factory=dict)
    channels: dict[tuple[str, str], Channel] = field(default_factory=dict)
    silences: dict[int, Silence] = field(default_factory=dict)
    alerts: dict[int, Alert] = field(default_factory=dict)
    notifications: dict[int, NotificationRow] = field(default_factory=dict)
    sequence: count[int] = field(default_factory=lambda: count(1))
    revision: int = 0


class MemoryAlertStore:
    """`AlertStore` in memory."""

    _tables: Tables
    _access: AccessTables
    _alerts: AlertTables

    def _is_owner(self, epochs: Epochs) -> bool:
        return epochs.get(0) == self._tables.shards[0].epoch

    async def put_alert_rule(self, rule: AlertRule, *, audit: Sequence[AuditEntry] = ()) -> bool:
        return self._put(self._alerts.rules, rule, audit)

    async def add_alert_rules(self, rules: Sequence[AlertRule], *, epochs: Epochs) -> bool:
        if not self._is_owner(epochs):
            return False
        for rule in rules:
            self._alerts.rules.setdefault((rule.tenant, rule.name), rule)
        return True

    async def delete_alert_rule(self, tenant: str, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        is_gone = self._alerts.rules.pop((tenant, name), None) is not None
        write_audit(self._tables, audit, [is_gone])
        return is_gone

    async def list_alert_rules(self) -> list[AlertRule]:
        return [rule for _, rule in sorted(self._alerts.rules.items())]

    async def put_channel(self, channel: Channel, *, audit: Sequence[AuditEntry] = ()) -> bool:
        return self._put(self._alerts.channels, replace(channel, last_error=None, failed_at=None), audit)

    def _put(self, table: dict[tuple[str, str], Any], one: Any, audit: Sequence[AuditEntry]) -> bool:
        key = (one.tenant, one.name)
        is_new = key not in table
        table[key] = one
        write_audit(self._tables, audit, [True])
        return is_new

    async def delete_channel(self, tenant: str, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        is_gone = self._alerts.channels.pop((tenant, name), None) is not None
        if is_gone:
            self._alerts.notifications = {
                row.id: row
                for row in self._alerts.notifications.values()
                if row.is_settled or row.outgoing.channel != channel_key(tenant, name)
            }
        write_audit(self._tables, audit, [is_gone])
        return is_gone

    async def list_channels(self) -> list[Channel]:
        return [channel for _, channel in sorted(self._alerts.channels.items())]

    async def add_silence(self, silence: Silence, *, audit: Sequence[AuditEntry] = ()) -> int:
        silence_id = next(self._alerts.sequence)
        self._alerts.silences[silence_id] = replace(silence, id=silence_id)
        write_audit(self._tables, audit, [True])
        return silence_id

    async def end_silence(
        self, tenant: str, silence_id: int, *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        silence = self._alerts.silences.get(silence_id)
        is_ended = silence is not None and silence.tenant == tenant and silence.until_at > now
        if silence is not None and is_ended:
            ended = replace(silence, from_at=min(silence.from_at, now), until_at=now)
            self._alerts.silences[silence_id] = ended
        write_audit(self._tables, audit, [is_ended])
        return is_ended

    async def list_silences(self, *, ending_after: datetime) -> list[Silence]:
        return [silence for silence in self._alerts.silences.values() if silence.until_at > ending_after]

    async def list_open_alerts(self) -> list[Alert]:
        return [alert for alert in self._alerts.alerts.values() if alert.state is not AlertState.RESOLVED]

    async def list_alerts(
        self,
        tenants: Sequence[str] | None,
        *,
        states: Sequence[AlertState],
        before: int | None = None,
        limit: int = 100,
    ) -> list[Alert]:
        found = (
            alert
            for alert in reversed(self._alerts.alerts.values())
            if (tenants is None or alert.tenant in tenants)
            and alert.state in states
            and (before is None or alert.id < before)
        )
        return list(islice(found, limit))

    async def acknowledge_alert(
        self,
        tenants: Sequence[str],
        alert_id: int,
        *,
        by: str,
        now: datetime,
        audit: Sequence[AuditEntry] = (),
    ) -> Alert | None:
        alert = self._alerts.alerts.get(alert_id)
        if alert is None or alert.tenant not in tenants:
            return None
        is_new = alert.acknowledged_at is None
        if is_new:
            alert = replace(alert, acknowledged_by=by, acknowledged_at=now)
            self._alerts.alerts[alert_id] = alert
        write_audit(self._tables, audit, [is_new])
        return alert

    async def read_alert_revision(self) -> int:
        return self._alerts.revision

    async def save_alerts(
        self,
        verdict: Verdict,
        *,
        revision: int,
        epochs: Epochs,
        now: datetime,
        noticed: Sequence[RunId] = (),
    ) -> AlertsSaved:
        if not self._is_owner(epochs):
            return AlertsSaved.FENCED
        if revision != self._alerts.revision:
            return AlertsSaved.OUTDATED
        self._alerts.revision += 1
        for run_id in noticed:
            if run_id in self._tables.runs:
                self._tables.runs[run_id].is_unnoticed = False
        alerts = self._alerts.alerts
        for alert in verdict.added:
            if not any(_is_same(alert, other) for other in alerts.values()):
                new = replace(alert, id=next(self._alerts.sequence))
                alerts[new.id] = new
        for alert in verdict.changed:
            old = alerts.get(alert.id)
            if old is not None and old.state is not AlertState.RESOLVED:
                alerts[alert.id] = replace(
                    alert, acknowledged_by=old.acknowledged_by, acknowledged_at=old.acknowledged_at
                )
        for alert_id in verdict.removed:
            if alert_id in alerts and alerts[alert_id].state is AlertState.PENDING:
                del alerts[alert_id]
        self._note_given_up(verdict, now)
        self._drop_repeats(verdict.outgoing)
        for outgoing in verdict.outgoing:
            row = NotificationRow(next(self._alerts.sequence), outgoing, made_at=now, next_at=now)
            self._alerts.notifications[row.id] = row
        return AlertsSaved.DONE

    def _note_given_up(self, verdict: Verdict, now: datetime) -> None:
        rows = self._alerts.notifications
        for row_id in verdict.given_up:
            rows[row_id].given_up_at = rows[row_id].next_at = now
        for row_id in verdict.dropped:
            del rows[row_id]
        for row_id, message in verdict.rewritten:
            rows[row_id].outgoing = replace(rows[row_id].outgoing, message=message)

    def _drop_repeats(self, outgoing: Sequence[Outgoing]) -> None:
        told = {(one.channel, one.group) for one in outgoing if one.message.kind is MessageKind.REPEAT}
        self._alerts.notifications = {
            row.id: row
            for row in self._alerts.notifications.values()
            if row.is_settled
            or (row.attempts and row.last_error is None)
            or row.outgoing.message.kind is not MessageKind.REPEAT
            or (row.outgoing.channel, row.outgoing.group) not in told
        }

    async def list_lost_sessions(self, *, since: datetime) -> list[LostSession]:
        return [
            LostSession(id=row.id, worker=row.offer.worker, host=row.offer.host, ended_at=row.ended_at)
            for row in self._tables.sessions.values()
            if row.is_lost and row.ended_at is not None and row.ended_at >= since
        ]

    async def list_failovers(self, *, since: datetime) -> list[FailoverLoss]:
        return []

    async def list_expiring_tokens(
        self, *, after: datetime, before: datetime, limit: int
    ) -> list[EndingToken]:
        tokens = [each.token for each in self._access.tokens.values()]
        replaced = {token.replaces for token in tokens}
        found = []
        for token in tokens:
            identity = Identity(token, self._access.accounts[token.account], 0)
            is_left_out = identity.is_revoked or token.is_session or token.prefix in replaced
            if not is_left_out and identity.ends_at is not None and after < identity.ends_at < before:
                found.append(EndingToken(token=token, ends_at=identity.ends_at))
        return sorted(found, key=lambda each: (each.ends_at, each.token.prefix))[:limit]

    async def take_notifications(
        self,
        *,
        epochs: Epochs,
        now: datetime,
        again_at: datetime,
        limit: int,
        busy: Sequence[str] = (),
        busy_tenants: Sequence[str] = (),
    ) -> list[Notification]:
        if not self._is_owner(epochs):
            return []
        first: dict[tuple[str, str], int] = {}
        rows = [row for row in self._alerts.notifications.values() if not row.is_settled]
        for row in rows:
            first.setdefault((row.outgoing.channel, row.outgoing.group), row.id)
        first_ids = {row_id for (channel, _), row_id in first.items() if channel not in busy}
        due = [
            row
            for row in rows
            if row.next_at <= now
            and row.id in first_ids
            and row.outgoing.channel.partition("/")[0] not in busy_tenants
        ]
        taken = sorted(due, key=lambda row: (row.next_at, row.id))[:limit]
        for row in taken:
            row.attempts, row.next_at, row.last_error = row.attempts + 1, again_at, None
        return [
            Notification(
                id=row.id,
                channel=row.outgoing.channel,
                attempts=row.attempts,
                message=replace(row.outgoing.message, id=f"ntf_{row.id}"),
                made_at=row.made_at,
            )
            for row in sorted(taken, key=lambda row: row.id)
        ]

    async def list_undelivered(self, *, limit: int) -> list[Undelivered]:
        rows = [row for row in self._alerts.notifications.values() if not row.is_settled]
        stalled = dict.fromkeys(
            (row.outgoing.channel, row.outgoing.group) for row in rows if row.next_at >= NEVER
        )
        wanted = set(islice(stalled, limit))
        return [
            Undelivered(
                id=row.id,
                channel=row.outgoing.channel,
                group=row.outgoing.group,
                message=row.outgoing.message,
                is_given_up=row.next_at >= NEVER,
            )
            for row in rows
            if (row.outgoing.channel, row.outgoing.group) in wanted
        ]

    async def settle_notifications(
        self, settled: Sequence[SettledNotification], *, epochs: Epochs, now: datetime
    ) -> bool:
        if not self._is_owner(epochs):
            return False
        for one in settled:
            row = self._alerts.notifications.get(one.notification.id)
            if row is None or row.is_settled or row.attempts != one.notification.attempts:
                continue
            row.last_error, row.next_at = one.error, one.next_at or row.next_at
            if one.error is None:
                row.sent_at = now
            elif one.next_at is None:
                row.given_up_at = now
            if row.is_settled and row.outgoing.message.kind is MessageKind.REPEAT:
                del self._alerts.notifications[row.id]
            self._note_delivery(row.outgoing.channel, one.error, now)
        return True

    def _note_delivery(self, key: str, error: str | None, now: datetime) -> None:
        tenant, _, name = key.partition("/")
        channel = self._alerts.channels.get((tenant, name))
        if channel is not None:
            failed_at = None if error is None else now
            self._alerts.channels[tenant, name] = replace(channel, last_error=error, failed_at=failed_at)

    async def prune_alerts(self, *, before: datetime, limit: int, epochs: Epochs) -> int:
        if not self._is_owner(epochs):
            return 0
        tables = self._alerts
        old = [a.id for a in tables.alerts.values() if a.resolved_at is not None and a.resolved_at < before]
        sent = [row.id for row in tables.notifications.values() if row.is_settled and row.made_at < before]
        for alert_id in old[:limit]:
            del tables.alerts[alert_id]
        for row_id in sent[:limit]:
            del tables.notifications[row_id]
        tables.silences = {one.id: one for one in tables.silences.values() if one.until_at >= before}
        return len(old[:limit]) + len(sent[:limit])


def _is_same(new: Alert, other: Alert) -> bool:
    """Say whether an alert of the same rule about the same thing is open."""
    return other.state is not AlertState.RESOLVED and (
        (new.rule_tenant, new.rule, new.tenant, new.subject)
        == (other.rule_tenant, other.rule, other.tenant, other.subject)
    )
