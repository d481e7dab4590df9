"""`mainspring diff`, `apply` and `export`: jobs that are kept in files."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.calling import call, find_job, plain
from mainspring.cli.changes import print_changes
from mainspring.cli.commands.job_versions import definition_of
from mainspring.cli.completion import complete_files, complete_jobs
from mainspring.cli.job_files import FiledJob, JobFiles, read_job_files
from mainspring.cli.options import caller_options, json_option
from mainspring.cli.output import print_json
from mainspring.cli.progress import Progress
from mainspring.cli.terminal import Terminal
from mainspring.cli.toml_text import write_toml
from mainspring.core.definition.short import shorten_definition
from mainspring.core.owners import read_owner
from mainspring.core.values import value
from mainspring.errors import Conflict, InvalidInput
from mainspring.host.exit_codes import ExitCode

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.applying import AppliedView
    from mainspring.wire.owners import OwnerView
    from mainspring.wire.views import JobView

_SIGNS = {
    "created": ("+", "green"),
    "changed": ("~", "yellow"),
    "deleted": ("-", "red"),
    "left": ("!", "yellow"),
}


@value()
class _Gone:
    """A job that its owner's files do not have any more.

    Attributes:
        kept: why it is kept; None if it is deleted.
    """

    name: str
    owner: str
    kept: str | None


_NO_PRUNE = "it is kept, --prune deletes it"
_SERVED = "it is kept, because a live worker still has its function"


@dataclass(slots=True)
class _Result:
    """What becomes of the jobs of files."""

    applied: list[tuple[FiledJob, AppliedView]]
    gone: list[_Gone] = field(default_factory=list)

    @property
    def changes(self) -> bool:
        return any(view.outcome != "unchanged" for _, view in self.applied) or any(
            gone.kept is None for gone in self.gone
        )


def _file_options(function: Any) -> Any:
    for option in reversed(
        (
            click.argument(
                "files",
                nargs=-1,
                required=True,
                metavar="FILE|FOLDER...",
                shell_complete=complete_files,
            ),
            click.option("--owner", metavar="NAME", help="The owner of jobs whose file names none."),
            click.option(
                "--prune", is_flag=True, help="Delete the owner's jobs that the files do not have any more."
            ),
        )
    ):
        function = option(function)
    return function


@click.command("diff")
@_file_options
@click.option("--check", is_flag=True, help="Exit with code 3 if something would change.")
@caller_options
@json_option
def diff_command(
    files: tuple[str, ...], owner: str | None, server: str, *, prune: bool, check: bool, as_json: bool
) -> int:
    """Show what `apply` would change. Nothing is changed.

    Files are TOML, JSON or YAML; of a folder, all of them are read.
    """
    read = _read(files, owner, prune=prune)

    async def work(client: AsyncClient) -> _Result:
        result = _Result(await _diff(client, read.jobs))
        result.gone = [gone async for gone in _find_gone(client, read, prune=prune)]
        return result

    result = call(server, work)
    _report(result, as_json=as_json, is_dry=True)
    return ExitCode.NOT_WELL if check and result.changes else ExitCode.DONE


@click.command("apply")
@_file_options
@caller_options
@json_option
def apply_command(
    files: tuple[str, ...], owner: str | None, server: str, *, prune: bool, as_json: bool
) -> None:
    """Make the jobs of files what the files say. Doing it again changes nothing.

    All of it is one transaction: if one job is wrong, or someone else changes one meanwhile, nothing is changed. More
    than 1,000 jobs, or 3 MiB, are checked first, and then applied in several transactions. Files are TOML, JSON or
    YAML; of a folder, all of them are read.
    """
    read = _read(files, owner, prune=prune)

    async def work(client: AsyncClient) -> _Result:
        parts = _parts(read.jobs)
        if len(parts) > 1:  # all are checked before the first is stored
            click.echo(
                f"note: more than one transaction holds; {len(parts)} parts are applied one after another",
                err=True,
            )
            await _diff(client, read.jobs)
        result = _Result([])
        with Progress("applying", len(read.jobs)) as progress:
            for part in parts[:-1]:
                result.applied += (await _apply(client, part, {}, prune=False))[0]
                progress.advance(len(part))
            applied, views = await _apply(client, parts[-1], read.names_by_owner(), prune=prune)
        result.applied += applied
        for view in views:
            result.gone += [_Gone(one.name, view.owner, None) for one in view.deleted]
            result.gone += [
                _Gone(one.name, view.owner, _SERVED if prune and one.is_served else _NO_PRUNE)
                for one in view.undefined
            ]
        return result

    _report(call(server, work), as_json=as_json, is_dry=False)


def _read(files: Sequence[str], owner: str | None, *, prune: bool) -> JobFiles:
    read = read_job_files(files, owner=None if owner is None else read_owner(owner, "owner"))
    if prune and not read.owners:
        message = (
            'needs an owner, whose other jobs it deletes: put owner = "…" into the file, or give --owner'
        )
        raise InvalidInput("prune", message)
    return read


def _parts(jobs: Sequence[FiledJob]) -> list[Sequence[FiledJob]]:
    """Divide jobs into what one request may hold."""
    from mainspring.sdk.applying import parts_of

    parts: list[Sequence[FiledJob]] = []
    start = 0
    for bodies in parts_of([job.body for job in jobs]):
        parts.append(jobs[start : start + len(bodies)])
        start += len(bodies)
    return parts


async def _diff(client: AsyncClient, jobs: Sequence[FiledJob]) -> list[tuple[FiledJob, AppliedView]]:
    sent: list[tuple[FiledJob, AppliedView]] = []
    with Progress("checking", len(jobs)) as progress:
        for part in _parts(jobs) if jobs else []:
            try:
                views = await client.diff_jobs([job.body for job in part])
            except (InvalidInput, Conflict) as error:
                raise _placed(error, part) from None
            sent += zip(part, views, strict=True)
            progress.advance(len(part))
    return sent


async def _apply(
    client: AsyncClient, jobs: Sequence[FiledJob], owners: Mapping[str, Sequence[str]], *, prune: bool
) -> tuple[list[tuple[FiledJob, AppliedView]], list[OwnerView]]:
    try:
        view = await client.apply_definitions([job.body for job in jobs], owners=owners, prune=prune)
    except (InvalidInput, Conflict) as error:
        raise _placed(error, jobs) from None
    return list(zip(jobs, view.jobs, strict=True)), view.owners


def _placed(error: InvalidInput | Conflict, jobs: Sequence[FiledJob]) -> InvalidInput | Conflict:
    """Return an error that names the file and the job, not their place in a request."""
    from mainspring.sdk.applying import split_place

    place = split_place(error.field, len(jobs))
    if place is None:
        return error
    job = jobs[place[0]]

    def in_file(path: str) -> str:
        _, field = split_place(path, len(jobs)) or (0, path)
        return job.path(field or "job")

    if isinstance(error, InvalidInput):
        return error.renamed(in_file)
    return Conflict(in_file(error.field), error.message)


async def _find_gone(client: AsyncClient, read: JobFiles, *, prune: bool) -> AsyncIterator[_Gone]:
    """Yield the jobs that belong to an owner of the files, and are in none of them."""
    if not read.owners:
        return
    names = {str(job.body["name"]) for job in read.jobs}
    async for job in client.jobs():
        if job.owner in read.owners and job.name not in names:
            yield _Gone(job.name, job.owner, None if prune else _NO_PRUNE)


def _report(result: _Result, *, as_json: bool, is_dry: bool) -> None:
    if as_json:
        print_json(
            {
                "jobs": [{"file": job.file, **plain(view)} for job, view in result.applied],
                "gone": [
                    {"name": one.name, "owner": one.owner, "deleted": one.kept is None} for one in result.gone
                ],
                "changes": result.changes,
            }
        )
        return
    for job, view in result.applied:
        if view.outcome != "unchanged":
            _line(view.outcome, f"{view.name}  {job.file}")
            print_changes(view.changes, indent="    ")
        for warning in view.schedule_warnings:
            click.echo(f"warning: {view.name!r}: {warning}", err=True)
        if view.owner is not None and job.owner is not None and view.owner != job.owner:
            click.echo(f"note: {view.name!r} belongs to {view.owner} until now", err=True)
    for one in result.gone:
        kept = "" if one.kept is None else f"; {one.kept}"
        _line("left" if one.kept else "deleted", f"{one.name}  no longer in the files of {one.owner}{kept}")
    _sum_up(result, is_dry=is_dry)


def _line(outcome: str, text: str) -> None:
    sign, colour = _SIGNS[outcome]
    terminal = Terminal.of_output()
    has_colours = terminal is not None and terminal.has_colours
    click.echo(
        click.style(f"{sign} {text}", fg=colour) if has_colours else f"{sign} {text}", color=has_colours
    )


def _sum_up(result: _Result, *, is_dry: bool) -> None:
    counts = Counter(view.outcome for _, view in result.applied)
    counts["deleted"] = sum(1 for one in result.gone if one.kept is None)
    parts = [
        f"{counts[outcome]} {outcome}"
        for outcome in ("created", "changed", "deleted", "unchanged")
        if counts[outcome]
    ]
    told = ", ".join(parts) or "no jobs"
    click.echo(f"would be: {told}; nothing was changed" if is_dry else told)


@click.command("export")
@click.argument("jobs", nargs=-1, metavar="[JOB...]", shell_complete=complete_jobs)
@click.option("--owner", metavar="NAME", help="Only the jobs of this owner; the file names it.")
@caller_options
@json_option
def export_command(jobs: tuple[str, ...], owner: str | None, server: str, *, as_json: bool) -> None:
    """Print jobs as a file for `apply`: those that are named, or all. It is TOML, or with --json JSON."""

    async def work(client: AsyncClient) -> list[JobView]:
        named = [await find_job(client, job) for job in jobs]
        found = named or [job async for job in client.jobs()]
        return [job for job in found if owner is None or job.owner == owner]

    found = call(server, work)
    bodies = [shorten_definition(definition_of(job)) for job in found]
    head = {} if owner is None else {"owner": owner}
    if as_json:
        print_json({**head, "jobs": bodies})
        return
    parts = [write_toml(head)] if head else []
    if not bodies:
        parts.append("jobs = []\n")
    for body in bodies:
        try:
            parts.append(f"[[jobs]]\n{write_toml(body)}")
        except InvalidInput as error:
            message = f"{error.message}; export it with --json"
            raise InvalidInput(f"job {body['name']!r}: {error.field}", message) from None
    click.echo("\n".join(parts), nl=False)
