"""`mainspring monitor`: watches jobs that run elsewhere and say so by pings."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.calling import call, plain
from mainspring.cli.options import caller_options, json_option, kind_option
from mainspring.cli.output import print_fields, print_json, print_table, show_instant
from mainspring.core.fields import show
from mainspring.core.kinds import Whole
from mainspring.core.times import Duration

if TYPE_CHECKING:
    from mainspring.wire.monitors import MonitorView


@click.group("monitor")
def monitor_group() -> None:
    """Watch jobs that run elsewhere, and know when one does not run."""


@monitor_group.command("set")
@click.argument("monitor")
@click.option("--cron", metavar="TEXT", help="The job begins by this cron expression.")
@click.option("--every", metavar="DURATION", help="The job begins so often.")
@click.option("--schedule", metavar="TEXT", help="When the job begins, in words: every monday at 9:30.")
@click.option("--tz", metavar="ZONE", help="The zone of --cron and --schedule.")
@kind_option(
    "--start-grace", Duration(timedelta(seconds=1)), words="How much later or earlier its ping may come."
)
@kind_option("--run-grace", Duration(timedelta(seconds=1)), words="How long it may take.")
@kind_option("--tolerance", Whole(1, 100), words="From which failure in a row on an alert fires.")
@caller_options
@json_option
def set_command(
    monitor: str,
    server: str,
    *,
    start_grace: timedelta | None,
    run_grace: timedelta | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Set MONITOR: --cron, --every or --schedule says when its job begins."""
    graces = {"start_grace": start_grace, "run_grace": run_grace}
    seconds = {name: value.total_seconds() for name, value in graces.items() if value is not None}
    body = {**{name: value for name, value in given.items() if value is not None}, **seconds}
    found = call(server, lambda client: client.put_monitor(monitor, body))
    if as_json:
        print_json(plain(found))
        return
    _show(found)
    if found.ping_path is not None:
        address = server.partition(",")[0].rstrip("/")
        click.echo(
            f"\n{address}{found.ping_path}\n\nKeep this address: it is shown this once. Your job pings it."
        )


@monitor_group.command("list")
@caller_options
@json_option
def list_command(server: str, *, as_json: bool) -> None:
    """List monitors, and what is known of their jobs."""
    found = call(server, lambda client: client.list_monitors())
    if as_json:
        print_json(plain(found))
        return
    rows = [
        (
            one.name,
            one.state,
            one.failures,
            one.pinged_at,
            one.due_at,
            one.explanation,
        )
        for one in found.items
    ]
    print_table(
        ("MONITOR", "STATE", "FAILURES", "PINGED", "DUE BY", "BEGINS"),
        rows,
        empty="no monitors",
        last=("MONITOR",),
    )


@monitor_group.command("show")
@click.argument("monitor")
@caller_options
@json_option
def show_command(monitor: str, server: str, *, as_json: bool) -> None:
    """Show MONITOR and its last pings."""
    found = call(server, lambda client: client.get_monitor(monitor))
    if as_json:
        print_json(plain(found))
        return
    _show(found)
    rows = [(ping.at, ping.kind, ping.exit_code) for ping in found.recent]
    click.echo()
    print_table(("PINGED", "KIND", "EXIT CODE"), rows, empty="no pings")


@monitor_group.command("delete")
@click.argument("monitor")
@caller_options
@json_option
def delete_command(monitor: str, server: str, *, as_json: bool) -> None:
    """Delete MONITOR. Its pings find nothing from then on."""
    gone = call(server, lambda client: client.delete_monitor(monitor))
    if as_json:
        print_json(plain(gone))
    else:
        click.echo(f"monitor {monitor} deleted")


def _at(instant: datetime | None) -> str | None:
    return None if instant is None else show_instant(instant)


def _show(found: MonitorView) -> None:
    print_fields(
        {
            "monitor": found.name,
            "state": found.state,
            "failures": found.failures,
            "begins": found.explanation,
            "start grace": show(timedelta(seconds=found.start_grace_seconds)),
            "run grace": show(timedelta(seconds=found.run_grace_seconds)),
            "tolerance": found.tolerance,
            "due by": _at(found.due_at),
            "pinged": _at(found.pinged_at),
            "succeeded": _at(found.succeeded_at),
        }
    )
