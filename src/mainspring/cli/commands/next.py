"""`mainspring next`: shows when a cron expression fires."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from mainspring.cli.options import kind_option
from mainspring.cli.output import print_json, print_table, show_instant
from mainspring.core.kinds import Whole


@click.command("next")
@click.argument("expression", metavar="EXPR")
@click.option("--tz", default="UTC", show_default=True, help="The zone's IANA name, like Europe/Berlin.")
@click.option("--dst", default="vixie", show_default=True, help="vixie, or GAP/OVERLAP like after/first.")
@kind_option("--count", Whole(1, 10_000), default="5", words="How many fires to show, up to 10,000.")
@click.option(
    "--after", metavar="INSTANT", help="Only fires after this instant (ISO 8601 with offset); default: now."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def next_command(expression: str, tz: str, dst: str, count: int, after: str | None, as_json: bool) -> None:
    """Show when a cron expression fires next, in UTC and in its zone. Needs no server.

    EXPR has five fields (minute hour day-of-month month day-of-week), or six with seconds first, or is a macro
    such as @daily. Quote it.
    """
    from mainspring.core.cron import Cron, CronError
    from mainspring.core.fields import read_instant
    from mainspring.core.triggers import next_fires
    from mainspring.errors import InvalidInput

    try:
        cron = Cron(expression, tz=tz, dst=dst)
    except CronError as error:
        raise InvalidInput(error.field, error.message) from None
    start = read_instant(after, "after") if after is not None else _now()
    fires = next_fires(cron, start, count)
    if as_json:
        print_json(
            {
                "expression": expression,
                "tz": tz,
                "dst": dst,
                "explanation": cron.explain(),
                "warnings": list(cron.warnings),
                "after": start.isoformat(),
                "next": [
                    {"utc": _utc(fire), "local": show_instant(fire, tz).replace(" ", "T")} for fire in fires
                ],
            }
        )
        return
    click.echo(cron.explain())
    for warning in cron.warnings:
        click.echo(f"warning: {warning}", err=True)
    rows = [(_utc(fire), show_instant(fire, tz), _shown(fire - start)) for fire in fires]
    print_table(
        ("UTC", tz if tz != "UTC" else "local", "in"), rows, empty="it does not fire within a hundred years"
    )


def _now() -> datetime:
    from mainspring.clock import host_time

    return host_time()


def _utc(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _shown(distance: timedelta) -> str:
    from mainspring.core.fields import show

    return show(timedelta(seconds=round(distance.total_seconds())))
