"""`mainspring calendar`: writes the calendars that jobs name, and shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.calling import call, plain, read_file, read_json_text, read_text_file
from mainspring.cli.completion import complete_files
from mainspring.cli.options import caller_options, json_option, kind_option
from mainspring.cli.output import print_fields, print_json, print_table, show_instant
from mainspring.core.kinds import Whole
from mainspring.errors import InvalidInput

if TYPE_CHECKING:
    from mainspring.wire.calendars import CalendarView, CalendarWritten

_VERSION = Whole(1, 999_999)


@click.group("calendar")
def calendar_group() -> None:
    """Write the calendars that let the fires of jobs through or keep them out, and show them."""


@calendar_group.command("put")
@click.argument("name")
@click.option(
    "--file",
    required=True,
    metavar="FILE",
    shell_complete=complete_files,
    help="The definition as JSON; - reads standard input.",
)
@caller_options
@json_option
def put_command(name: str, file: str, server: str, *, as_json: bool) -> None:
    """Create calendar NAME, or give it a new version, and set the clocks of the jobs that follow it."""
    body = read_json_text(read_text_file(file, "file"), "file")
    if not isinstance(body, dict):
        raise InvalidInput("file", "must hold an object")
    _print_written(call(server, lambda client: client.put_calendar(name, body)), as_json=as_json)


@calendar_group.command("import")
@click.argument("name")
@click.argument("file", shell_complete=complete_files)
@click.option("--tz", metavar="ZONE", help="The zone in which days begin; default: the file's, or else UTC.")
@click.option("--dry-run", is_flag=True, help="Only read the file, here, and print the rules that it makes.")
@caller_options
@json_option
def import_command(
    name: str, file: str, tz: str | None, server: str, *, dry_run: bool, as_json: bool
) -> None:
    """Create calendar NAME from the events of FILE in iCalendar (ICS), or give it a new version.

    FILE may be - for standard input. The same events again make no new version. Servers, and --dry-run, need the
    extra `ics`.
    """
    data = read_file(file, "file")
    if dry_run:
        _show_rules(data, tz, as_json=as_json)
    else:
        _print_written(
            call(server, lambda client: client.import_calendar(name, data, tz=tz)), as_json=as_json
        )


def _show_rules(data: bytes, tz: str | None, *, as_json: bool) -> None:
    from mainspring.clock import host_time
    from mainspring.config.table import default
    from mainspring.importers.ics import read_ics

    found = read_ics(data, tz=tz, now=host_time(), most_days=default("calendars.most_days"))
    if as_json:
        print_json(dict(found.body))
        return
    rows = [
        (rule.get("date") or rule["from"], rule.get("to", ""), rule.get("note", ""))
        for rule in found.body["rules"]
    ]
    print_table(("FROM", "TO", "NOTE"), rows, empty="no rules")
    ends = "" if found.expanded_to is None else f"; those that go on, up to {found.expanded_to}"
    left_out = f"{found.events} events, {found.left_out} of them without any time{ends}"
    click.echo(f"{left_out}; days begin in {found.body['tz']}", err=True)


@calendar_group.command("show")
@click.argument("name")
@kind_option("--version", _VERSION, words="This version, not the newest.")
@caller_options
@json_option
def show_command(name: str, version: int | None, server: str, *, as_json: bool) -> None:
    """Show the rules of calendar NAME."""
    calendar = call(server, lambda client: client.get_calendar(name, version=version))
    if as_json:
        print_json(plain(calendar))
        return
    fields: dict[str, Any] = plain(calendar)
    rules = fields.pop("rules")
    print_fields({field: value for field, value in fields.items() if value not in (False, {})})
    print_table(("RULE",), [(rule,) for rule in rules], empty="no rules")


@calendar_group.command("versions")
@click.argument("name")
@kind_option("--limit", Whole(1, 1000), default="100", words="The most to list.")
@kind_option("--before", _VERSION, words="Only versions before this one, to go on with a list.")
@caller_options
@json_option
def versions_command(name: str, limit: int, before: int | None, server: str, *, as_json: bool) -> None:
    """List the versions of calendar NAME, the newest first."""
    page = call(server, lambda client: client.list_calendar_versions(name, before=before, limit=limit))
    if as_json:
        print_json(plain(page))
        return
    rows = [(one.version, show_instant(one.created_at), len(one.rules), one.tz) for one in page.items]
    print_table(("VERSION", "CREATED", "RULES", "ZONE"), rows, empty="no versions")
    if page.next is not None:
        click.echo(f"for earlier ones, add --before {page.next}", err=True)


@calendar_group.command("days")
@click.argument("name")
@click.option("--from", "from_date", metavar="DATE", help="The first date, like 2026-12-01; default: today.")
@click.option("--to", "to_date", metavar="DATE", help="The last date; default: a year later.")
@kind_option("--version", _VERSION, words="This version, not the newest.")
@caller_options
@json_option
def days_command(
    name: str,
    from_date: str | None,
    to_date: str | None,
    version: int | None,
    server: str,
    *,
    as_json: bool,
) -> None:
    """List the dates that calendar NAME holds, wholly or in part."""
    days = call(
        server,
        lambda client: client.list_calendar_days(name, from_date=from_date, to_date=to_date, version=version),
    )
    if as_json:
        print_json(plain(days))
        return
    rows = [
        (day.date, ", ".join(f"{low} to {high}" for low, high in day.hours) or "all day")
        for day in days.items
    ]
    print_table(("DATE", "HOURS"), rows, empty="it holds no date of these")


@calendar_group.command("list")
@kind_option("--limit", Whole(1, 1000), default="100", words="The most to list.")
@click.option("--after", metavar="NAME", help="Only calendars after this one, to go on with a list.")
@caller_options
@json_option
def list_command(limit: int, after: str | None, server: str, *, as_json: bool) -> None:
    """List calendars by name, each in its newest version."""
    page = call(server, lambda client: client.list_calendars(after=after, limit=limit))
    if as_json:
        print_json(plain(page))
        return
    print_table(("NAME", "VERSION", "RULES", "ZONE"), map(_row, page.items), empty="no calendars")
    if page.next is not None:
        click.echo(f"for later ones, add --after {page.next}", err=True)


@calendar_group.command("delete")
@click.argument("name")
@caller_options
def delete_command(name: str, server: str) -> None:
    """Delete calendar NAME, which no job and no blackout may use, and no other calendar name."""
    call(server, lambda client: client.delete_calendar(name))
    click.echo(f"deleted {name}")


def _row(calendar: CalendarView) -> tuple[object, ...]:
    return calendar.name, calendar.version, len(calendar.rules), calendar.tz


def _print_written(written: CalendarWritten, *, as_json: bool) -> None:
    if as_json:
        print_json(plain(written))
        return
    print_fields({**plain(written), "followers": ", ".join(written.followers) or None})
