"""Judges the rules of alerts by what the store holds, and writes what is to be told into the store."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from mainspring.core.alert_facts import judge_rule
from mainspring.core.alert_rules import DEFAULT_RULES
from mainspring.core.alert_seen import SeenByTenant
from mainspring.core.alerting import Judgement, Verdict, judge_alerts
from mainspring.core.alerts import Alert, AlertRule, Channel
from mainspring.core.notifications import AlertState
from mainspring.core.rights import ALL_TENANTS
from mainspring.engine.scheduling.alert_reading import AlertReader
from mainspring.engine.scheduling.job_alerts import MOST_FAILURES, JobAlerts
from mainspring.engine.scheduling.monitor_figures import MonitorFigures
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.ports.clock import Waiter
from mainspring.ports.store import Store
from mainspring.ports.store.alerts import AlertsSaved
from mainspring.ports.store.nodes import Epochs
from mainspring.ports.telemetry import Measure

_log = structlog.get_logger(__name__)
PERIOD = 10.0
_SOONEST = 0.2
KEEP = timedelta(days=30)
"""For how long alerts that are resolved, and messages that were delivered, can be looked at."""
_PRUNE_EVERY = timedelta(hours=1)
_PRUNED_AT_ONCE = 1000
_MOST_UNDELIVERED = 100
"""Groups of messages that are looked at in one tick, of those of which one was given up."""


class Watchdog:
    """Judges all rules each ten seconds, if this node owns shard 0.

    It keeps nothing in memory that it could lose: alerts follow from rows, and what was told is saved with the messages
    that tell it. So the next owner goes on where this one stops.

    Attributes:
        judged_at: when it last judged, and saved what has changed; None if this node has not, or lost the shard.
    """

    name = "watchdog"

    def __init__(
        self,
        store: Store,
        reader: AlertReader,
        *,
        ownership: Ownership,
        waiter: Waiter,
        on_messages: Callable[[], None],
        kept: timedelta,
    ) -> None:
        self._store = store
        self._reader = reader
        self._jobs = JobAlerts(store, kept=kept)
        self._ownership = ownership
        self._on_messages = on_messages
        self._has_defaults = False
        self._pruned_at: datetime | None = None
        self._firing: dict[str, int] | None = None
        self._monitors = MonitorFigures(store)
        self.judged_at: datetime | None = None
        self.waiter = waiter

    def measures(self) -> Iterator[Measure]:
        """Yield how many alerts of each rule fire and which monitors are up, while this node judges them."""
        if 0 in self._ownership.epochs:
            yield from self._monitors.measures()
            for rule, count in (self._firing or {}).items():
                yield Measure("alerts_firing", count, (rule,))

    async def tick(self, now: datetime) -> float:
        """Judge, and save what has changed. Come back sooner if something waits to be told."""
        if 0 not in self._ownership.epochs:
            self._has_defaults, self._firing, self.judged_at = False, None, None
            self._monitors.forget()
            return PERIOD
        epochs = {0: self._ownership.epochs[0]}
        if not self._has_defaults:
            self._has_defaults = await self._store.add_alert_rules(
                list(DEFAULT_RULES.values()), epochs=epochs
            )
        revision = await self._store.read_alert_revision()
        alerts = await self._store.list_open_alerts()
        channels = {channel.key: channel for channel in await self._store.list_channels()}
        silences = await self._store.list_silences(ending_after=now)
        undelivered = await self._store.list_undelivered(limit=_MOST_UNDELIVERED)
        judgements = await self._judge(alerts, channels, now)
        of_jobs, noticed = await self._jobs.judge(alerts, channels, now)
        verdict = judge_alerts(
            [*judgements, *of_jobs], alerts, channels, silences, now=now, undelivered=undelivered
        )
        if verdict.is_change or noticed:
            saved = await self._store.save_alerts(
                verdict, revision=revision, epochs=epochs, now=now, noticed=noticed
            )
            if saved is AlertsSaved.FENCED:
                self._ownership.fence([0], used=epochs)
                return PERIOD
            if saved is AlertsSaved.OUTDATED:
                return _SOONEST
        self.judged_at = now
        self._tell(alerts, verdict)
        await self._prune(epochs, now)
        await self._monitors.look(now)
        if len(noticed) == MOST_FAILURES:
            return _SOONEST
        if verdict.next_at is None:
            return PERIOD
        return min(max((verdict.next_at - now).total_seconds(), _SOONEST), PERIOD)

    async def _judge(
        self, alerts: Sequence[Alert], channels: dict[str, Channel], now: datetime
    ) -> list[Judgement]:
        rules = await self._store.list_alert_rules()
        seen = SeenByTenant(replace(await self._reader.read(rules, now), firing=_firing(alerts)))
        own = _tenants_by_name(rules)
        judgements: list[Judgement] = []
        for rule in rules:
            elsewhere = own.get(rule.name, ()) if rule.tenant == ALL_TENANTS else ()
            judgements.append(judge_rule(rule, seen.of(rule.tenant), channels, elsewhere, now=now))
            # There may be thousands: what else the process does is not held up by all of them.
            await asyncio.sleep(0)  # noqa: TID251 -- it waits for no time, and lets others have their turn
        return judgements

    def _tell(self, before: Sequence[Alert], verdict: Verdict) -> None:
        """Log what begins to fire and what ends, count what fires, and wake what delivers."""
        states = {alert.id: alert.state for alert in before}
        for alert in (*verdict.added, *verdict.changed):
            if alert.state is not states.get(alert.id, AlertState.PENDING):
                if alert.state is AlertState.FIRING:
                    _log.warning("alert_fires", **_name(alert))
                else:
                    _log.info("alert_resolved", **_name(alert))
        after = {alert.id: alert for alert in before} | {alert.id: alert for alert in verdict.changed}
        firing = Counter(
            one.rule for one in (*verdict.added, *after.values()) if one.state is AlertState.FIRING
        )
        self._firing = {rule: firing[rule] for rule in (*(self._firing or ()), *firing)}
        if verdict.outgoing:
            self._on_messages()

    async def _prune(self, epochs: Epochs, now: datetime) -> None:
        if self._pruned_at is None or now - self._pruned_at >= _PRUNE_EVERY:
            self._pruned_at = now
            while await self._store.prune_alerts(before=now - KEEP, limit=_PRUNED_AT_ONCE, epochs=epochs):
                pass


def _tenants_by_name(rules: Sequence[AlertRule]) -> dict[str, set[str]]:
    """Return by the names of rules the tenants that have one of their own."""
    found: dict[str, set[str]] = {}
    for rule in rules:
        if rule.tenant != ALL_TENANTS:
            found.setdefault(rule.name, set()).add(rule.tenant)
    return found


def _firing(alerts: Sequence[Alert]) -> dict[tuple[str, str], set[tuple[str, str]]]:
    """Return the alerts that fire, by their rule: of which tenant, and of what."""
    found: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for alert in alerts:
        if alert.state is AlertState.FIRING:
            found.setdefault((alert.rule_tenant, alert.rule), set()).add((alert.tenant, alert.subject))
    return found


def _name(alert: Alert) -> dict[str, str]:
    return {"rule": alert.rule, "tenant": alert.tenant, "subject": alert.subject, "summary": alert.summary}
