"""The restrictions that every claim keeps, and the policy epoch that makes it keep them, on SQLite."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import apsw

from mainspring.core.audit import AuditEntry
from mainspring.core.blackouts import Blackout, renew_blackout
from mainspring.core.ids import KeyId
from mainspring.core.lane_caps import KnownCap, LaneCaps, cap_key_of
from mainspring.core.pauses import KEPT, LanePauses, Pause, PauseKey, PauseMode, PauseScope, renew
from mainspring.ports.store.restrictions import KEEPS_RESTRICTIONS, BlackoutsWritten, Restrictions
from mainspring.stores.sqlite.audit import write_audit
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.rows import (
    NamedRow,
    to_instant,
    to_micros,
    to_optional_instant,
    to_optional_micros,
)
from mainspring.stores.sqlite.statements import execute, execute_many, fetch_row, fetch_rows, fetch_value


class SqliteRestrictionStore:
    """`RestrictionStore` on SQLite."""

    _reader: Database
    _writer: Database

    async def read_restrictions(self, *, known: int | None = None) -> Restrictions | None:
        """See `RestrictionStore`."""

        def read(db: apsw.Connection) -> Restrictions | None:
            rows = fetch_rows(db, "read_restrictions", {"known": known})
            if not rows:
                return None
            held = [row for row in rows if row.scope is not None]
            pauses = LanePauses(_pause_of(row) for row in held if row.calendar is None)
            blackouts = [_blackout_of(row) for row in held if row.calendar is not None]
            blackouts.sort(key=lambda one: (one.key, one.tenant, one.calendar))
            # If these caps are newer than the epoch, claims under it give nothing.
            return Restrictions(rows[0].number, pauses, tuple(blackouts), _read_caps(db))

        return await self._reader.call(read)

    async def list_older_programs(self, *, protocol: int = KEEPS_RESTRICTIONS) -> list[str]:
        """See `RestrictionStore`."""
        return []  # only one process uses the file

    async def add_pauses(
        self, pauses: Sequence[Pause], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[str]:
        """See `RestrictionStore`."""
        if pauses:
            await self._writer.call(lambda db: write_audit(db, audit, _add(db, pauses, now)))
        return []  # only one process uses the file

    async def lift_pauses(
        self, keys: Sequence[PauseKey], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        """See `RestrictionStore`."""
        if not keys:
            return []

        def work(db: apsw.Connection) -> list[bool]:
            were_on = _lift(db, keys, now)
            write_audit(db, audit, were_on)
            return were_on

        return await self._writer.call(work)

    async def set_blackouts(
        self,
        key: PauseKey,
        blackouts: Sequence[Blackout],
        *,
        revision: int,
        now: datetime,
        audit: Sequence[AuditEntry] = (),
    ) -> BlackoutsWritten:
        """See `RestrictionStore`."""

        def work(db: apsw.Connection) -> BlackoutsWritten:
            if fetch_value(db, "read_calendar_revision") != revision:
                return BlackoutsWritten(is_moved=True)
            place = {"scope": key.scope.value, "name": key.name}
            rows = fetch_rows(db, "find_blackouts", place)
            before = {(one.tenant, one.calendar): one for one in map(_blackout_of, rows)}
            execute(db, "delete_blackouts", place)
            renewed = [renew_blackout(one, before.get((one.tenant, one.calendar))) for one in blackouts]
            execute_many(db, "add_blackout", [_values_of_blackout(one) for one in renewed])
            take_effect(db, now)
            write_audit(db, audit, [set(renewed) != set(before.values())])
            return BlackoutsWritten()

        return await self._writer.call(work)

    async def begin_blackouts(self, begun_at: datetime, *, now: datetime) -> bool:
        """See `RestrictionStore`."""
        values = {"begun_at": to_micros(begun_at), "now": to_micros(now)}

        def work(db: apsw.Connection) -> bool:
            epoch = fetch_value(db, "begin_policy_epoch", values)
            if epoch is not None:
                execute(db, "raise_session_epochs", {"policy_epoch": epoch})
            return epoch is not None

        return await self._writer.call(work)


def _add(db: apsw.Connection, pauses: Sequence[Pause], now: datetime) -> list[bool]:
    """Write pauses, and return for each whether it is another one than before."""
    last = {pause.key: pause for pause in pauses}
    before = _find(db, last)
    renewed = {key: renew(pause, before.get(key)) for key, pause in last.items()}
    execute_many(db, "write_pause", [_values_of(pause) for pause in renewed.values()])
    take_effect(db, now)
    return [renewed[pause.key] != before.get(pause.key) for pause in pauses]


def _lift(db: apsw.Connection, keys: Sequence[PauseKey], now: datetime) -> list[bool]:
    known = _find(db, set(keys))
    execute_many(db, "delete_pause", [{"scope": key.scope.value, "name": key.name} for key in known])
    take_effect(db, now)
    return [key in known and known[key].is_on(now) for key in keys]


def _find(db: apsw.Connection, keys: Iterable[PauseKey]) -> dict[PauseKey, Pause]:
    rows = [fetch_row(db, "find_pause", {"scope": key.scope.value, "name": key.name}) for key in keys]
    found = [_pause_of(row) for row in rows if row is not None]
    return {pause.key: pause for pause in found}


def take_effect(db: apsw.Connection, now: datetime) -> None:
    """Have every claim that was chosen before give nothing."""
    execute(db, "prune_pauses", {"before": to_micros(now - KEPT)})
    epoch = fetch_value(db, "raise_policy_epoch", {"now": to_micros(now)})
    execute(db, "raise_session_epochs", {"policy_epoch": epoch})


def _values_of_blackout(blackout: Blackout) -> dict[str, object]:
    return {
        "scope": blackout.scope.value,
        "name": blackout.name,
        "tenant": blackout.tenant,
        "calendar": blackout.calendar,
        "version": blackout.version,
        "is_pinned": blackout.is_pinned,
        "mode": blackout.mode.value,
        "note": blackout.note,
        "maker": blackout.made_by,
        "since": to_micros(blackout.since),
    }


def _blackout_of(row: NamedRow) -> Blackout:
    return Blackout(
        scope=PauseScope(row.scope),
        name=row.name,
        tenant=row.tenant,
        calendar=row.calendar,
        version=row.version,
        is_pinned=bool(row.is_pinned),
        mode=PauseMode(row.mode),
        note=row.note,
        made_by=row.made_by,
        since=to_instant(row.since),
    )


def _read_caps(db: apsw.Connection) -> LaneCaps:
    """Return the caps of lanes that are set."""
    rows = fetch_rows(db, "read_caps")
    return LaneCaps({cap_key_of(row.name): KnownCap(row.max_running, KeyId(row.key_id)) for row in rows})


def _values_of(pause: Pause) -> dict[str, object]:
    return {
        "scope": pause.scope.value,
        "name": pause.name,
        "mode": pause.mode.value,
        "note": pause.note,
        "maker": pause.made_by,
        "since": to_micros(pause.since),
        "until": to_optional_micros(pause.until),
    }


def _pause_of(row: NamedRow) -> Pause:
    return Pause(
        scope=PauseScope(row.scope),
        name=row.name,
        mode=PauseMode(row.mode),
        note=row.note,
        made_by=row.made_by,
        since=to_instant(row.since),
        until=to_optional_instant(row.until),
    )
