"""Operations on alerts, their rules, channels and silences."""

from __future__ import annotations

from typing import Any

from mainspring.core.rights import Right
from mainspring.wire.alerts import (
    AlertPage,
    AlertRuleBody,
    AlertRuleList,
    AlertRuleView,
    AlertView,
    ChannelBody,
    ChannelList,
    ChannelView,
    SilenceBody,
    SilenceList,
    SilenceView,
    TriedView,
)
from mainspring.wire.operation import Body, Operation, Parameter
from mainspring.wire.operations.common import API, LIMIT
from mainspring.wire.views import Deleted

_RULE = f"{API}/alert-rules/{{rule}}"
_CHANNEL = f"{API}/channels/{{channel}}"
_SILENCES = f"{API}/silences"
_SCOPE = Parameter(
    "scope",
    "`tenant`: what is the tenant's own. `cluster`: what all tenants share; that needs the same right for all tenants.",
    default="tenant",
)

LIST_ALERTS = Operation(
    id="list_alerts",
    method="GET",
    path=f"{API}/alerts",
    right=Right.READ,
    summary="List alerts",
    description="Return a page of alerts, the newest first: those of the tenant, and for callers that may read what all"
    " tenants share, those about that.",
    query=(
        Parameter(
            "state",
            "Only alerts in this state: `open` (PENDING and FIRING), `firing`, `resolved`.",
            default="open",
        ),
        Parameter(
            "scope",
            "`tenant`: as above. `cluster`: the alerts of all tenants; that needs the right for all tenants.",
            default="tenant",
        ),
        LIMIT,
        Parameter("before", "Only alerts before this one: the `next` of the previous page."),
    ),
    answer=AlertPage,
)
ACKNOWLEDGE_ALERT = Operation(
    id="acknowledge_alert",
    method="POST",
    path=f"{API}/alerts/{{alert_id}}/acknowledge",
    right=Right.OPERATE,
    summary="Acknowledge an alert",
    description="Note that the caller looks after an alert, unless another does already. It is told as before.",
    answer=AlertView,
)
LIST_ALERT_RULES = Operation(
    id="list_alert_rules",
    method="GET",
    path=f"{API}/alert-rules",
    right=Right.READ,
    summary="List the rules of alerts",
    description="Return all rules of the tenant, or those that watch all tenants, by name.",
    query=(_SCOPE,),
    answer=AlertRuleList,
)
GET_ALERT_RULE = Operation(
    id="get_alert_rule",
    method="GET",
    path=_RULE,
    right=Right.READ,
    summary="Get a rule of alerts",
    description="Return a rule.",
    query=(_SCOPE,),
    answer=AlertRuleView,
)
UPSERT_ALERT_RULE = Operation(
    id="upsert_alert_rule",
    method="PUT",
    path=_RULE,
    right=Right.EDIT,
    summary="Set a rule of alerts",
    description="Set what the body says; what it leaves out is as in the rule that every store has of that kind. A"
    " tenant's own rule holds for it in place of the cluster's of the same name.",
    query=(_SCOPE,),
    body=Body(AlertRuleBody, dict[str, Any]),
    answer=AlertRuleView,
    statuses=(200, 201),
    is_conflicting=True,
)
DELETE_ALERT_RULE = Operation(
    id="delete_alert_rule",
    method="DELETE",
    path=_RULE,
    right=Right.EDIT,
    summary="Delete a rule of alerts",
    description="Delete a rule; its alerts end. A rule that every store has can only be disabled.",
    query=(_SCOPE,),
    answer=Deleted,
    is_conflicting=True,
)
LIST_CHANNELS = Operation(
    id="list_channels",
    method="GET",
    path=f"{API}/channels",
    right=Right.READ,
    summary="List channels",
    description="Return all channels of the tenant, or those that all tenants share, by name.",
    query=(_SCOPE,),
    answer=ChannelList,
)
GET_CHANNEL = Operation(
    id="get_channel",
    method="GET",
    path=_CHANNEL,
    right=Right.READ,
    summary="Get a channel",
    description="Return a channel, without what may be secret in its address.",
    query=(_SCOPE,),
    answer=ChannelView,
)
UPSERT_CHANNEL = Operation(
    id="upsert_channel",
    method="PUT",
    path=_CHANNEL,
    right=Right.EDIT,
    summary="Set a channel",
    description="Set what the body says, and the defaults for what it leaves out.",
    query=(_SCOPE,),
    body=Body(ChannelBody, dict[str, Any]),
    answer=ChannelView,
    statuses=(200, 201),
    is_conflicting=True,
)
DELETE_CHANNEL = Operation(
    id="delete_channel",
    method="DELETE",
    path=_CHANNEL,
    right=Right.EDIT,
    summary="Delete a channel",
    description="Delete a channel, and what it has not delivered yet. Rules that name it tell the others.",
    query=(_SCOPE,),
    answer=Deleted,
)
TEST_CHANNEL = Operation(
    id="test_channel",
    method="POST",
    path=f"{_CHANNEL}/test",
    right=Right.EDIT,
    summary="Test a channel",
    description="Deliver a message that says it is a test, and say what became of it.",
    query=(_SCOPE,),
    answer=TriedView,
    is_conflicting=True,
    is_rationed=True,
)
LIST_SILENCES = Operation(
    id="list_silences",
    method="GET",
    path=_SILENCES,
    right=Right.READ,
    summary="List silences",
    description="Return the silences that have not ended, in the order in which they were made.",
    query=(_SCOPE,),
    answer=SilenceList,
)
ADD_SILENCE = Operation(
    id="add_silence",
    method="POST",
    path=_SILENCES,
    right=Right.OPERATE,
    summary="Silence alerts",
    description="Tell nothing of some alerts for a while. They are listed; the end of what was told is told; and what"
    " still fires when the silence ends is told then.",
    query=(_SCOPE,),
    body=Body(SilenceBody, SilenceBody),
    answer=SilenceView,
    statuses=(201,),
    is_conflicting=True,
)
END_SILENCE = Operation(
    id="end_silence",
    method="DELETE",
    path=f"{_SILENCES}/{{silence_id}}",
    right=Right.OPERATE,
    summary="End a silence",
    description="End a silence now. What still fires is told at once.",
    query=(_SCOPE,),
    answer=Deleted,
)
