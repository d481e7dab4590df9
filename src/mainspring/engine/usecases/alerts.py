"""Use cases on alerts, on the rules that find them, and on silences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from mainspring.core.actors import Actor
from mainspring.core.alert_rules import DEFAULT_RULES, change_rule
from mainspring.core.alerts import (
    MOST_RULES_OF_TENANT,
    MOST_SILENCES_OF_TENANT,
    RULE_OPTIONS,
    Alert,
    AlertRule,
    Silence,
    Silencing,
    check_count,
    find_channel,
)
from mainspring.core.audit import Subject, entries, show_settings
from mainspring.core.fields import read_word
from mainspring.core.model import JobSpec
from mainspring.core.notifications import AlertState
from mainspring.core.rights import ALL_TENANTS
from mainspring.core.times import write_instant
from mainspring.core.values import value
from mainspring.errors import Conflict, InvalidInput, NotFound
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store

OPEN = (AlertState.PENDING, AlertState.FIRING)


@value()
class ShownAlert:
    """An alert, and whether a silence keeps it from being told now."""

    alert: Alert
    is_silenced: bool


class AlertRules:
    """The rules of alerts. Every method acts for one tenant, or for `*`: rules that watch all tenants.

    A tenant's own rule holds for it in place of one of the same name for all tenants.
    """

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def list_all(self, tenant: str) -> list[AlertRule]:
        """Return the rules of a tenant, by name."""
        found = {rule.name: rule for rule in await self._store.list_alert_rules() if rule.tenant == tenant}
        if tenant == ALL_TENANTS:
            found = {**DEFAULT_RULES, **found}  # as they will be, once a server has judged for the first time
        return [found[name] for name in sorted(found)]

    async def get(self, tenant: str, name: str) -> AlertRule:
        """Return a rule.

        Raises:
            NotFound: there is none of that name.
        """
        for rule in await self.list_all(tenant):
            if rule.name == name:
                return rule
        raise NotFound("alert rule", name)

    async def put(
        self, tenant: str, name: str, body: Mapping[str, Any], *, by: Actor | None = None
    ) -> tuple[AlertRule, bool]:
        """Set what a body says, and the defaults for what it leaves out. Return the rule, and whether it is new.

        Raises:
            InvalidInput: a value is wrong, or a channel is not known. Nothing is stored.
            Conflict: the tenant has as many rules as it may.
        """
        rule = change_rule(tenant, read_word(name, "rule"), body)
        await check_channels(self._store, tenant, rule.channels, "channels")
        others = await self.list_all(tenant)
        old = next((one for one in others if one.name == name), None)
        if old is None:
            check_count(len(others), MOST_RULES_OF_TENANT, tenant, field="rule", noun="alert rules")
        audit = entries(
            by,
            Subject(kind="alert_rule", id=name, tenant=tenant),
            at=self._clock.now(),
            before=None if old is None else show_settings(RULE_OPTIONS, old),
            after=show_settings(RULE_OPTIONS, rule),
        )
        await self._store.put_alert_rule(rule, audit=audit)
        return rule, old is None

    async def delete(self, tenant: str, name: str, *, by: Actor | None = None) -> None:
        """Delete a rule. Its alerts end.

        Raises:
            NotFound: there is none of that name.
            Conflict: every store has this rule.
        """
        rule = await self.get(tenant, name)
        if rule.is_default:
            raise Conflict(
                "rule", f"every store has the rule {name!r}; set `enabled` to false and it is not judged"
            )
        subject = Subject(kind="alert_rule", id=name, tenant=tenant)
        before = show_settings(RULE_OPTIONS, rule)
        audit = entries(by, subject, at=self._clock.now(), before=before)
        await self._store.delete_alert_rule(tenant, name, audit=audit)


async def check_channels(store: Store, tenant: str, names: Sequence[str], field: str) -> None:
    """Refuse names of channels that a tenant has not, and that not all tenants have.

    Raises:
        InvalidInput: one is not known.
    """
    if not names:
        return
    channels = {channel.key: channel for channel in await store.list_channels()}
    for place, name in enumerate(names):
        if find_channel(channels, tenant, name) is None:
            known = sorted({one.name for one in channels.values() if one.tenant in {tenant, ALL_TENANTS}})
            others = f"; there are {', '.join(known[:5])}" if known else ""
            raise InvalidInput(
                f"{field}[{place}]",
                f"there is no channel {name!r}: set it first, by `mainspring channel set`{others}",
            )


async def check_notify(
    store: Store, tenant: str, specs: Sequence[JobSpec], *, are_numbered: bool = False
) -> None:
    """Refuse definitions that tell a channel that does not exist.

    Args:
        are_numbered: the field of the error begins with the place of the definition.

    Raises:
        InvalidInput: a channel is not known.
    """
    for index, spec in enumerate(specs):
        if spec.notify is not None:
            prefix = f"[{index}]." if are_numbered else ""
            await check_channels(store, tenant, spec.notify.to, f"{prefix}notify.to")


class Alerts:
    """What rules have found, and who looks after it; silences."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def list_page(
        self,
        tenants: Sequence[str] | None,
        *,
        states: Sequence[AlertState] = OPEN,
        before: int | None = None,
        limit: int = 100,
    ) -> list[ShownAlert]:
        """Return a page of the alerts of some tenants, or of all, the newest first."""
        found = await self._store.list_alerts(tenants, states=states, before=before, limit=limit)
        return await self._show(found)

    async def _show(self, alerts: Sequence[Alert]) -> list[ShownAlert]:
        now = self._clock.now()
        silencing = Silencing(await self._store.list_silences(ending_after=now) if alerts else [], now)
        return [ShownAlert(alert, silencing.mutes(alert)) for alert in alerts]

    async def acknowledge(
        self, tenants: Sequence[str], alert_id: int, *, made_by: str, by: Actor | None = None
    ) -> ShownAlert:
        """Note who looks after an alert, unless somebody does already. It is told as before.

        Raises:
            NotFound: these tenants have no such alert.
        """
        now = self._clock.now()
        audit = entries(
            by, Subject(kind="alert", id=str(alert_id), tenant=tenants[0]), at=now, after={"by": made_by}
        )
        alert = await self._store.acknowledge_alert(tenants, alert_id, by=made_by, now=now, audit=audit)
        if alert is None:
            raise NotFound("alert", str(alert_id))
        [shown] = await self._show([alert])
        return shown

    async def list_silences(self, tenant: str) -> list[Silence]:
        """Return the silences of a tenant that have not ended, in the order in which they were made."""
        found = await self._store.list_silences(ending_after=self._clock.now())
        return [silence for silence in found if silence.tenant == tenant]

    async def add_silence(
        self,
        tenant: str,
        *,
        rule: str | None,
        subject: str | None,
        from_at: datetime | None,
        period: timedelta,
        reason: str,
        made_by: str,
        by: Actor | None = None,
    ) -> Silence:
        """Tell nothing of some alerts for a while, from now or from an instant on.

        Raises:
            InvalidInput: it would be over already.
            Conflict: the tenant has as many silences as it may.
        """
        now = self._clock.now()
        begin = now if from_at is None else from_at
        silence = Silence(
            id=0,
            tenant=tenant,
            rule=rule,
            subject=subject,
            from_at=begin,
            until_at=begin + period,
            reason=reason,
            made_by=made_by,
        )
        if silence.until_at <= now:
            raise InvalidInput("from_time", "the silence would be over already")
        after = {
            "rule": rule,
            "subject": subject,
            "until": write_instant(silence.until_at),
            "reason": reason,
        }
        held = len(await self.list_silences(tenant))
        check_count(held, MOST_SILENCES_OF_TENANT, tenant, field="silence", noun="silences")
        audit = entries(by, Subject(kind="silence", id="", tenant=tenant), at=now, after=after)
        silence_id = await self._store.add_silence(silence, audit=audit)
        return replace(silence, id=silence_id)

    async def end_silence(self, tenant: str, silence_id: int, *, by: Actor | None = None) -> None:
        """End a silence now. What still fires is told at once.

        Raises:
            NotFound: the tenant has no such silence, or it is over.
        """
        now = self._clock.now()
        audit = entries(by, Subject(kind="silence", id=str(silence_id), tenant=tenant), at=now)
        if not await self._store.end_silence(tenant, silence_id, now=now, audit=audit):
            raise NotFound("silence", str(silence_id))
