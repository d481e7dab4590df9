"""`mainspring channel`: sets where alerts are told, and tries it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.calling import call, plain
from mainspring.cli.options import caller_options, cluster_option, json_option, kind_option
from mainspring.cli.output import print_fields, print_json, print_table
from mainspring.core.alerts import CHANNEL_SETTINGS
from mainspring.core.run_logs import strip_controls
from mainspring.core.times import Duration
from mainspring.errors import InvalidInput
from mainspring.host.exit_codes import ExitCode

if TYPE_CHECKING:
    from mainspring.core.notifications import Severity
    from mainspring.wire.alerts import ChannelView

_MINE, _SHARED = "a channel of the tenant", "one that rules and jobs of all tenants may name"
_WIDTH = 60


@click.group("channel")
def channel_group() -> None:
    """Set where alerts are told: a webhook, Slack, e-mail or an Alertmanager."""


@channel_group.command("set")
@click.argument("channel")
@click.option("--webhook", metavar="URL", help="Post signed JSON to this address.")
@click.option(
    "--slack", metavar="URL", help="Post to this incoming webhook of Slack, Mattermost or Rocket.Chat."
)
@click.option("--email", multiple=True, metavar="ADDRESS", help="Send mail to this address; repeat it.")
@click.option("--alertmanager", metavar="URL", help="Send to this Alertmanager.")
@click.option("--signing", metavar="secret:NAME", help="The secret that signs what a webhook gets.")
@click.option(
    "--header", "headers", multiple=True, metavar="NAME:TEXT", help="A further header field; repeat it."
)
@kind_option("--group-wait", Duration(), words=CHANNEL_SETTINGS.get("group_wait").summary)
@kind_option("--repeat", Duration(timedelta(minutes=1)), words=CHANNEL_SETTINGS.get("repeat").summary)
@kind_option(
    "--min-severity",
    CHANNEL_SETTINGS.get("min_severity").kind,
    words=CHANNEL_SETTINGS.get("min_severity").summary,
)
@click.option("--disabled", is_flag=True, help="Tell nothing here for now.")
@cluster_option(_MINE, _SHARED)
@caller_options
@json_option
def set_command(
    channel: str,
    webhook: str | None,
    slack: str | None,
    email: tuple[str, ...],
    alertmanager: str | None,
    signing: str | None,
    headers: tuple[str, ...],
    group_wait: timedelta | None,
    repeat: timedelta | None,
    min_severity: Severity | None,
    server: str,
    *,
    disabled: bool,
    scope: str,
    as_json: bool,
) -> None:
    """Set CHANNEL: --webhook, --slack, --email or --alertmanager says where it leads."""
    places = {"webhook": webhook, "slack": slack, "email": list(email), "alertmanager": alertmanager}
    given = {kind: place for kind, place in places.items() if place}
    if len(given) != 1:
        raise InvalidInput("channel", "give one of --webhook, --slack, --email and --alertmanager")
    [(kind, place)] = given.items()
    config: dict[str, Any] = {"to" if kind == "email" else "url": place}
    if signing is not None:
        config["signing"] = signing
    if headers:
        config["headers"] = dict(map(_header, headers))
    body: dict[str, Any] = {"kind": kind, "config": config, "enabled": not disabled}
    if group_wait is not None:
        body["group_wait"] = group_wait.total_seconds()
    if repeat is not None:
        body["repeat"] = repeat.total_seconds()
    if min_severity is not None:
        body["min_severity"] = min_severity.value
    _print(call(server, lambda client: client.put_channel(channel, body, scope=scope)), as_json=as_json)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise InvalidInput("header", f"must be NAME:TEXT, not {name[:60]!r}")
    return name.strip(), value.strip()


@channel_group.command("show")
@click.argument("channel")
@cluster_option(_MINE, _SHARED)
@caller_options
@json_option
def show_command(channel: str, server: str, *, scope: str, as_json: bool) -> None:
    """Show CHANNEL, without what may be secret in its address."""
    _print(call(server, lambda client: client.get_channel(channel, scope=scope)), as_json=as_json)


@channel_group.command("list")
@cluster_option("the channels of the tenant", "those that all tenants share")
@caller_options
@json_option
def list_command(server: str, *, scope: str, as_json: bool) -> None:
    """List channels, and what was wrong with the last message of each."""
    found = call(server, lambda client: client.list_channels(scope=scope))
    if as_json:
        print_json(plain(found))
        return
    heading = ("CHANNEL", "KIND", "WHERE", "STATE")
    print_table(heading, map(_row, found.items), empty="no channels; with --cluster, those of all tenants")


def _row(channel: ChannelView) -> tuple[object, ...]:
    place = channel.config.get("url") or ", ".join(channel.config.get("to", ()))
    state = "ok" if channel.last_error is None else channel.last_error[:_WIDTH]
    return channel.name, channel.kind, place, state if channel.enabled else "disabled"


@channel_group.command("test")
@click.argument("channel")
@cluster_option(_MINE, _SHARED)
@caller_options
@json_option
def test_command(channel: str, server: str, *, scope: str, as_json: bool) -> None:
    """Deliver a message that says it is a test, and say what became of it."""
    tried = call(server, lambda client: client.test_channel(channel, scope=scope))
    if as_json:
        print_json(plain(tried))
    else:
        click.echo("delivered" if tried.delivered else f"not delivered: {strip_controls(tried.error or '')}")
    if not tried.delivered:
        raise SystemExit(ExitCode.NOT_WELL)


@channel_group.command("delete")
@click.argument("channel")
@cluster_option(_MINE, _SHARED)
@caller_options
@json_option
def delete_command(channel: str, server: str, *, scope: str, as_json: bool) -> None:
    """Delete CHANNEL, and what it has not delivered yet."""
    gone = call(server, lambda client: client.delete_channel(channel, scope=scope))
    if as_json:
        print_json(plain(gone))
    else:
        click.echo(f"{channel} deleted")


def _print(channel: ChannelView, *, as_json: bool) -> None:
    if as_json:
        print_json(plain(channel))
    else:
        print_fields(plain(channel))
