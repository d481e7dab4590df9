"""Decides which alerts there are, and what is told of them now. It judges facts that were read together.

An alert is PENDING until it has held, then FIRING, then RESOLVED. What was told to a channel is kept with the alert, so
a crash repeats nothing and forgets nothing: the store saves alerts and messages in one transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from mainspring.core.alerts import Alert, Channel, Silence, Silencing, Telling
from mainspring.core.channel_settings import RESENT_EACH
from mainspring.core.ids import RunId
from mainspring.core.notifications import (
    MOST_ALERTS,
    AlertFacts,
    AlertState,
    Message,
    MessageKind,
    Severity,
    leave_out,
)
from mainspring.core.values import value

MOST_SUBJECTS = 1000
"""Alerts that one rule may have at a time, of each tenant. What is beyond begins no alert, and ends none."""
MENDED_AFTER = timedelta(minutes=1)
"""When a channel that could not be told is told again, if it has no error now."""
_SEVERITIES = tuple(Severity)
_Subject = tuple[str, str]
_RuleKey = tuple[str, str]


@value(kw_only=True)
class Fact:
    """Something that a rule is to tell of now.

    Attributes:
        channels: the keys of the channels to tell; None are those of the rule.
        tells_end, is_owed: see `Telling`.
    """

    tenant: str
    subject: str
    summary: str
    value: float | None = None
    run_id: RunId | None = None
    channels: tuple[str, ...] | None = None
    tells_end: bool = True
    is_owed: bool = False


@value(kw_only=True)
class Judgement:
    """What one rule found now.

    Attributes:
        channels: the keys of the channels that it tells.
        facts: what is so now, each subject once; None if that could not be found out: then everything stays as it is.
        left_out: tenants and subjects that were not looked at: what is known of them stays as it is.
        subjects: tenants and subjects that there are; what is not among them ends without a word. None are all.
        is_cut: not all that is so was found: what is not among the facts stays as it is.
    """

    tenant: str
    rule: str
    severity: Severity
    hold: timedelta = timedelta(0)
    channels: tuple[str, ...] = ()
    facts: Sequence[Fact] | None
    left_out: Collection[tuple[str, str]] = ()
    subjects: Collection[tuple[str, str]] | None = None
    is_cut: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """The rule among those of all tenants."""
        return self.tenant, self.rule


@value(kw_only=True)
class Outgoing:
    """A message that is to be delivered by a channel. Its id comes from the store.

    Attributes:
        channel: the channel's key.
        group: messages of one group are delivered in order.
    """

    channel: str
    group: str
    message: Message


@value(kw_only=True)
class Undelivered:
    """A message that has not been delivered, of a group of which one was given up.

    Attributes:
        is_given_up: it is the one that was given up; the others wait behind it.
    """

    id: int
    channel: str
    group: str
    message: Message
    is_given_up: bool


@value(kw_only=True)
class Verdict:
    """What is to be saved.

    Attributes:
        added: alerts that are new, with the id 0.
        changed: alerts that are other than before.
        removed: pending alerts that have ended: nobody ever knew of them.
        outgoing: messages.
        given_up: messages that were given up, and of which the alerts now say so.
        dropped: messages that are of no use now: they are about nothing that was told.
        rewritten: messages that leave out what was never told, by id.
        next_at: when something is to be told that waits for others; None if nothing does.
    """

    added: tuple[Alert, ...] = ()
    changed: tuple[Alert, ...] = ()
    removed: tuple[int, ...] = ()
    outgoing: tuple[Outgoing, ...] = ()
    given_up: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()
    rewritten: tuple[tuple[int, Message], ...] = ()
    next_at: datetime | None = None

    @property
    def is_change(self) -> bool:
        """Whether there is anything to save."""
        return bool(self.added or self.changed or self.removed or self.outgoing or self.given_up)


def judge_alerts(
    judgements: Sequence[Judgement],
    alerts: Sequence[Alert],
    channels: Mapping[str, Channel],
    silences: Sequence[Silence],
    *,
    now: datetime,
    undelivered: Sequence[Undelivered] = (),
) -> Verdict:
    """Return what becomes of all alerts, and what is told.

    Args:
        alerts: those that are not RESOLVED.
        channels: by key.
        undelivered: messages that something fires that were given up, and those behind them, in order of their ids.
    """
    silencing = Silencing(silences, now)
    lost, settled = _take_back(undelivered)
    known = [_lose(alert, lost, channels, now) for alert in alerts]
    added, moved, removed = _move_all(judgements, known, channels, silencing, now)
    told = dict(moved)
    outgoing: list[Outgoing] = []
    waits: list[datetime] = []
    for group, members in _group(moved.values(), channels):
        channel = channels[group.channel]
        sent, until = _tell_group(channel, members, silencing, now)
        waits += [] if until is None else [until]
        for kind, some in sent:
            outgoing += _write(channel, group, kind, some, now)
            if kind is not MessageKind.RESOLVED:
                told |= {one.id: _note(told[one.id], channel.key, now) for one in some}
    before = {alert.id: alert for alert in alerts}
    return Verdict(
        added=tuple(added),
        changed=tuple(alert for alert in told.values() if alert != before[alert.id]),
        removed=tuple(removed),
        outgoing=tuple(outgoing),
        given_up=settled.given_up,
        dropped=settled.dropped,
        rewritten=settled.rewritten,
        next_at=min(waits, default=None),
    )


def _take_back(undelivered: Sequence[Undelivered]) -> tuple[dict[str, set[int]], Verdict]:
    """Return which alerts each channel was not told of, and what becomes of the messages."""
    of_group: dict[tuple[str, str], set[int]] = {}
    given_up, dropped, rewritten = [], [], []
    for one in undelivered:
        lost = of_group.setdefault((one.channel, one.group), set())
        if one.is_given_up:
            given_up.append(one.id)
            lost.update(one.message.alert_ids or [facts.alert_id for facts in one.message.alerts])
            continue
        message = leave_out(one.message, lost)
        if message is None:
            dropped.append(one.id)
        elif message.count != one.message.count:
            rewritten.append((one.id, message))
    of_channel: dict[str, set[int]] = {}
    for (channel, _), ids in of_group.items():
        of_channel.setdefault(channel, set()).update(ids)
    return of_channel, Verdict(given_up=tuple(given_up), dropped=tuple(dropped), rewritten=tuple(rewritten))


def _lose(
    alert: Alert, lost: Mapping[str, Collection[int]], channels: Mapping[str, Channel], now: datetime
) -> Alert:
    """Return an alert that counts as told only where it was, and where there still is a channel."""
    telling = alert.telling
    gone = {key for key in telling.told if key not in channels or alert.id in lost.get(key, ())}
    if not gone:
        return alert
    told = {key: when for key, when in telling.told.items() if key not in gone}
    marks = {**telling.lost, **{key: now for key in gone if key in channels}}
    return replace(alert, telling=replace(telling, told=told, lost=marks))


def _move_all(
    judgements: Sequence[Judgement],
    alerts: Sequence[Alert],
    channels: Mapping[str, Channel],
    silencing: Silencing,
    now: datetime,
) -> tuple[list[Alert], dict[int, Alert], list[int]]:
    """Return the alerts that are new, the others by id as they are now, and those that go."""
    of_rule: dict[_RuleKey, dict[_Subject, Alert]] = {}
    for alert in alerts:
        rule = (alert.rule_tenant, alert.rule)
        of_rule.setdefault(rule, {})[alert.tenant, alert.subject] = alert
    added: list[Alert] = []
    moved: dict[int, Alert] = {}
    removed: list[int] = []
    for judgement in judgements:
        known = of_rule.pop(judgement.key, {})
        if judgement.facts is None:
            moved |= {alert.id: alert for alert in known.values()}
            continue
        for fact in judgement.facts:
            old = known.pop((fact.tenant, fact.subject), None)
            if old is None:
                added.append(_begin(judgement, fact, now))
            else:
                moved[old.id] = _go_on(judgement, fact, old, now)
        stays = [alert for key, alert in known.items() if judgement.is_cut or key in judgement.left_out]
        moved |= {alert.id: alert for alert in stays}
        of_rule[judgement.key] = _hush(
            judgement, {key: alert for key, alert in known.items() if alert.id not in moved}
        )
    for alert in (alert for known in of_rule.values() for alert in known.values()):
        if alert.state is AlertState.PENDING:
            removed.append(alert.id)
        elif alert.telling.is_owed and _is_untold(alert, channels, silencing):
            moved[alert.id] = alert
        else:
            moved[alert.id] = replace(alert, state=AlertState.RESOLVED, resolved_at=now)
    return added, moved, removed


def _hush(judgement: Judgement, ending: Mapping[_Subject, Alert]) -> dict[_Subject, Alert]:
    """Return alerts that are about to end; of those about what is gone, the end is not told."""
    return {
        key: alert
        if judgement.subjects is None or key in judgement.subjects
        else replace(alert, telling=replace(alert.telling, tells_end=False))
        for key, alert in ending.items()
    }


def _begin(judgement: Judgement, fact: Fact, now: datetime) -> Alert:
    fires = not judgement.hold
    return Alert(
        id=0,
        tenant=fact.tenant,
        rule_tenant=judgement.tenant,
        rule=judgement.rule,
        subject=fact.subject,
        state=AlertState.FIRING if fires else AlertState.PENDING,
        severity=judgement.severity,
        since=now,
        fired_at=now if fires else None,
        value=fact.value,
        summary=fact.summary,
        run_id=fact.run_id,
        telling=Telling(
            channels=_channels_of(judgement, fact), tells_end=fact.tells_end, is_owed=fact.is_owed
        ),
    )


def _go_on(judgement: Judgement, fact: Fact, alert: Alert, now: datetime) -> Alert:
    fires = alert.state is AlertState.PENDING and now - alert.since >= judgement.hold
    return replace(
        alert,
        state=AlertState.FIRING if fires else alert.state,
        fired_at=now if fires else alert.fired_at,
        severity=judgement.severity,
        value=fact.value,
        summary=fact.summary,
        run_id=fact.run_id,
        telling=replace(
            alert.telling,
            channels=_channels_of(judgement, fact),
            tells_end=fact.tells_end,
            is_owed=fact.is_owed,
        ),
    )


def _channels_of(judgement: Judgement, fact: Fact) -> tuple[str, ...]:
    return judgement.channels if fact.channels is None else fact.channels


def _is_untold(alert: Alert, channels: Mapping[str, Channel], silencing: Silencing) -> bool:
    """Say whether a channel is still to be told that an alert fires."""
    known = (channels[key] for key in alert.telling.channels if key in channels)
    return any(
        _hears(channel, alert)
        and channel.key not in alert.telling.told
        and channel.key not in alert.telling.lost
        and not silencing.mutes(alert, channel)
        for channel in known
    )


def _hears(channel: Channel, alert: Alert) -> bool:
    is_bad_enough = _SEVERITIES.index(alert.severity) >= _SEVERITIES.index(channel.min_severity)
    return channel.enabled and is_bad_enough


@value()
class _Group:
    """What one message may tell together."""

    channel: str
    tenant: str
    rule_tenant: str
    rule: str

    @property
    def key(self) -> str:
        return f"{self.tenant}/{self.rule_tenant}/{self.rule}"


@dataclass(slots=True)
class _Members:
    """The alerts of a group: those that may be told that they fire, and those that have ended."""

    firing: list[Alert] = field(default_factory=list)
    ended: list[Alert] = field(default_factory=list)


def _group(alerts: Iterable[Alert], channels: Mapping[str, Channel]) -> Iterator[tuple[_Group, _Members]]:
    found: dict[_Group, _Members] = {}
    for alert in sorted(alerts, key=lambda alert: alert.id):
        telling = alert.telling
        if alert.state is AlertState.FIRING:
            keys = [key for key in telling.channels if key in channels and _hears(channels[key], alert)]
        elif alert.state is AlertState.RESOLVED and telling.tells_end:
            keys = [key for key in sorted(telling.told) if key in channels and channels[key].enabled]
        else:
            continue
        for key in keys:
            members = found.setdefault(_Group(key, alert.tenant, alert.rule_tenant, alert.rule), _Members())
            (members.firing if alert.state is AlertState.FIRING else members.ended).append(alert)
    yield from found.items()


def _tell_group(
    channel: Channel, members: _Members, silencing: Silencing, now: datetime
) -> tuple[list[tuple[MessageKind, list[Alert]]], datetime | None]:
    """Return what is told of a group now, and when what waits for others is to be told."""
    sent: list[tuple[MessageKind, list[Alert]]] = []
    if members.ended:
        sent.append((MessageKind.RESOLVED, members.ended))
    heard = [alert for alert in members.firing if not silencing.mutes(alert, channel)]
    new = [
        alert
        for alert in heard
        if channel.key not in alert.telling.told and _may_be_told(channel, alert.telling, now)
    ]
    old = [alert for alert in heard if channel.key in alert.telling.told]
    until = min((alert.fired_at or now for alert in new), default=None)
    if until is not None and until + channel.group_wait <= now:
        sent.append((MessageKind.FIRING, new))
    repeat = RESENT_EACH.get(channel.config.kind, channel.repeat)
    if old and now - min(alert.telling.told[channel.key] for alert in old) >= repeat:
        sent.append((MessageKind.REPEAT, old))
    is_waiting = until is not None and until + channel.group_wait > now
    return sent, until + channel.group_wait if until is not None and is_waiting else None


def _may_be_told(channel: Channel, telling: Telling, now: datetime) -> bool:
    """Say whether to tell a channel that was told in vain: once it works again, or after its usual time."""
    lost_at = telling.lost.get(channel.key)
    if lost_at is None:
        return True
    return now - lost_at >= (MENDED_AFTER if channel.last_error is None else channel.repeat)


def _note(alert: Alert, channel: str, now: datetime) -> Alert:
    telling = alert.telling
    lost = {key: when for key, when in telling.lost.items() if key != channel}
    return replace(alert, telling=replace(telling, told={**telling.told, channel: now}, lost=lost))


def _write(
    channel: Channel, group: _Group, kind: MessageKind, alerts: Sequence[Alert], now: datetime
) -> Iterator[Outgoing]:
    """Yield the message of some alerts; an Alertmanager gets as many as it takes to name all of them."""
    names_all = channel.config.kind in RESENT_EACH
    for start in range(0, len(alerts) if names_all else 1, MOST_ALERTS):
        some = alerts[start : start + MOST_ALERTS]
        message = Message(
            id="",
            kind=kind,
            tenant=group.tenant,
            rule=group.rule,
            severity=max((alert.severity for alert in alerts), key=_SEVERITIES.index),
            alerts=tuple(map(describe_alert, some)),
            more=0 if names_all else len(alerts) - len(some),
            at=now,
            channel_tenant=channel.tenant,
            alert_ids=tuple(alert.id for alert in (some if names_all else alerts)),
        )
        yield Outgoing(channel=channel.key, group=group.key, message=message)


def describe_alert(alert: Alert) -> AlertFacts:
    """Return what a message says of an alert."""
    return AlertFacts(
        alert_id=alert.id,
        subject=alert.subject,
        state=alert.state,
        since=alert.since,
        summary=alert.summary,
        resolved_at=alert.resolved_at,
        value=alert.value,
        run_id=alert.run_id,
    )
