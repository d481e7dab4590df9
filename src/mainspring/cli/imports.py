"""What the commands of `mainspring import` have in common: what they show, store and write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mainspring.cli.output import print_json, print_table, show_instant
from mainspring.cli.progress import Progress
from mainspring.errors import Conflict, InvalidInput

if TYPE_CHECKING:
    from mainspring.importers.found import Imported, ImportedJob, ImportNote
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.applying import AppliedView
    from mainspring.wire.owners import OwnerView
    from mainspring.wire.views import JobView

F = TypeVar("F", bound=Callable[..., Any])
PREVIEW = 3
"""How many fires a table shows of each job."""
MORE = 20
"""How many fires are compared with the other tool's, and shown in JSON."""


def storing_options(function: F) -> F:
    """Add the options of importers that store jobs."""
    yes = click.option("--yes", is_flag=True, help="Apply the import. Without it you only see a preview.")
    prune = click.option(
        "--prune",
        is_flag=True,
        help="Delete the jobs of an earlier import of this source that it does not have any more.",
    )
    owner = click.option(
        "--owner", metavar="NAME", help="The name by which an earlier import of this source is known."
    )
    return yes(prune(owner(function)))


def skip_option(function: F) -> F:
    """Add --skip-refused."""
    return click.option(
        "--skip-refused",
        is_flag=True,
        help="Import the others when some cannot be imported; the exit code is 3 then.",
    )(function)


def exit_code(found: Imported, *, skips: bool) -> int:
    """Return the exit code of an import: all, nothing, or a part."""
    from mainspring.host.exit_codes import ExitCode

    if not found.problems:
        return ExitCode.DONE
    return ExitCode.NOT_WELL if skips and found.entries else ExitCode.REFUSED


async def make_channels(client: AsyncClient, found: Imported) -> Imported:
    """Make the channels of mail that jobs name, as far as there are none. Return what may be stored then.

    If the server sends no mail, that is said, and the jobs tell nobody.
    """
    known = {channel.name for channel in (await client.list_channels()).items} if found.mails else set()
    refused: set[str] = set()
    for mail in found.mails:
        if mail.channel in known:
            continue
        try:
            body = {"kind": "email", "config": {"to": list(mail.addresses)}}
            await client.put_channel(mail.channel, body)
        except InvalidInput as error:
            refused.add(mail.channel)
            click.echo(f"nobody is told by {mail.channel}: {error}", err=True)
    return replace(found, entries=tuple(_untold(entry, refused) for entry in found.entries))


def _untold(entry: ImportedJob, refused: set[str]) -> ImportedJob:
    """Return a job without its `notify` if that names a channel that cannot be made."""
    told = entry.body.get("notify", {}).get("to", ())
    if refused.isdisjoint(told):
        return entry
    return replace(entry, body={name: value for name, value in entry.body.items() if name != "notify"})


async def apply_jobs(
    client: AsyncClient, found: Imported, *, owner: str, prune: bool, kind: str
) -> tuple[list[dict[str, Any]], OwnerView]:
    """Store jobs, and say whose they are, in one transaction.

    Args:
        prune: delete what the owner had and has no more.
        kind: the type of target that a job of the same name must have to be replaced.

    Returns:
        What became of each, and what became of the owner's other jobs.

    Raises:
        Conflict: a job of the same name is of another kind or another owner, or someone else changes one meanwhile;
            nothing is stored.
        InvalidInput: the server refuses one, and nothing is stored. Of more than one request holds, the error says how
            many are.
    """
    from mainspring.sdk.applying import parts_of

    with Progress("checking", len(found.entries)) as progress:
        for entry in found.entries:
            page = await client.list_jobs(name=entry.name)
            if page.items:
                _check_existing(page.items[0], owner, kind)
            progress.advance()
    results: list[dict[str, Any]] = []
    *before, last = parts_of([entry.body for entry in found.entries])
    names = [entry.name for entry in found.entries]
    view: OwnerView | None = None
    for part in (*before, last):
        entries = found.entries[len(results) : len(results) + len(part)]
        owners = {owner: names} if part is last else {}
        paused = [entry.name for entry in entries if entry.is_paused]
        try:
            told = await client.apply_definitions(
                part, owners=owners, prune=prune and part is last, paused=paused
            )
        except (InvalidInput, Conflict) as error:
            raise _placed(error, entries, found, imported=len(results)) from None
        results += [_result(entry, one) for entry, one in zip(entries, told.jobs, strict=True)]
        view = told.owners[0] if told.owners else None
    assert view is not None, "the last part names the owner"
    return results, view


def _result(entry: ImportedJob, view: AppliedView) -> dict[str, Any]:
    result = "updated" if view.outcome == "changed" else view.outcome
    return {**_at(entry), "name": view.name, "job_id": view.job_id, "result": result}


def _placed(
    error: InvalidInput | Conflict, entries: Sequence[ImportedJob], found: Imported, *, imported: int
) -> InvalidInput | Conflict:
    """Return an error that names the entry, not its place in a request."""
    from mainspring.sdk.applying import split_place

    place = split_place(error.field, len(entries))
    message = f"{error.message} ({imported} of {len(found.entries)} entries were imported)"
    if place is None:
        return type(error)(error.field, message)
    index, field = place
    return type(error)(f"{_place(entries[index])}: {field}", message)


def _check_existing(job: JobView, owner: str, kind: str) -> None:
    """Refuse to overwrite a job that this source has not brought."""
    if job.target["type"] != kind:
        raise Conflict(
            "name", f"{job.name!r} exists and is not a {kind} job; rename it. Nothing was imported"
        )
    if job.owner not in {None, owner}:
        words = f"if this is the same source, give --owner {job.owner}; if not, rename one of the two"
        raise Conflict("name", f"{job.name!r} belongs to {job.owner!r}; {words}. Nothing was imported")


def _place(entry: ImportedJob) -> str:
    from mainspring.importers.found import tell_place

    return tell_place(entry.place)


def check_storing(found: Imported, *, prune: bool, yes: bool) -> None:
    """Refuse to delete where that could hit a job that is only broken in the source.

    Raises:
        InvalidInput: --prune goes without --yes, or with entries that are refused.
    """
    if prune and not yes:
        raise InvalidInput("prune", "deletes jobs, so it goes with --yes")
    if prune and found.problems:
        first = found.problems[0]
        message = (
            f"goes only with a source without faults, or the job of a faulty entry would be deleted; {first}"
        )
        raise InvalidInput("prune", message)


def show_import(
    found: Imported,
    now: datetime,
    *,
    as_json: bool,
    skips: bool = False,
    results: Sequence[dict[str, Any]] = (),
    owner: OwnerView | None = None,
    then: str = "",
) -> None:
    """Print what was found and what became of it.

    Args:
        skips: what cannot be imported is left out.
        results: of each job that was stored.
        owner: what became of the owner's other jobs.
        then: how to apply the import, for a preview.
    """
    if as_json:
        print_json(_plain(found, now, results, owner))
        return
    print_table(_columns(found), [_row(entry, found, now) for entry in found.entries], empty="no entries")
    for note in sorted(found.notes, key=_line):
        click.echo(f"note: {note}", err=True)
    for problem in found.problems:
        click.echo(f"{'skipped' if skips else 'error'}: {problem}", err=True)
    if found.problems and not (skips and found.entries):
        hint = "" if skips or not found.entries else "; --skip-refused imports the others"
        click.echo(f"nothing was imported{hint}", err=True)
    elif results:
        _tell_results(results)
    elif found.entries and then:
        click.echo(f"this is a preview; nothing was changed. {then}", err=True)
    if owner is not None:
        _tell_owner(owner)


def _line(note: ImportNote) -> int:
    return note.place if isinstance(note.place, int) else 0


def _tell_results(results: Sequence[dict[str, Any]]) -> None:
    counts = [
        f"{count} {kind}"
        for kind in ("created", "updated", "unchanged")
        if (count := sum(1 for result in results if result["result"] == kind))
    ]
    click.echo(f"{len(results)} jobs: {', '.join(counts)}")


def _tell_owner(owner: OwnerView) -> None:
    for gone in owner.deleted:
        click.echo(f"deleted {gone.name}")
    for left in owner.undefined:
        message = f"{left.name!r} is of an earlier import, and not in this one; it stays and keeps running"
        click.echo(f"note: {message}. Delete it: --prune, or mainspring job rm {left.name}", err=True)


def _columns(found: Imported) -> tuple[str, ...]:
    where = "LINE" if all(isinstance(entry.place, int) for entry in found.entries) else "WHERE"
    fires = ("NEXT", "THEN", "AND THEN")
    compared = any(entry.theirs is not None for entry in found.entries)
    return (where, "JOB", "WHEN", *fires, *(("OLD TOOL",) if compared else ()))


def _row(entry: ImportedJob, found: Imported, now: datetime) -> tuple[object, ...]:
    from mainspring.core.triggers import zone_name
    from mainspring.core.triggers.words import explain_trigger

    trigger = entry.trigger(now)
    when = entry.body.get("cron") or ("when submitted" if trigger is None else explain_trigger(trigger))
    zone = None if trigger is None else zone_name(trigger)
    fires = [show_instant(fire, zone) for fire in entry.next_fires(now, PREVIEW)]
    row = (entry.place, entry.name, when, *fires, *[""] * (PREVIEW - len(fires)))
    compared = any(each.theirs is not None for each in found.entries)
    return (*row, _verdict(entry, now)) if compared else row


def _verdict(entry: ImportedJob, now: datetime) -> str:
    if entry.theirs is None:
        return ""
    ours = entry.next_fires(now, MORE)
    for number, (mine, their) in enumerate(zip(ours, entry.theirs, strict=False), start=1):
        if mine != their:
            return f"fire {number}: {show_instant(their)}"
    if len(ours) != len(entry.theirs):
        return f"{len(entry.theirs)} fires"
    return f"same ({len(ours)})"


def _at(entry: ImportedJob | Any) -> dict[str, Any]:
    return {"line" if isinstance(entry.place, int) else "place": entry.place}


def _plain(
    found: Imported, now: datetime, results: Sequence[dict[str, Any]], owner: OwnerView | None
) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "entries": [_plain_entry(entry, now) for entry in found.entries],
        "problems": [
            {**_at(problem), "field": problem.field, "message": problem.message} for problem in found.problems
        ],
        "notes": [{**_at(note), "message": note.message} for note in sorted(found.notes, key=_line)],
        "results": list(results),
    }
    if owner is not None:
        plain["left"] = [{"name": job.name, "job_id": job.job_id} for job in owner.undefined]
        plain["deleted"] = [{"name": job.name, "job_id": job.job_id} for job in owner.deleted]
    return plain


def _plain_entry(entry: ImportedJob, now: datetime) -> dict[str, Any]:
    plain = {
        **_at(entry),
        "definition": dict(entry.body),
        "next_fire_times": [fire.isoformat() for fire in entry.next_fires(now, MORE)],
    }
    if entry.theirs is not None:
        plain["old_fire_times"] = [fire.isoformat() for fire in entry.theirs]
    return plain


def with_notes(found: Imported, notes: Sequence[ImportNote]) -> Imported:
    """Return what was found with more notes."""
    return replace(found, notes=(*found.notes, *notes))
