"""Alerts, on SQLite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import apsw

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
from mainspring.stores.sqlite.access import find_ending
from mainspring.stores.sqlite.audit import write_audit
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.nodes import owns_shard_0
from mainspring.stores.sqlite.rows import (
    NamedRow,
    to_instant,
    to_json,
    to_micros,
    to_optional_instant,
    to_optional_micros,
)
from mainspring.stores.sqlite.statements import execute, fetch_row, fetch_rows, fetch_value, fetch_values

_LAST_ID = 2**63 - 1


class SqliteAlertStore:
    """Implements `AlertStore`."""

    _browser: Database
    _reader: Database
    _writer: Database

    async def put_alert_rule(self, rule: AlertRule, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """See `AlertStore`."""
        return await self._put("find_alert_rule", "put_alert_rule", _values_of_rule(rule), audit)

    async def add_alert_rules(self, rules: Sequence[AlertRule], *, epochs: Epochs) -> bool:
        """See `AlertStore`."""

        def work(db: apsw.Connection) -> bool:
            if not owns_shard_0(db, epochs):
                return False
            for rule in rules:
                execute(db, "add_alert_rule", _values_of_rule(rule))
            return True

        return await self._writer.call(work)

    async def delete_alert_rule(self, tenant: str, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """See `AlertStore`."""
        return await self._delete(("delete_alert_rule",), tenant, name, audit)

    async def list_alert_rules(self) -> list[AlertRule]:
        """See `AlertStore`."""
        texts = await self._reader.call(lambda db: fetch_values(db, "list_alert_rules"))
        return [decode_rule(text) for text in texts]

    async def put_channel(self, channel: Channel, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """See `AlertStore`."""
        values = {"tenant": channel.tenant, "name": channel.name, "settings": encode_channel(channel)}
        return await self._put("find_channel", "put_channel", values, audit)

    async def delete_channel(self, tenant: str, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """See `AlertStore`."""
        return await self._delete(("delete_channel", "delete_undelivered"), tenant, name, audit)

    async def _put(self, find: str, put: str, values: Mapping[str, Any], audit: Sequence[AuditEntry]) -> bool:
        key = {"tenant": values["tenant"], "name": values["name"]}

        def work(db: apsw.Connection) -> bool:
            is_new = fetch_value(db, find, key) is None
            execute(db, put, values)
            write_audit(db, audit, [True])
            return is_new

        return await self._writer.call(work)

    async def _delete(
        self, queries: Sequence[str], tenant: str, name: str, audit: Sequence[AuditEntry]
    ) -> bool:
        values = {"tenant": tenant, "name": name}

        def work(db: apsw.Connection) -> bool:
            delete, *others = queries
            is_gone = bool(fetch_values(db, delete, values))
            for query in others:
                execute(db, query, values)
            write_audit(db, audit, [is_gone])
            return is_gone

        return await self._writer.call(work)

    async def list_channels(self) -> list[Channel]:
        """See `AlertStore`."""
        rows = await self._reader.call(lambda db: fetch_rows(db, "list_channels"))
        return [
            make_channel(
                row.tenant,
                row.name,
                row.settings,
                last_error=row.last_error,
                failed_at=to_optional_instant(row.failed_at),
            )
            for row in rows
        ]

    async def add_silence(self, silence: Silence, *, audit: Sequence[AuditEntry] = ()) -> int:
        """See `AlertStore`."""
        values = {
            "tenant": silence.tenant,
            "rule": silence.rule,
            "subject": silence.subject,
            "from_at": to_micros(silence.from_at),
            "until_at": to_micros(silence.until_at),
            "reason": silence.reason,
            "made_by": silence.made_by,
        }

        def work(db: apsw.Connection) -> int:
            silence_id: int = fetch_value(db, "add_silence", values)
            write_audit(db, audit, [True])
            return silence_id

        return await self._writer.call(work)

    async def end_silence(
        self, tenant: str, silence_id: int, *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        """See `AlertStore`."""
        values = {"tenant": tenant, "silence_id": silence_id, "now": to_micros(now)}

        def work(db: apsw.Connection) -> bool:
            is_ended = fetch_value(db, "end_silence", values) is not None
            write_audit(db, audit, [is_ended])
            return is_ended

        return await self._writer.call(work)

    async def list_silences(self, *, ending_after: datetime) -> list[Silence]:
        """See `AlertStore`."""
        values = {"ending_after": to_micros(ending_after)}
        rows = await self._reader.call(lambda db: fetch_rows(db, "list_silences", values))
        return [make_silence(row._asdict(), to_instant) for row in rows]

    async def list_open_alerts(self) -> list[Alert]:
        """See `AlertStore`."""
        return list(map(_alert_of, await self._reader.call(lambda db: fetch_rows(db, "list_open_alerts"))))

    async def list_alerts(
        self,
        tenants: Sequence[str] | None,
        *,
        states: Sequence[AlertState],
        before: int | None = None,
        limit: int = 100,
    ) -> list[Alert]:
        """See `AlertStore`."""
        values: dict[str, Any] = {
            "states": to_json([state.value for state in states]),
            "before": _LAST_ID if before is None else before,
            "limit": limit,
        }
        name = "list_all_alerts"
        if tenants is not None:
            name, values["tenants"] = "list_alerts", to_json(list(tenants))
        return list(map(_alert_of, await self._browser.call(lambda db: fetch_rows(db, name, values))))

    async def acknowledge_alert(
        self,
        tenants: Sequence[str],
        alert_id: int,
        *,
        by: str,
        now: datetime,
        audit: Sequence[AuditEntry] = (),
    ) -> Alert | None:
        """See `AlertStore`."""
        key = {"alert_id": alert_id, "tenants": to_json(list(tenants))}

        def work(db: apsw.Connection) -> NamedRow | None:
            changed = fetch_values(db, "acknowledge_alert", {**key, "by": by, "now": to_micros(now)})
            write_audit(db, audit, [bool(changed)])
            return fetch_row(db, "get_alert", key)

        row = await self._writer.call(work)
        return None if row is None else _alert_of(row)

    async def read_alert_revision(self) -> int:
        """See `AlertStore`."""
        revision: int = await self._reader.call(lambda db: fetch_value(db, "read_alert_revision"))
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
        """See `AlertStore`."""

        def work(db: apsw.Connection) -> AlertsSaved:
            if not owns_shard_0(db, epochs):
                return AlertsSaved.FENCED
            if fetch_value(db, "raise_alert_revision", {"revision": revision}) is None:
                return AlertsSaved.OUTDATED
            if verdict.added:
                execute(db, "add_alerts", {"alerts": encode_alerts(verdict.added, to_micros)})
            if verdict.changed:
                execute(db, "change_alerts", {"alerts": encode_alerts(verdict.changed, to_micros)})
            if verdict.removed:
                execute(db, "remove_alerts", {"alert_ids": to_json(verdict.removed)})
            if noticed:
                execute(db, "notice_failures", {"run_ids": to_json(list(noticed))})
            if verdict.given_up:
                _note_given_up(db, verdict, to_micros(now))
            for repeat in repeats_of(verdict.outgoing):
                execute(db, "drop_repeats", repeat)
            if verdict.outgoing:
                values = {"notifications": encode_outgoing(verdict.outgoing), "now": to_micros(now)}
                execute(db, "add_notifications", values)
            return AlertsSaved.DONE

        return await self._writer.call(work)

    async def list_lost_sessions(self, *, since: datetime) -> list[LostSession]:
        """See `AlertStore`."""
        values = {"since": to_micros(since)}
        rows = await self._reader.call(lambda db: fetch_rows(db, "list_lost_sessions", values))
        return [
            LostSession(
                id=SessionId(row.id), worker=row.worker, host=row.host, ended_at=to_instant(row.ended_at)
            )
            for row in rows
        ]

    async def list_failovers(self, *, since: datetime) -> list[FailoverLoss]:
        """See `AlertStore`. A file has none."""
        return []

    async def list_expiring_tokens(
        self, *, after: datetime, before: datetime, limit: int
    ) -> list[EndingToken]:
        """See `AlertStore`."""
        return await self._reader.call(lambda db: find_ending(db, after=after, before=before, limit=limit))

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
        """See `AlertStore`."""
        values = {
            "now": to_micros(now),
            "again_at": to_micros(again_at),
            "limit": limit,
            "busy": to_json(list(busy)),
            "busy_tenants": to_json(list(busy_tenants)),
        }

        def work(db: apsw.Connection) -> list[NamedRow]:
            return fetch_rows(db, "take_notifications", values) if owns_shard_0(db, epochs) else []

        rows = await self._writer.call(work)
        taken = [make_notification(row._asdict(), to_instant(row.made_at)) for row in rows]
        return sorted(taken, key=lambda one: one.id)

    async def list_undelivered(self, *, limit: int) -> list[Undelivered]:
        """See `AlertStore`."""
        values = {"never": to_micros(NEVER), "limit": limit}
        rows = await self._reader.call(lambda db: fetch_rows(db, "list_undelivered", values))
        return [make_undelivered(row._asdict()) for row in rows]

    async def settle_notifications(
        self, settled: Sequence[SettledNotification], *, epochs: Epochs, now: datetime
    ) -> bool:
        """See `AlertStore`."""

        def work(db: apsw.Connection) -> bool:
            if not owns_shard_0(db, epochs):
                return False
            for one in settled:
                _settle(db, one, to_micros(now))
            return True

        return await self._writer.call(work)

    async def prune_alerts(self, *, before: datetime, limit: int, epochs: Epochs) -> int:
        """See `AlertStore`."""
        values = {"before": to_micros(before), "limit": limit}

        def work(db: apsw.Connection) -> int:
            if not owns_shard_0(db, epochs):
                return 0
            execute(db, "prune_alerts", values)
            gone = db.changes()
            execute(db, "prune_notifications", values)
            gone += db.changes()
            execute(db, "prune_silences", {"before": to_micros(before)})
            return gone

        return await self._writer.call(work)


def _note_given_up(db: apsw.Connection, verdict: Verdict, now: int) -> None:
    given_up, dropped = to_json(list(verdict.given_up)), to_json(list(verdict.dropped))
    execute(db, "give_up_notifications", {"notification_ids": given_up, "now": now})
    execute(db, "drop_notifications", {"notification_ids": dropped})
    execute(db, "rewrite_notifications", {"messages": encode_rewritten(verdict.rewritten)})


def _settle(db: apsw.Connection, settled: SettledNotification, now: int) -> None:
    notification = settled.notification
    values = {
        "notification_id": notification.id,
        "attempts": notification.attempts,
        "again_at": to_optional_micros(settled.next_at),
        "error": settled.error,
        "now": now,
    }
    channel = fetch_row(db, "settle_notification", values)
    if is_over_repeat(settled):
        execute(db, "forget_repeat", {"notification_id": notification.id})
    if channel is not None:
        key = {"tenant": channel.channel_tenant, "name": channel.channel}
        execute(db, "note_delivery", {**key, "error": settled.error, "now": now})


def _values_of_rule(rule: AlertRule) -> dict[str, Any]:
    return {"tenant": rule.tenant, "name": rule.name, "rule": encode(rule)}


def _alert_of(row: NamedRow) -> Alert:
    return make_alert(row._asdict(), to_optional_instant)
