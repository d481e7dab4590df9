"""Alerts, their rules, channels and silences, as the HTTP API takes and shows them."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

from msgspec import UNSET, Meta, Struct, defstruct

from mainspring.core.alerts import CHANNEL_SETTINGS, RULE_OPTIONS, Alert, AlertRule, Channel, Silence
from mainspring.core.audit import HIDDEN
from mainspring.core.channel_settings import ChannelKind, plain_from_channel
from mainspring.core.ids import format_run_id
from mainspring.core.notify import split_summary
from mainspring.core.secrets import is_mark
from mainspring.wire.policies import body_of
from mainspring.wire.views import Instant, RunIdText

TenantText = Annotated[str, Meta(description="Whose it is; `*` if all tenants share it.")]
Severity = Annotated[str, Meta(description="`info`, `warning` or `critical`.")]

AlertRuleBody: Any = body_of("AlertRuleBody", "What a rule of alerts watches.", RULE_OPTIONS, module=__name__)


class AlertRuleView(Struct, kw_only=True):
    """A rule of alerts."""

    name: str
    tenant: TenantText
    kind: Annotated[str, Meta(description="What it watches.")]
    queue: str | None
    threshold: int | float | None
    period_seconds: float | None
    hold_seconds: float
    severity: Severity
    channels: list[str]
    enabled: bool
    is_default: Annotated[bool, Meta(description="Every store has it: it can be changed, but not deleted.")]


class AlertRuleList(Struct):
    """Rules of alerts, by name."""

    items: list[AlertRuleView]


def view_alert_rule(rule: AlertRule) -> AlertRuleView:
    """Show a rule."""
    plain: dict[str, Any] = {}
    RULE_OPTIONS.store_into(plain, rule)
    return AlertRuleView(name=rule.name, tenant=rule.tenant, is_default=rule.is_default, **plain)


ChannelBody: Any = defstruct(
    "ChannelBody",
    [
        (
            "kind",
            Annotated[
                str,
                Meta(
                    description="How it delivers.",
                    extra_json_schema={"enum": [kind.value for kind in ChannelKind]},
                ),
            ],
        ),
        (
            "config",
            Annotated[
                dict[str, Any],
                Meta(
                    description="Where it delivers to: `url` of all but `email`, which has `to`; `signing` of"
                    " `webhook`; `headers` of `webhook` and `alertmanager`.",
                    examples=[{"url": "https://hooks.example.com/alerts"}],
                ),
            ],
        ),
        *(
            (option.name, Annotated[Any, Meta(extra_json_schema=option.schema())], UNSET)
            for option in CHANNEL_SETTINGS
        ),
    ],
    module=__name__,
    namespace={"__doc__": "A channel that tells of alerts."},
    kw_only=True,
)


class ChannelView(Struct, kw_only=True):
    """A channel that tells of alerts."""

    name: str
    tenant: TenantText
    kind: Annotated[str, Meta(description="`webhook`, `slack`, `email` or `alertmanager`.")]
    config: Annotated[
        dict[str, Any],
        Meta(
            description="Where it delivers to. Of an address only the host is shown, of header fields only names."
        ),
    ]
    group_wait_seconds: float
    repeat_seconds: float
    min_severity: Severity
    enabled: bool
    last_error: Annotated[
        str | None, Meta(description="Why the last message could not be delivered; null if it was.")
    ]
    failed_at: Instant | None


class ChannelList(Struct):
    """Channels, by name."""

    items: list[ChannelView]


class TriedView(Struct):
    """What became of a message that tried a channel."""

    delivered: bool
    error: str | None


def view_channel(channel: Channel) -> ChannelView:
    """Show a channel, without what may be a secret."""
    plain: dict[str, Any] = {}
    CHANNEL_SETTINGS.store_into(plain, channel)
    return ChannelView(
        name=channel.name,
        tenant=channel.tenant,
        kind=channel.config.kind.value,
        config=_hide(plain_from_channel(channel.config)),
        last_error=channel.last_error,
        failed_at=channel.failed_at,
        **plain,
    )


def _hide(config: dict[str, Any]) -> dict[str, Any]:
    shown = dict(config)
    if "url" in shown and not is_mark(shown["url"]):
        parts = urlsplit(shown["url"])
        rest = parts.path.strip("/") or parts.query
        host = parts.netloc.rpartition("@")[2]
        shown["url"] = f"{parts.scheme}://{host}{f'/{HIDDEN}' if rest else ''}"
    if "headers" in shown:
        shown["headers"] = {
            name: text if is_mark(text) else HIDDEN for name, text in shown["headers"].items()
        }
    return shown


class SilenceBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which alerts are not to be told, and for how long."""

    period: Annotated[Any, Meta(description="For how long: seconds, or text like `2h`.", examples=["2h"])]
    reason: Annotated[str, Meta(description="Why, in a few words.", examples=["moving the mail server"])]
    rule: Annotated[str | None, Meta(description="Only alerts of the rule of this name.")] = None
    subject: Annotated[
        str | None,
        Meta(description="Only alerts about this; `*` stands for any text.", examples=["queue:mail"]),
    ] = None
    from_time: Annotated[
        str | None, Meta(description="From this instant on, ISO 8601 with an offset; without it from now on.")
    ] = None


class SilenceView(Struct, kw_only=True):
    """For a while, alerts that it matches are not told."""

    silence_id: int
    tenant: TenantText
    rule: str | None
    subject: str | None
    from_time: Instant
    until_time: Instant
    reason: str
    made_by: str


class SilenceList(Struct):
    """Silences that have not ended, in the order in which they were made."""

    items: list[SilenceView]


def view_silence(silence: Silence) -> SilenceView:
    """Show a silence."""
    return SilenceView(
        silence_id=silence.id,
        tenant=silence.tenant,
        rule=silence.rule,
        subject=silence.subject,
        from_time=silence.from_at,
        until_time=silence.until_at,
        reason=silence.reason,
        made_by=silence.made_by,
    )


class AlertView(Struct, kw_only=True):
    """Something that a rule found."""

    alert_id: int
    tenant: TenantText
    rule: str
    subject: Annotated[str, Meta(description="What it is about.", examples=["queue:mail"])]
    state: Annotated[str, Meta(description="`PENDING`, `FIRING` or `RESOLVED`.")]
    severity: Severity
    summary: str
    error: Annotated[
        str | None, Meta(description="How the run failed that it is about, if it is about one that did.")
    ]
    value: float | None
    run_id: RunIdText | None
    since: Instant
    fired_at: Instant | None
    resolved_at: Instant | None
    silenced: Annotated[bool, Meta(description="A silence keeps it from being told now.")]
    told_to: Annotated[list[str], Meta(description="The channels that were told that it fires.")]
    acknowledged_by: str | None
    acknowledged_at: Instant | None


class AlertPage(Struct):
    """A page of alerts; `next` is the value of `before` for the page that follows."""

    items: list[AlertView]
    next: int | None


def view_alert(alert: Alert, *, is_silenced: bool) -> AlertView:
    """Show an alert."""
    summary, error = split_summary(alert.rule, alert.subject, alert.summary)
    return AlertView(
        alert_id=alert.id,
        tenant=alert.tenant,
        rule=alert.rule,
        subject=alert.subject,
        state=alert.state.value,
        severity=alert.severity.value,
        summary=summary,
        error=error,
        value=alert.value,
        run_id=None if alert.run_id is None else format_run_id(alert.run_id),
        since=alert.since,
        fired_at=alert.fired_at,
        resolved_at=alert.resolved_at,
        silenced=is_silenced,
        told_to=sorted(key.partition("/")[2] for key in alert.telling.told),
        acknowledged_by=alert.acknowledged_by,
        acknowledged_at=alert.acknowledged_at,
    )
