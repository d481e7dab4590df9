"""Alerts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from asyncpg import Record

from mainspring.core.access import EndingToken
from mainspring.core.alerting import Undelivered, Verdict
from mainspring.core.alerts import Alert, AlertRule, Channel, Silence
from mainspring.core.audit import AuditEntry
from mainspring.core.ids import RunId, SessionId
from mainspring.core.notifications import AlertState
from mainspring.ports.store.alerts import (
    NEVER,
    AlertsSaved,
    FailoverLoss,
    LostSession,
    Notification,
    SettledNotification,
)
from mainspring.ports.store.nodes import Epochs
from mainspring.stores._sql.alerts import (
    decode_rule,
    encode,
    encode_alerts,
    encode_channel,
    encode_outgoing,
    encode_rewritten,
    is_over_repeat,
    make_alert,
    make_channel,
    make_notification,
    make_silence,
    make_undelivered,
    repeats_of,
)
from mainspring.stores.postgres.access import ending_of, values_of_ending
from mainspring.stores.postgres.audit import write_audit
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.nodes import holds_shard_0
from mainspring.stores.postgres.rows import LAST_ID


class PostgresAlertStore:
    """`AlertStore` on PostgreSQL."""

    _connections: Connections

    async def put_alert_rule(self, rule: AlertRule, *, audit: Sequence[AuditEntry] = ()) -> bool:
        async def work(transaction: Transaction) -> bool:
            [row] = await transaction.fetch(
                "put_alert_rule", tenant=rule.tenant, name=rule.name, rule=encode(rule)
            )
            await write_audit(transaction, audit, [True])
            return bool(row["is_new"])

        return await self._connections.transact(Role.EDIT, work)

    async def add_alert_rules(self, rules: Sequence[AlertRule], *, epochs: Epochs) -> bool:
        async def work(transaction: Transaction) -> bool:
            if not await holds_shard_0(transaction, epochs):
                return False
            for rule in rules:
                await transaction.execute(
                    "add_alert_rule", tenant=rule.tenant, name=rule.name, rule=encode(rule)
                )
            return True

        return await self._connections.transact(Role.UPKEEP, work, is_repeatable=True)

    async def delete_alert_rule(self, tenant: str, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        async def work(transaction: Transaction) -> bool:
            gone = await transaction.fetch("delete_alert_rule", tenant=tenant, name=name)
            await write_audit(transaction, audit, [bool(gone)])
            return bool(gone)

        return await self._connections.transact(Role.EDIT, work)

    async def list_alert_rules(self) -> list[AlertRule]:
        rows = await self._connections.fetch(Role.READ, "list_alert_rules", is_repeatable=True)
        return [decode_rule(row["rule"]) for row in rows]

    async def put_channel(self, channel: Channel, *, audit: Sequence[AuditEntry] = ()) -> bool:
        async def work(transaction: Transaction) -> bool:
            [row] = await transaction.fetch(
                "put_channel", tenant=channel.tenant, name=channel.name, settings=encode_channel(channel)
            )
            await write_audit(transaction, audit, [True])
            return bool(row["is_new"])

        return await self._connections.transact(Role.EDIT, work)

    async def delete_channel(self, tenant: str, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        async def work(transaction: Transaction) -> bool:
            gone = await transaction.fetch("delete_channel", tenant=tenant, name=name)
            if gone:
                await transaction.execute("delete_undelivered", tenant=tenant, name=name)
            await write_audit(transaction, audit, [bool(gone)])
            return bool(gone)

        return await self._connections.transact(Role.EDIT, work)

    async def list_channels(self) -> list[Channel]:
        rows = await self._connections.fetch(Role.READ, "list_channels", is_repeatable=True)
        return [
            make_channel(
                row["tenant"],
                row["name"],
                row["settings"],
                last_error=row["last_error"],
                failed_at=row["failed_at"],
            )
            for row in rows
        ]

    async def add_silence(self, silence: Silence, *, audit: Sequence[AuditEntry] = ()) -> int:
        async def work(transaction: Transaction) -> int:
            [row] = await transaction.fetch(
                "add_silence",
                tenant=silence.tenant,
                rule=silence.rule,
                subject=silence.subject,
                from_at=silence.from_at,
                until_at=silence.until_at,
                reason=silence.reason,
                made_by=silence.made_by,
            )
            await write_audit(transaction, audit, [True])
            return int(row["id"])

        return await self._connections.transact(Role.EDIT, work)

    async def end_silence(
        self, tenant: str, silence_id: int, *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        async def work(transaction: Transaction) -> bool:
            ended = await transaction.fetch("end_silence", tenant=tenant, silence_id=silence_id, now=now)
            await write_audit(transaction, audit, [bool(ended)])
            return bool(ended)

        return await self._connections.transact(Role.EDIT, work)

    async def list_silences(self, *, ending_after: datetime) -> list[Silence]:
        rows = await self._connections.fetch(
            Role.READ, "list_silences", is_repeatable=True, ending_after=ending_after
        )
        return [make_silence(dict(row), _same) for row in rows]

    async def list_open_alerts(self) -> list[Alert]:
        rows = await self._connections.fetch(Role.UPKEEP, "list_open_alerts", is_repeatable=True)
        return [_alert_of(row) for row in rows]

    async def list_alerts(
        self,
        tenants: Sequence[str] | None,
        *,
        states: Sequence[AlertState],
        before: int | None = None,
        limit: int = 100,
    ) -> list[Alert]:
        values = {} if tenants is None else {"tenants": list(tenants)}
        rows = await self._connections.fetch(
            Role.BROWSE,
            "list_all_alerts" if tenants is None else "list_alerts",
            is_repeatable=True,
            **values,
            states=[state.value for state in states],
            before=LAST_ID if before is None else before,
            limit=limit,
        )
        return [_alert_of(row) for row in rows]

    async def acknowledge_alert(
        self,
        tenants: Sequence[str],
        alert_id: int,
        *,
        by: str,
        now: datetime,
        audit: Sequence[AuditEntry] = (),
    ) -> Alert | None:
        async def work(transaction: Transaction) -> list[Record]:
            key = {"alert_id": alert_id, "tenants": list(tenants)}
            changed = await transaction.fetch("acknowledge_alert", **key, by=by, now=now)
            await write_audit(transaction, audit, [bool(changed)])
            return await transaction.fetch("get_alert", **key)

        rows = await self._connections.transact(Role.EDIT, work)
        return _alert_of(rows[0]) if rows else None

    async def read_alert_revision(self) -> int:
        [row] = await self._connections.fetch(Role.READ, "read_alert_revision", is_repeatable=True)
        revision: int = row["number"]
        return revision

    async def save_alerts(
        self,
        verdict: Verdict,
        *,
        revision: int,
        epochs: Epochs,
        now: datetime,
        noticed: Sequence[RunId] = (),
    ) -> AlertsSaved:
        async def work(transaction: Transaction) -> AlertsSaved:
            if not await holds_shard_0(transaction, epochs):
                return AlertsSaved.FENCED
            if not await transaction.fetch("raise_alert_revision", revision=revision):
                return AlertsSaved.OUTDATED
            if verdict.added:
                await transaction.execute(
                    "add_alerts", alerts=encode_alerts(verdict.added, datetime.isoformat)
                )
            if verdict.changed:
                await transaction.execute(
                    "change_alerts", alerts=encode_alerts(verdict.changed, datetime.isoformat)
                )
            if verdict.removed:
                await transaction.execute("remove_alerts", alert_ids=list(verdict.removed))
            if noticed:
                await transaction.execute("notice_failures", run_ids=list(noticed))
            if verdict.given_up:
                await _note_given_up(transaction, verdict, now)
            for repeat in repeats_of(verdict.outgoing):
                await transaction.execute("drop_repeats", **repeat)
            if verdict.outgoing:
                notifications = encode_outgoing(verdict.outgoing)
                await transaction.execute("add_notifications", notifications=notifications, now=now)
            return AlertsSaved.DONE

        return await self._connections.transact(Role.UPKEEP, work)

    async def list_lost_sessions(self, *, since: datetime) -> list[LostSession]:
        rows = await self._connections.fetch(
            Role.BROWSE, "list_lost_sessions", is_repeatable=True, since=since
        )
        return [
            LostSession(
                id=SessionId(row["id"]), worker=row["worker"], host=row["host"], ended_at=row["ended_at"]
            )
            for row in rows
        ]

    async def list_failovers(self, *, since: datetime) -> list[FailoverLoss]:
        rows = await self._connections.fetch(Role.BROWSE, "list_failovers", is_repeatable=True, since=since)
        return [FailoverLoss(noticed_at=row["noticed_at"], runs_lost=row["runs_lost"]) for row in rows]

    async def list_expiring_tokens(
        self, *, after: datetime, before: datetime, limit: int
    ) -> list[EndingToken]:
        values = values_of_ending(after=after, before=before, limit=limit)
        rows = await self._connections.fetch(
            Role.BROWSE, "list_expiring_tokens", is_repeatable=True, **values
        )
        return list(map(ending_of, rows))

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
        async def work(transaction: Transaction) -> list[Record]:
            if not await holds_shard_0(transaction, epochs):
                return []
            return await transaction.fetch(
                "take_notifications",
                now=now,
                again_at=again_at,
                limit=limit,
                busy=list(busy),
                busy_tenants=list(busy_tenants),
            )

        rows = await self._connections.transact(Role.UPKEEP, work)
        taken = [make_notification(dict(row), row["made_at"]) for row in rows]
        return sorted(taken, key=lambda one: one.id)

    async def list_undelivered(self, *, limit: int) -> list[Undelivered]:
        rows = await self._connections.fetch(
            Role.UPKEEP, "list_undelivered", is_repeatable=True, never=NEVER, limit=limit
        )
        return [make_undelivered(dict(row)) for row in rows]

    async def settle_notifications(
        self, settled: Sequence[SettledNotification], *, epochs: Epochs, now: datetime
    ) -> bool:
        async def work(transaction: Transaction) -> bool:
            if not await holds_shard_0(transaction, epochs):
                return False
            for one in settled:
                await _settle(transaction, one, now)
            return True

        return await self._connections.transact(Role.UPKEEP, work, is_repeatable=True)

    async def prune_alerts(self, *, before: datetime, limit: int, epochs: Epochs) -> int:
        async def work(transaction: Transaction) -> int:
            if not await holds_shard_0(transaction, epochs):
                return 0
            gone = await transaction.execute("prune_alerts", before=before, limit=limit)
            gone += await transaction.execute("prune_notifications", before=before, limit=limit)
            await transaction.execute("prune_silences", before=before)
            await transaction.execute("prune_failovers", before=before)
            return gone

        return await self._connections.transact(Role.UPKEEP, work, is_repeatable=True)


async def _note_given_up(transaction: Transaction, verdict: Verdict, now: datetime) -> None:
    await transaction.execute("give_up_notifications", notification_ids=list(verdict.given_up), now=now)
    if verdict.dropped:
        await transaction.execute("drop_notifications", notification_ids=list(verdict.dropped))
    if verdict.rewritten:
        await transaction.execute("rewrite_notifications", messages=encode_rewritten(verdict.rewritten))


async def _settle(transaction: Transaction, settled: SettledNotification, now: datetime) -> None:
    notification = settled.notification
    channels = await transaction.fetch(
        "settle_notification",
        notification_id=notification.id,
        attempts=notification.attempts,
        again_at=settled.next_at,
        error=settled.error,
        now=now,
    )
    if is_over_repeat(settled):
        await transaction.execute("forget_repeat", notification_id=notification.id)
    for row in channels:
        await transaction.execute(
            "note_delivery", tenant=row["channel_tenant"], name=row["channel"], error=settled.error, now=now
        )


def _alert_of(row: Record) -> Alert:
    return make_alert(dict(row), _same)


def _same(instant: datetime) -> datetime:
    return instant
