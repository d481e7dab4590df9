"""`mainspring job history`, `diff` and `edit`: what a job was, and what it is to be."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.calling import call, find_job, plain, read_text_file
from mainspring.cli.changes import print_changes, tell_change
from mainspring.cli.completion import complete_files, job_argument
from mainspring.cli.definition import definition_options, read_body_options
from mainspring.cli.editing import edit_text, keep_edited, read_edited
from mainspring.cli.fires import print_warnings
from mainspring.cli.options import caller_options, json_option, kind_option
from mainspring.cli.output import print_json, print_table
from mainspring.cli.toml_text import read_toml, write_toml
from mainspring.core.definition.changes import compare_definitions
from mainspring.core.definition.short import shorten_definition
from mainspring.core.kinds import Whole
from mainspring.errors import InvalidInput, MainspringError, NotFound

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.versions import VersionView
    from mainspring.wire.views import JobView
    from mainspring.wire.written import JobWritten

_PAGE = 100


@click.command("history")
@job_argument
@kind_option("--limit", Whole(1, 100_000), default="20", words="The most to list, up to 100,000.")
@click.option("--before", type=int, metavar="VERSION", help="Only versions before this one.")
@caller_options
@json_option
def history_command(job: str, limit: int, before: int | None, server: str, *, as_json: bool) -> None:
    """List the versions of a job, the newest first: since when each holds, and what it changed."""

    async def work(client: AsyncClient) -> tuple[list[VersionView], int | None]:
        job_id = (await find_job(client, job)).job_id
        found: list[VersionView] = []
        following = before
        while len(found) < limit:
            page = await client.list_versions(job_id, before=following, limit=min(limit - len(found), _PAGE))
            found += page.items
            following = page.next
            if following is None:
                break
        return found, following

    versions, following = call(server, work)
    if as_json:
        print_json({"items": plain(versions), "next": following})
        return
    rows = [(one.version, one.created_at, _tell(one)) for one in versions]
    print_table(("VERSION", "SINCE", "CHANGED"), rows, empty="no versions")
    if following is not None:
        click.echo(f"for earlier ones, add --before {following}", err=True)


def _tell(version: VersionView) -> str:
    if version.version == 1:
        return "created"
    return "; ".join(tell_change(change) for change in version.changes) or "nothing that is shown"


@click.command("diff")
@job_argument
@click.argument("old", type=int, required=False)
@click.argument("new", type=int, required=False)
@caller_options
@json_option
def diff_command(job: str, old: int | None, new: int | None, server: str, *, as_json: bool) -> None:
    """Show what differs between two versions of a job.

    Without NEW, it compares OLD with the job as it is now; without both, the last version with the one before.
    """

    async def work(client: AsyncClient) -> tuple[VersionView, VersionView]:
        found = await find_job(client, job)
        last = found.version if new is None else new
        first = max(last - 1, 1) if old is None else old
        return await _version(client, found.job_id, first), await _version(client, found.job_id, last)

    before, after = call(server, work)
    changes = compare_definitions(before.definition, after.definition, made_at=after.created_at)
    if as_json:
        shown = [{"field": one.field, "before": one.before, "after": one.after} for one in changes]
        print_json({"old": before.version, "new": after.version, "changes": shown})
        return
    if before.version == after.version:
        click.echo(f"there is only version {after.version} to look at", err=True)
        return
    click.echo(f"version {before.version} -> {after.version}")
    print_changes(changes, indent="  ")
    if not changes:
        click.echo("  no difference")


async def _version(client: AsyncClient, job_id: str, version: int) -> VersionView:
    if version >= 1:
        page = await client.list_versions(job_id, before=version + 1, limit=1)
        if page.items and page.items[0].version == version:
            return page.items[0]
    raise NotFound("version", str(version))


@click.command("edit")
@job_argument
@click.option(
    "--file",
    metavar="FILE",
    shell_complete=complete_files,
    help="Take the whole definition from a TOML file instead; - is standard input.",
)
@click.option(
    "--unset", metavar="FIELD", multiple=True, help="Take away a field that a job need not have. Repeatable."
)
@click.option("--rename", metavar="NAME", help="Give the job another name.")
@definition_options
@caller_options
@json_option
def edit_command(
    job: str,
    file: str | None,
    unset: tuple[str, ...],
    rename: str | None,
    server: str,
    *,
    as_json: bool,
    **given: Any,
) -> None:
    """Change a job: in your editor, or the fields that options give.

    Without options, the job opens as TOML in $VISUAL or $EDITOR. What is wrong is refused, and nothing is stored.
    If somebody else changes the job meanwhile, neither is anything.
    """
    patch = read_body_options({}, given) | dict.fromkeys(unset)
    if rename is not None:
        patch["name"] = rename
    if patch and file is not None:
        raise InvalidInput("file", "has the whole definition; give it alone, or only options")

    async def read(client: AsyncClient) -> JobView:
        return await find_job(client, job)

    before = call(server, read)
    after: JobWritten | None
    if patch:
        after = call(server, lambda client: client.edit_job(before.job_id, patch, version=before.version))
    elif file is not None:
        after = _replace(server, before, _whole(read_text_file(file, "file")))
    else:
        after = _edit_by_hand(server, before)
    _report(before, after, as_json=as_json)


def _report(before: JobView, after: JobWritten | None, *, as_json: bool) -> None:
    if as_json:
        print_json(plain(after if after is not None else before))
        return
    if after is None or after.version == before.version:
        click.echo(f"{before.name}: nothing changed", err=True)
        return
    click.echo(f"{after.name}: version {before.version} -> {after.version}")
    changes = compare_definitions(definition_of(before), definition_of(after), made_at=after.updated_at)
    print_changes(changes, indent="  ")
    print_warnings(after.schedule_warnings)


def definition_of(job: JobView) -> dict[str, Any]:
    """Return the definition in full form that a job's view holds."""
    from mainspring.core.definition.options import OPTIONS

    shown = plain(job)
    return {name: shown[name] for name in ("name", "target", "trigger", *(option.key for option in OPTIONS))}


def _edit_by_hand(server: str, job: JobView) -> JobWritten | None:
    """Let the user edit a job until the server takes it; None if nothing was changed."""
    try:
        text = write_toml(shorten_definition(definition_of(job)))
    except InvalidInput as error:
        message = f"{error.message}; change the job by options instead, like --payload"
        raise InvalidInput(error.field, message) from None
    head = f"# The job {job.name!r}, version {job.version}. Fields that are left out have their defaults.\n"
    edited = original = (head + text).encode()
    while True:
        saved = edit_text(edited, ending=".toml")
        if saved is None or saved == original:
            return None
        edited = saved
        try:
            return _replace(server, job, _whole(read_edited(edited)))
        except MainspringError as error:
            if not isinstance(error, InvalidInput) or not _tries_again(error):
                kept = keep_edited(edited, "job.toml")
                click.echo(f"nothing was stored; your text is kept in {kept}", err=True)
                raise


def _replace(server: str, job: JobView, body: dict[str, Any]) -> JobWritten:
    return call(server, lambda client: client.replace_job(job.job_id, body, version=job.version))


def _whole(text: str) -> dict[str, Any]:
    body = read_toml(text, "file")
    if not body:
        raise InvalidInput("file", "is empty; to delete a job: mainspring job rm")
    return body


def _tries_again(error: InvalidInput) -> bool:
    if not sys.stdin.isatty():
        return False
    click.echo(f"error: {error}", err=True)
    return click.confirm("Edit it again?", default=True, err=True)
