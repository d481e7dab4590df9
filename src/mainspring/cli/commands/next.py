"""`mainspring next`: shows when a schedule fires."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from mainspring.cli.fires import print_warnings, tell_local
from mainspring.cli.options import kind_option
from mainspring.cli.output import print_json, print_table
from mainspring.core.kinds import Whole

if TYPE_CHECKING:
    from mainspring.core.triggers import Trigger


@click.command("next")
@click.argument("schedule")
@click.option("--tz", help="The zone's IANA name, like Europe/Berlin; UTC by default.")
@click.option("--dst", help="vixie, which is the default, or GAP/OVERLAP like after/first.")
@click.option("--name", default="", help="The job's name, which chooses the values of H and ~.")
@kind_option("--count", Whole(1, 10_000), default="5", words="How many fires to show, up to 10,000.")
@click.option(
    "--after", metavar="INSTANT", help="Only fires after this instant (ISO 8601 with offset); default: now."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def next_command(
    schedule: str, tz: str | None, dst: str | None, name: str, count: int, after: str | None, *, as_json: bool
) -> None:
    """Show when a schedule fires next, in UTC and in its zone. Needs no server.

    SCHEDULE is a cron expression (minute hour day-of-month month day-of-week, or six fields with seconds first, or a
    macro such as @daily), or words like 'every monday at 9:30'. Quote it.
    """
    from mainspring.core.calendars.preview import preview_fires
    from mainspring.core.fields import read_instant
    from mainspring.core.triggers import store_trigger, words, zone_name

    start = read_instant(after, "after") if after is not None else _now()
    trigger = _read(schedule, {"tz": tz, "dst": dst}, name, start)
    fires = preview_fires(trigger, start, count)
    warnings = [*words.warn_of_moment({"schedule": schedule}), *words.warn_of_trigger(trigger, now=start)]
    if as_json:
        print_json(
            {
                "schedule": schedule,
                "trigger": store_trigger(trigger),
                "explanation": words.explain_trigger(trigger),
                "warnings": warnings,
                "after": start.isoformat(),
                "next": [
                    {"utc": _utc(fire.fire_at), "local": fire.local.isoformat(), "dst": fire.dst}
                    for fire in fires
                ],
            }
        )
        return
    click.echo(words.explain_trigger(trigger))
    print_warnings(warnings)
    rows = [(_utc(fire.fire_at), tell_local(fire.local), _shown(fire.fire_at - start)) for fire in fires]
    zone = zone_name(trigger) or "UTC"
    print_table(
        ("UTC", zone if zone != "UTC" else "local", "in"),
        rows,
        empty=words.explain_no_fires(store_trigger(trigger), "it does not fire within a hundred years"),
    )


def _read(schedule: str, options: dict[str, str | None], name: str, now: datetime) -> Trigger:
    from mainspring.core.ids import DEFAULT_TENANT
    from mainspring.core.triggers.reading import read_trigger, slot_key

    given = {field: value for field, value in options.items() if value is not None}
    body = {"schedule": schedule, **given}
    trigger = read_trigger(body, base=None, old=None, now=now, key=slot_key(DEFAULT_TENANT, name))
    assert trigger is not None
    return trigger


def _now() -> datetime:
    from mainspring.clock import host_time

    return host_time()


def _utc(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _shown(distance: timedelta) -> str:
    from mainspring.core.fields import show

    return show(timedelta(seconds=round(distance.total_seconds())))
