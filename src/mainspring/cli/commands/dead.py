"""`mainspring dead`: what failed for good, in groups or one by one, and how to take it off the list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.calling import checked_run, plain
from mainspring.cli.commands.redrive import redrive_command
from mainspring.cli.commands.run_detail import show_command
from mainspring.cli.dead_filters import ask, count_letters, dead_filters, wanted_of
from mainspring.cli.options import caller_options, json_option, kind_option
from mainspring.cli.output import print_json, print_table
from mainspring.core.kinds import Text, Whole
from mainspring.errors import InvalidInput

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.dead_letters import DeadGroups, DeadPage, DeadRunView, DiscardedView

_WIDTH = 70
_LIMIT = Whole(1, 1000)


@click.group("dead")
def dead_group() -> None:
    """Show and settle dead letters: runs that failed for good."""


dead_group.add_command(show_command)
dead_group.add_command(redrive_command)


@dead_group.command("list")
@dead_filters
@click.option("--settled", is_flag=True, help="Those that were run again or discarded, not the open ones.")
@kind_option("--limit", _LIMIT, default="20", words="The most to list.")
@click.option("--before", metavar="RUN", help="Only runs older than this one, to go on with a list.")
@caller_options
@json_option
def list_command(
    limit: int, before: str | None, server: str, *, settled: bool, as_json: bool, **given: str | None
) -> None:
    """List dead letters, the newest runs first."""

    async def work(client: AsyncClient) -> DeadPage:
        wanted: Any = wanted_of(given)
        return await client.list_dead_runs(settled=settled, before=before, limit=limit, **wanted)

    page: DeadPage = ask(server, work)
    if as_json:
        print_json(plain(page))
        return
    heading = ("RUN", "JOB", "FAILED", "ATTEMPTS", "SETTLED" if settled else "ERROR")
    print_table(heading, map(_row, page.items), empty="no dead letters")
    if page.next is not None:
        click.echo(f"for older ones, add --before {page.next}", err=True)


def _row(letter: DeadRunView) -> tuple[object, ...]:
    return (
        letter.run_id,
        letter.job or letter.job_id,
        letter.finished_at,
        letter.attempt,
        (letter.error or "")[:_WIDTH]
        if letter.settled is None
        else f"run again as {letter.settled.redriven_as}"
        if letter.settled.redriven_as is not None
        else f"discarded: {letter.settled.reason}"[:_WIDTH],
    )


@dead_group.command("groups")
@dead_filters
@kind_option("--limit", _LIMIT, default="20", words="The most groups to show.")
@caller_options
@json_option
def groups_command(limit: int, server: str, *, as_json: bool, **given: str | None) -> None:
    """Count dead letters that failed alike, the largest groups first. Numbers and ids of errors are #."""

    async def work(client: AsyncClient) -> DeadGroups:
        wanted: Any = wanted_of(given)
        return await client.group_dead_runs(limit=limit, **wanted)

    found: DeadGroups = ask(server, work)
    if as_json:
        print_json(plain(found))
        return
    rows = [
        (
            f"{group.count:,}",
            group.job or group.job_id,
            group.first_at,
            group.last_at,
            group.newest,
            "(from an earlier release)" if group.error_group is None else group.error_group[:_WIDTH],
        )
        for group in found.items
    ]
    print_table(("COUNT", "JOB", "FIRST", "LAST", "NEWEST RUN", "ERROR"), rows, empty="no dead letters")


@dead_group.command("discard")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@dead_filters
@kind_option("--because", Text(500), words="Why they are not to run again.", is_required=True)
@click.option("--dry-run", is_flag=True, help="Only say how many that would be.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@caller_options
@json_option
def discard_command(
    runs: tuple[str, ...],
    because: str,
    server: str,
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **given: str | None,
) -> None:
    """Take dead letters off the list for good: some RUNs, or all that the options choose."""
    named = list(dict.fromkeys(map(checked_run, runs))) or None
    wanted: Any = wanted_of(given)
    if named is None and all(value is None for value in wanted.values()):
        raise InvalidInput("run", "name runs, or choose them by an option; --until 0s means all of now")
    if dry_run or not (yes or named):
        meant = ask(server, lambda client: _discard(client, because, named, wanted, is_dry_run=True))
        if dry_run:
            _tell(meant, "would be discarded", as_json=as_json)
            return
        if meant.total and not click.confirm(f"Discard {count_letters(meant.total)} for good?", err=True):
            click.echo("nothing was discarded", err=True)
            return
        wanted["until"] = meant.until  # what has failed since was not asked about
    _tell(
        ask(server, lambda client: _discard(client, because, named, wanted, is_dry_run=False)),
        "discarded",
        as_json=as_json,
    )


async def _discard(
    client: AsyncClient, because: str, runs: Sequence[str] | None, wanted: Any, *, is_dry_run: bool
) -> DiscardedView:
    """Discard until nothing is left, however long that takes."""
    done = await client.discard_dead_runs(because, run_ids=runs, dry_run=is_dry_run, **wanted)
    while not done.is_complete:
        more = await client.discard_dead_runs(because, run_ids=runs, **{**wanted, "until": done.until})
        done.total, done.is_complete = done.total + more.total, more.is_complete
    return done


def _tell(done: DiscardedView, what: str, *, as_json: bool) -> None:
    if as_json:
        print_json(plain(done))
    else:
        click.echo(f"{count_letters(done.total)} {what}")
