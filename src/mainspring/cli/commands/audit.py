"""`mainspring audit`: who changed what, from where and when."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mainspring.cli.calling import call, plain
from mainspring.cli.options import json_option, kind_option, server_option, shown_options
from mainspring.cli.output import print_json, print_table, show_plain
from mainspring.core.kinds import Whole
from mainspring.host.exit_codes import ExitCode

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.audit import AuditCheckView, AuditEntryView

F = TypeVar("F", bound=Callable[..., Any])
_MOST = 1000
_PAGE = Whole(1, _MOST)
_SHOWN_FIELDS = 3
"""Fields of a change that a row of the list tells."""


def _filters(function: F) -> F:
    """Add the options that say which entries are meant."""
    for option in reversed(
        (
            click.option("--job", metavar="JOB", help="Only what was done to this job, a name or an id."),
            click.option(
                "--kind", metavar="KIND", help="Only what was done to this kind of thing, like queue."
            ),
            click.option(
                "--subject",
                metavar="ID",
                help="Only what was done to this thing of the --kind: its id or name.",
            ),
            click.option("--actor", metavar="NAME", help="Only what this user did."),
            click.option("--action", metavar="ID", help="Only this operation, like edit_job."),
            click.option(
                "--tenant",
                metavar="NAME",
                help="Only what is this tenant's; '*' is what all tenants share.  [default: everything]",
            ),
            click.option(
                "--since", metavar="WHEN", help="Only what was done since then, like 2h or an instant."
            ),
            click.option("--until", metavar="WHEN", help="Only what was done before then."),
        )
    ):
        function = option(function)
    return function


@click.group("audit")
def audit_group() -> None:
    """Show who changed what."""


@audit_group.command("list")
@_filters
@kind_option("--limit", _PAGE, default="100", words="The most to list.")
@click.option("--before", type=int, metavar="ID", help="Only entries before this one, to go on with a list.")
@server_option
@shown_options
@json_option
def list_command(limit: int, before: int | None, server: str, *, as_json: bool, **wanted: Any) -> None:
    """List who changed what, the newest first."""
    page = call(server, lambda client: client.list_audit(before=before, limit=limit, **wanted))
    if as_json:
        print_json(plain(page))
        return
    print_table(
        ("AT", "ACTOR", "ACTION", "SUBJECT", "CHANGE"), map(_row, page.items), empty="nothing was changed"
    )
    if page.next is not None:
        click.echo(f"for earlier ones, add --before {page.next}", err=True)


@audit_group.command("export")
@_filters
@server_option
def export_command(server: str, **wanted: Any) -> None:
    """Print entries as JSON, one in a line, the newest first, as many as there are."""

    async def work(client: AsyncClient) -> None:
        before: int | None = None
        while True:
            page = await client.list_audit(before=before, limit=_MOST, **wanted)
            for entry in page.items:
                click.echo(json.dumps(plain(entry), ensure_ascii=False, default=show_plain))
            before = page.next
            if before is None:
                return

    call(server, work)


@audit_group.command("verify")
@click.option(
    "--expect",
    metavar="SEAL=DIGEST",
    help="A seal that has to be there, from a server's log: only that shows that the newest ones are missing.",
)
@server_option
@json_option
def verify_command(expect: str | None, server: str, *, as_json: bool) -> ExitCode:
    """Check that no entry was changed or taken out since it was sealed.

    The exit code is 3 if one was.
    """

    async def work(client: AsyncClient) -> AuditCheckView:
        found = await client.verify_audit(expect=expect)
        seals, entries = found.seals, found.entries
        while found.next is not None:
            found = await client.verify_audit(after=found.next, expect=expect)
            seals, entries = seals + found.seals, entries + found.entries
        found.seals, found.entries = seals, entries
        return found

    found = call(server, work)
    if as_json:
        print_json(plain(found))
    else:
        _tell(found)
    return ExitCode.DONE if found.is_intact else ExitCode.NOT_WELL


def _tell(found: AuditCheckView) -> None:
    click.echo(f"{found.seals:,} seals fit, over {found.entries:,} entries")
    if found.last_seal is not None:
        click.echo(f"seal {found.last_seal} has the digest {found.digest}")
    click.echo(f"all that was sealed since {show_plain(found.checked_from)} has to be there")
    broken = found.broken
    if broken is not None:
        first = "" if broken.entry_id is None else f", at entry {broken.entry_id}"
        click.echo(f"seal {broken.seal} is broken{first}: {broken.reason}")


def _row(one: AuditEntryView) -> tuple[object, ...]:
    who = one.actor if one.address is None else f"{one.actor} at {one.address}"
    name = one.subject_name or one.subject_id or "several"
    return one.at, who, one.action, f"{one.subject_kind} {name}", _change(one)


def _change(one: AuditEntryView) -> str:
    """Return what has changed, in a few words."""
    before, after = one.before or {}, one.after or {}
    if before and before == after:
        return "as it was"
    if one.subject_id is None and "count" in after:
        return f"{after['count']:,} of them"
    fields = [field for field in {**before, **after} if before.get(field) != after.get(field)]
    told = [_field(field, before, after) for field in fields[:_SHOWN_FIELDS]]
    more = len(fields) - _SHOWN_FIELDS
    return ", ".join([*told, *([f"and {more} more"] if more > 0 else [])])


def _field(field: str, before: dict[str, Any], after: dict[str, Any]) -> str:
    old, new = (_short(values[field]) if field in values else "" for values in (before, after))
    return f"{field}: {old} → {new}" if old and new else f"{field}: {old or new}"


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
