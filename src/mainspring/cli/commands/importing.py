"""`mainspring import`: imports jobs from other tools' files."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.calling import call, read_text_file
from mainspring.cli.options import caller_options, json_option
from mainspring.cli.output import print_json, print_table, show_instant
from mainspring.errors import Conflict, InvalidInput

if TYPE_CHECKING:
    from mainspring.importers.crontab import CrontabEntry, CrontabImport, CrontabNote
    from mainspring.sdk.client import AsyncClient

_PREVIEW = 3
_REFUSED = 2


@click.group("import")
def import_group() -> None:
    """Import jobs from another tool."""


@import_group.command("crontab")
@click.argument("file")
@click.option("--system", is_flag=True, help="Lines have a user after the times, as in /etc/crontab.")
@click.option("--seconds", is_flag=True, help="Lines have six time fields, seconds first.")
@click.option("--tz", default="UTC", show_default=True, help="The zone of entries without CRON_TZ.")
@click.option("--yes", is_flag=True, help="Apply the import. Without it you only see a preview.")
@caller_options
@json_option
def crontab_command(
    file: str, tz: str, server: str, *, system: bool, seconds: bool, yes: bool, as_json: bool
) -> int:
    """Import a crontab. Each entry becomes a job that runs a shell command.

    FILE may be - for standard input. Without --yes nothing is changed and no server is needed. If a line cannot
    be imported, nothing is, and the exit code is 2. Importing again updates the same jobs.
    """
    from mainspring.clock import host_time
    from mainspring.importers.crontab import read_crontab

    found = read_crontab(read_text_file(file, "file"), system=system, seconds=seconds, tz=tz)
    notes = [*found.notes, *_absent_users(found.entries)]
    now = host_time()
    results: list[dict[str, Any]] = []
    if yes and not found.problems:
        results, left_behind = call(server, lambda client: _apply(client, found.entries))
        notes += left_behind
    found = replace(found, notes=tuple(sorted(notes, key=lambda note: note.line)))
    if as_json:
        print_json(_plain(found, now, results))
    else:
        _show(found, now, results)
    return _REFUSED if found.problems else 0


def _absent_users(entries: Iterable[CrontabEntry]) -> list[CrontabNote]:
    """Return a note for each user that does not exist here. Often it is the first word of a command."""
    from mainspring.importers.crontab import CrontabNote

    first: dict[str | None, int] = {}
    for entry in entries:
        first.setdefault(entry.body["target"].get("user"), entry.line)
    return [
        CrontabNote(line, f"user: there is no {name!r} on this machine; is the user column missing?")
        for name, line in first.items()
        if name is not None and not _is_user(name)
    ]


def _is_user(name: str) -> bool:
    if sys.platform == "win32":
        return True  # there is no way to know
    import pwd

    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


async def _apply(
    client: AsyncClient, entries: tuple[CrontabEntry, ...]
) -> tuple[list[dict[str, Any]], list[CrontabNote]]:
    existing = {}
    for entry in entries:
        page = await client.list_jobs(name=entry.name)
        if page.items:
            existing[entry.name] = page.items[0]
            if page.items[0].target["type"] != "shell":
                message = f"{entry.name!r} exists and is not a shell job; rename it. Nothing was imported"
                raise Conflict("name", message)
    results: list[dict[str, Any]] = []
    for entry in entries:
        try:
            job = await client.put_job(entry.body)
        except InvalidInput as error:
            message = f"{error.message} ({len(results)} of {len(entries)} entries were imported)"
            raise InvalidInput(f"line {entry.line}: {error.field}", message) from None
        old = existing.get(entry.name)
        result = "created" if old is None else "unchanged" if old.version == job.version else "updated"
        results.append({"line": entry.line, "name": job.name, "job_id": job.job_id, "result": result})
    return results, await _left_behind(client, entries)


async def _left_behind(client: AsyncClient, entries: tuple[CrontabEntry, ...]) -> list[CrontabNote]:
    """Return a note for each job left by an earlier import, under another name of one of these entries."""
    from mainspring.importers.crontab import CrontabNote

    looked_up = {entry.name for entry in entries}
    notes: list[CrontabNote] = []
    for entry in entries:
        for name in entry.other_names:
            if name in looked_up:
                continue
            looked_up.add(name)
            page = await client.list_jobs(name=name)
            if page.items and page.items[0].target.get("command") == entry.body["target"]["command"]:
                message = f"{name!r} runs the same command and is not in this crontab; "
                message += f"to delete it: mainspring job rm {name}"
                notes.append(CrontabNote(entry.line, message))
    return notes


def _fires(entry: CrontabEntry, now: datetime) -> list[datetime]:
    fires: list[datetime] = []
    instant: datetime | None = now
    while len(fires) < _PREVIEW and instant is not None:
        instant = entry.cron.next_after(instant)
        if instant is not None:
            fires.append(instant)
    return fires


def _plain(found: CrontabImport, now: datetime, results: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "entries": [
            {
                "line": entry.line,
                "definition": entry.body,
                "next_fire_times": [fire.isoformat() for fire in _fires(entry, now)],
            }
            for entry in found.entries
        ],
        "problems": [
            {"line": problem.line, "field": problem.field, "message": problem.message}
            for problem in found.problems
        ],
        "notes": [{"line": note.line, "message": note.message} for note in found.notes],
        "results": results,
    }


def _show(found: CrontabImport, now: datetime, results: list[dict[str, Any]]) -> None:
    rows = []
    for entry in found.entries:
        fires = [show_instant(fire, entry.cron.tz) for fire in _fires(entry, now)]
        rows.append((entry.line, entry.name, entry.body["cron"], *fires, *[""] * (_PREVIEW - len(fires))))
    print_table(("LINE", "JOB", "TIMES", "NEXT", "THEN", "AND THEN"), rows, empty="no entries")
    for note in found.notes:
        click.echo(f"note: {note}", err=True)
    for problem in found.problems:
        click.echo(f"error: {problem}", err=True)
    if found.problems:
        click.echo("nothing was imported", err=True)
    elif results:
        counts = [
            f"{count} {kind}"
            for kind in ("created", "updated", "unchanged")
            if (count := _count(results, kind))
        ]
        click.echo(f"{len(results)} jobs: {', '.join(counts)}")
    elif found.entries:
        click.echo("this is a preview; nothing was changed. Apply it with --yes", err=True)


def _count(results: list[dict[str, Any]], kind: str) -> int:
    return sum(1 for result in results if result["result"] == kind)
