"""`mainspring alert`: what is wrong now, and which rules find it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.calling import call, plain
from mainspring.cli.options import caller_options, cluster_option, json_option, kind_option
from mainspring.cli.output import print_fields, print_json, print_table
from mainspring.core.alert_rules import DEFAULT_RULES
from mainspring.core.alerts import RULE_OPTIONS
from mainspring.core.fields import show
from mainspring.core.kinds import OneOf, Whole
from mainspring.core.times import Duration

if TYPE_CHECKING:
    from mainspring.core.alerts import RuleKind
    from mainspring.core.notifications import Severity
    from mainspring.wire.alerts import AlertRuleView, AlertView

_PAGE = Whole(1, 1000)
_ID = Whole(1, 2**62)


@click.group("alert")
def alert_group() -> None:
    """Show what is wrong now, and set the rules that find it."""


@alert_group.command("list")
@kind_option("--state", OneOf(("open", "firing", "resolved")), default="open", words="Which alerts to list.")
@kind_option("--limit", _PAGE, default="20", words="The most to list.")
@kind_option("--before", _ID, words="Only alerts before this one, to go on with a list.")
@cluster_option("the alerts of the tenant and about what all share", "those of all tenants")
@caller_options
@json_option
def list_command(
    state: str, limit: int, before: int | None, server: str, *, scope: str, as_json: bool
) -> None:
    """List alerts, the newest first."""
    page = call(
        server, lambda client: client.list_alerts(state=state, scope=scope, before=before, limit=limit)
    )
    if as_json:
        print_json(plain(page))
        return
    heading: tuple[str, ...] = ("ALERT", "STATE", "SEVERITY", "RULE", "SINCE", "SUMMARY", "TOLD")
    rows = [_row(alert) for alert in page.items]
    if scope == "cluster":
        heading = ("TENANT", *heading)
        rows = [(alert.tenant, *row) for alert, row in zip(page.items, rows, strict=True)]
    print_table(heading, rows, empty="no alerts")
    if page.next is not None:
        click.echo(f"for earlier ones, add --before {page.next}", err=True)


def _row(alert: AlertView) -> tuple[object, ...]:
    told = ", ".join(alert.told_to)
    return (
        alert.alert_id,
        f"{alert.state}{' (silenced)' if alert.silenced else ''}",
        alert.severity,
        alert.rule,
        alert.since,
        alert.summary if alert.error is None else f"{alert.summary}: {alert.error}",
        told or "-",
    )


@alert_group.command("acknowledge")
@click.argument("alert")
@caller_options
@json_option
def acknowledge_command(alert: str, server: str, *, as_json: bool) -> None:
    """Say that you look after ALERT, an id. It is told as before."""
    shown = call(server, lambda client: client.acknowledge_alert(alert))
    if as_json:
        print_json(plain(shown))
    else:
        click.echo(f"{shown.acknowledged_by} looks after alert {shown.alert_id}: {shown.summary}")


@alert_group.command("rules")
@cluster_option("the rules of the tenant", "those that watch all tenants")
@caller_options
@json_option
def rules_command(server: str, *, scope: str, as_json: bool) -> None:
    """List the rules of alerts.

    KIND is empty where it is the rule's name. What a rule without channels finds is only listed, by `alert list`.
    """
    found = call(server, lambda client: client.list_alert_rules(scope=scope))
    if as_json:
        print_json(plain(found))
        return
    heading = ("RULE", "KIND", "QUEUE", "THRESHOLD", "PERIOD", "HOLD", "SEVERITY", "CHANNELS")
    empty = "no rules; with --cluster, those for all tenants"
    print_table(heading, map(_rule_row, found.items), empty=empty, last=("RULE",))


def _rule_row(rule: AlertRuleView) -> tuple[object, ...]:
    channels = ", ".join(rule.channels) or "none"
    return (
        rule.name,
        "" if rule.kind == rule.name else rule.kind,
        rule.queue or "all",
        "-" if rule.threshold is None else f"{rule.threshold:,}",
        "-" if rule.period_seconds is None else show(timedelta(seconds=rule.period_seconds)),
        show(timedelta(seconds=rule.hold_seconds)),
        rule.severity,
        channels if rule.enabled else "disabled",
    )


@alert_group.command("set")
@click.argument("rule")
@kind_option("--kind", RULE_OPTIONS.get("kind").kind, words="What it watches; as its name says, if left out.")
@kind_option("--queue", RULE_OPTIONS.get("queue").kind, words=RULE_OPTIONS.get("queue").summary)
@kind_option("--threshold", RULE_OPTIONS.get("threshold").kind, words=RULE_OPTIONS.get("threshold").summary)
@kind_option("--period", Duration(timedelta(seconds=1)), words=RULE_OPTIONS.get("period").summary)
@kind_option("--hold", Duration(), words=RULE_OPTIONS.get("hold").summary)
@kind_option("--severity", RULE_OPTIONS.get("severity").kind, words=RULE_OPTIONS.get("severity").summary)
@click.option(
    "--channel", "channels", multiple=True, metavar="NAME", help="A channel that is told; repeat it."
)
@click.option("--disabled", is_flag=True, help="Do not judge it.")
@cluster_option("a rule of the tenant", "one that watches all tenants")
@caller_options
@json_option
def set_command(
    rule: str,
    kind: RuleKind | None,
    channels: tuple[str, ...],
    server: str,
    *,
    severity: Severity | None,
    disabled: bool,
    scope: str,
    as_json: bool,
    **given: Any,
) -> None:
    """Set RULE. What is left out is as in the rule that every store has of that kind."""
    body: dict[str, Any] = {
        "kind": _kind_of(rule) if kind is None else kind.value,
        "severity": None if severity is None else severity.value,
        "channels": list(channels),
        "enabled": not disabled,
        **{
            name: value.total_seconds() if isinstance(value, timedelta) else value
            for name, value in given.items()
        },
    }
    body = {name: value for name, value in body.items() if value is not None}
    shown = call(server, lambda client: client.put_alert_rule(rule, body, scope=scope))
    if as_json:
        print_json(plain(shown))
    else:
        print_fields(
            {
                "rule": shown.name,
                "kind": shown.kind,
                "queue": shown.queue or "all",
                "threshold": None if shown.threshold is None else f"{shown.threshold:,}",
                "period": None if shown.period_seconds is None else _time(shown.period_seconds),
                "hold": _time(shown.hold_seconds),
                "severity": shown.severity,
                "channels": ", ".join(shown.channels) or "none",
                "enabled": shown.enabled,
            }
        )


def _time(seconds: float) -> str:
    return show(timedelta(seconds=seconds))


def _kind_of(rule: str) -> str:
    """Return the kind that a rule's name says."""
    return DEFAULT_RULES[rule].kind.value if rule in DEFAULT_RULES else rule


@alert_group.command("delete")
@click.argument("rule")
@cluster_option("a rule of the tenant", "one that watches all tenants")
@caller_options
@json_option
def delete_command(rule: str, server: str, *, scope: str, as_json: bool) -> None:
    """Delete RULE. Its alerts end."""
    gone = call(server, lambda client: client.delete_alert_rule(rule, scope=scope))
    if as_json:
        print_json(plain(gone))
    else:
        click.echo(f"{rule} deleted")
