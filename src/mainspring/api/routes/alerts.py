"""Alerts, their rules, channels and silences."""

from __future__ import annotations

from typing import Any

from mainspring.api.call import Answer, Call, Endpoint, handles
from mainspring.api.errors import Rejected
from mainspring.api.hiding import hide_payloads
from mainspring.core.fields import DAY, read_duration, read_instant, read_one_of, read_text, read_word
from mainspring.core.notifications import AlertState
from mainspring.core.rights import ALL_TENANTS
from mainspring.engine.usecases.alerts import OPEN, ShownAlert
from mainspring.errors import InvalidInput, NotFound
from mainspring.wire import operations
from mainspring.wire.alerts import (
    AlertPage,
    AlertRuleList,
    AlertRuleView,
    AlertView,
    ChannelList,
    ChannelView,
    SilenceBody,
    SilenceList,
    SilenceView,
    TriedView,
    view_alert,
    view_alert_rule,
    view_channel,
    view_silence,
)
from mainspring.wire.views import Deleted

_LONGEST_ID = 19
_LONGEST_REASON = 500
_STATES = {"open": OPEN, "firing": (AlertState.FIRING,), "resolved": (AlertState.RESOLVED,)}


@handles(operations.LIST_ALERTS)
async def list_alerts(call: Call) -> AlertPage:
    limit: int = call.query["limit"]
    before = call.query.get("before")
    found = await call.engine.alerts.list_page(
        None if _owner_of(call) == ALL_TENANTS else _tenants_of(call),
        states=_STATES[read_one_of(call.query["state"], "state", _STATES)],
        before=None if before is None else _number(before, "before"),
        limit=limit,
    )
    views = list(map(_view, found))
    for view in views:  # they may be of other tenants than the one by which admission hides
        if call.hides_payloads_in(view.tenant):
            hide_payloads(view)
    return AlertPage(views, found[-1].alert.id if len(found) == limit else None)


@handles(operations.ACKNOWLEDGE_ALERT)
async def acknowledge_alert(call: Call) -> AlertView:
    alert_id = _path_number(call.key, "alert")
    is_for_all = call.operation.right in call.principal.shared_rights
    tenants = [call.tenant, ALL_TENANTS] if is_for_all else [call.tenant]
    return _view(await call.engine.alerts.acknowledge(tenants, alert_id, made_by=call.made_by, by=call.actor))


def _view(shown: ShownAlert) -> AlertView:
    return view_alert(shown.alert, is_silenced=shown.is_silenced)


@handles(operations.LIST_ALERT_RULES)
async def list_alert_rules(call: Call) -> AlertRuleList:
    return AlertRuleList(list(map(view_alert_rule, await call.engine.alert_rules.list_all(_owner_of(call)))))


@handles(operations.GET_ALERT_RULE)
async def get_alert_rule(call: Call) -> AlertRuleView:
    return view_alert_rule(await call.engine.alert_rules.get(_owner_of(call), call.key))


@handles(operations.UPSERT_ALERT_RULE)
async def upsert_alert_rule(call: Call, body: dict[str, Any]) -> Answer[AlertRuleView]:
    rule, is_new = await call.engine.alert_rules.put(_owner_of(call), call.key, body, by=call.actor)
    return Answer(view_alert_rule(rule), status=201 if is_new else 200)


@handles(operations.DELETE_ALERT_RULE)
async def delete_alert_rule(call: Call) -> Deleted:
    await call.engine.alert_rules.delete(_owner_of(call), call.key, by=call.actor)
    return Deleted()


@handles(operations.LIST_CHANNELS)
async def list_channels(call: Call) -> ChannelList:
    return ChannelList(list(map(view_channel, await call.engine.channels.list_all(_owner_of(call)))))


@handles(operations.GET_CHANNEL)
async def get_channel(call: Call) -> ChannelView:
    return view_channel(await call.engine.channels.get(_owner_of(call), call.key))


@handles(operations.UPSERT_CHANNEL)
async def upsert_channel(call: Call, body: dict[str, Any]) -> Answer[ChannelView]:
    channel, is_new = await call.engine.channels.put(_owner_of(call), call.key, body, by=call.actor)
    return Answer(view_channel(channel), status=201 if is_new else 200)


@handles(operations.DELETE_CHANNEL)
async def delete_channel(call: Call) -> Deleted:
    await call.engine.channels.delete(_owner_of(call), call.key, by=call.actor)
    return Deleted()


@handles(operations.TEST_CHANNEL)
async def test_channel(call: Call) -> TriedView:
    call.services.test_rates.take(call.caller, now=call.engine.now())
    tried = await call.engine.channels.test(_owner_of(call), call.key)
    return TriedView(delivered=tried.error is None, error=tried.error)


@handles(operations.LIST_SILENCES)
async def list_silences(call: Call) -> SilenceList:
    return SilenceList(list(map(view_silence, await call.engine.alerts.list_silences(_owner_of(call)))))


@handles(operations.ADD_SILENCE)
async def add_silence(call: Call, body: SilenceBody) -> SilenceView:
    silence = await call.engine.alerts.add_silence(
        _owner_of(call),
        rule=None if body.rule is None else read_word(body.rule, "rule"),
        subject=None if body.subject is None else read_text(body.subject, "subject", longest=200),
        from_at=None if body.from_time is None else read_instant(body.from_time, "from_time"),
        period=read_duration(body.period, "period", high=365 * DAY),
        reason=read_text(body.reason, "reason", longest=_LONGEST_REASON),
        made_by=call.made_by,
        by=call.actor,
    )
    return view_silence(silence)


@handles(operations.END_SILENCE)
async def end_silence(call: Call) -> Deleted:
    silence_id = _path_number(call.key, "silence")
    await call.engine.alerts.end_silence(_owner_of(call), silence_id, by=call.actor)
    return Deleted()


def _tenants_of(call: Call) -> list[str]:
    """Return whose alerts the caller sees."""
    return [call.tenant, ALL_TENANTS] if call.sees_all else [call.tenant]


def _owner_of(call: Call) -> str:
    """Return whose rules, channels or silences a request is about: its tenant's, or those that all tenants share."""
    scope = call.query["scope"]
    if scope not in {"tenant", "cluster"}:
        raise InvalidInput("scope", f"must be tenant or cluster, not {scope[:60]!r}")
    if scope == "tenant":
        return call.tenant
    needed = call.operation.right
    if needed not in call.principal.shared_rights:
        raise Rejected(
            403, f"{call.principal.name} may not do this for the cluster: it needs the right {needed.value!r}"
        )
    return ALL_TENANTS


def _number(text: str, field: str) -> int:
    if not _is_number(text):
        raise InvalidInput(field, f"{text[:60]!r} is not an alert's id like 17")
    return int(text)


def _path_number(text: str, kind: str) -> int:
    if not _is_number(text):
        raise NotFound(kind, text[:60])
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < _LONGEST_ID


ROUTES: list[Endpoint] = [
    list_alerts,
    acknowledge_alert,
    list_alert_rules,
    get_alert_rule,
    upsert_alert_rule,
    delete_alert_rule,
    list_channels,
    get_channel,
    upsert_channel,
    delete_channel,
    test_channel,
    list_silences,
    add_silence,
    end_silence,
]
