"""`mainspring silence`: keeps some alerts from being told for a while."""

from __future__ import annotations

from datetime import timedelta

import click

from mainspring.cli.calling import call, plain
from mainspring.cli.options import caller_options, cluster_option, json_option, kind_option
from mainspring.cli.output import print_json, print_table, show_instant
from mainspring.core.fields import DAY
from mainspring.core.kinds import Text
from mainspring.core.times import Duration

_MINE, _SHARED = "alerts of the tenant", "those of all tenants, and about what they share"


@click.group("silence")
def silence_group() -> None:
    """Tell nothing of some alerts for a while. They are listed, and the end of what was told is told."""


@silence_group.command("add")
@kind_option(
    "--for", Duration(timedelta(seconds=1), 365 * DAY), words="For how long, like 2h.", is_required=True
)
@kind_option("--because", Text(500), words="Why.", is_required=True)
@click.option("--rule", metavar="NAME", help="Only alerts of this rule.")
@click.option("--subject", metavar="TEXT", help="Only alerts about this; * stands for any text.")
@click.option("--from", "from_time", metavar="INSTANT", help="From this instant on, not from now on.")
@cluster_option(_MINE, _SHARED)
@caller_options
@json_option
def add_command(
    because: str,
    rule: str | None,
    subject: str | None,
    from_time: str | None,
    server: str,
    *,
    scope: str,
    as_json: bool,
    **given: timedelta,
) -> None:
    """Silence alerts: all of them, or those that --rule and --subject name."""
    silence = call(
        server,
        lambda client: client.add_silence(
            given["for"], reason=because, rule=rule, subject=subject, from_time=from_time, scope=scope
        ),
    )
    if as_json:
        print_json(plain(silence))
    else:
        click.echo(f"silence {silence.silence_id} until {show_instant(silence.until_time)}")


@silence_group.command("list")
@cluster_option(_MINE, _SHARED)
@caller_options
@json_option
def list_command(server: str, *, scope: str, as_json: bool) -> None:
    """List silences that have not ended."""
    found = call(server, lambda client: client.list_silences(scope=scope))
    if as_json:
        print_json(plain(found))
        return
    rows = [
        (
            one.silence_id,
            one.rule or "all",
            one.subject or "all",
            show_instant(one.from_time),
            show_instant(one.until_time),
            one.made_by,
            one.reason,
        )
        for one in found.items
    ]
    print_table(
        ("SILENCE", "RULE", "SUBJECT", "FROM", "UNTIL", "MADE BY", "REASON"), rows, empty="no silences"
    )


@silence_group.command("end")
@click.argument("silence")
@cluster_option(_MINE, _SHARED)
@caller_options
@json_option
def end_command(silence: str, server: str, *, scope: str, as_json: bool) -> None:
    """End SILENCE, an id. What still fires is told at once."""
    gone = call(server, lambda client: client.end_silence(silence, scope=scope))
    if as_json:
        print_json(plain(gone))
    else:
        click.echo(f"silence {silence} ended")
