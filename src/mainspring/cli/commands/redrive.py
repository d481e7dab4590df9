"""`mainspring dead redrive` and `mainspring redrive`: run many dead letters again, and look after that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.calling import call, checked_run, plain
from mainspring.cli.dead_filters import ask, count_letters, dead_filters, wanted_of
from mainspring.cli.options import caller_options, json_option, kind_option
from mainspring.cli.output import print_fields, print_json, print_table, show_instant
from mainspring.cli.progress import Progress
from mainspring.clock import LoopWaiter
from mainspring.core.kinds import Whole
from mainspring.core.redrives import FASTEST, USUAL_RATE
from mainspring.errors import InvalidInput

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.redrives import RedriveAnswer, RedriveFilterView, RedriveView

_PERIOD = 1.0
"""Seconds between two looks at a redrive that is waited for."""
_OVER = frozenset({"done", "cancelled"})
_PAGE = Whole(1, 1000)


@click.command("redrive")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@dead_filters
@kind_option("--rate", Whole(1, FASTEST), default=str(USUAL_RATE), words="Runs a second.")
@click.option("--kept", is_flag=True, help="Use the definitions that the runs had, not the newest ones.")
@click.option("--dry-run", is_flag=True, help="Only say what would be run again.")
@click.option("--wait", is_flag=True, help="Show its progress until all are run again.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@caller_options
@json_option
def redrive_command(
    runs: tuple[str, ...],
    rate: int,
    server: str,
    *,
    kept: bool,
    dry_run: bool,
    wait: bool,
    yes: bool,
    as_json: bool,
    **given: str | None,
) -> None:
    """Run dead letters again, so many a second: some RUNs, or all that the options choose."""
    named = list(dict.fromkeys(map(checked_run, runs))) or None
    wanted: Any = wanted_of(given)
    definition = "kept" if kept else "newest"
    if named is None and all(value is None for value in wanted.values()):
        raise InvalidInput("run", "name runs, or choose them by an option; --until 0s means all of now")

    def make(*, is_dry_run: bool, run_ids: Sequence[str] | None = named) -> RedriveAnswer:
        answer: RedriveAnswer = ask(
            server,
            lambda client: client.start_redrive(
                run_ids=run_ids, rate=rate, definition=definition, dry_run=is_dry_run, **wanted
            ),
        )
        return answer

    if dry_run or not (yes or named):
        meant = make(is_dry_run=True)
        if dry_run:
            _tell(meant, as_json=as_json)
            return
        if meant.total and not _is_wanted(meant, rate):
            click.echo("nothing is run again", err=True)
            return
    answer = make(is_dry_run=False)
    if wait and answer.redrive is not None:
        answer.redrive = _watch(server, answer.redrive.redrive_id, is_quiet=as_json)
    _tell(answer, as_json=as_json)


def _is_wanted(meant: RedriveAnswer, rate: int) -> bool:
    return click.confirm(f"Run {count_letters(meant.total)} again, {rate:,} a second?", err=True)


def _tell(answer: RedriveAnswer, *, as_json: bool) -> None:
    if as_json:
        print_json(plain(answer))
        return
    redrive = answer.redrive
    if redrive is not None:
        click.echo(f"{redrive.redrive_id}  {redrive.state}: {_progress(redrive)}")
        return
    click.echo(f"{count_letters(answer.total)} would be run again")
    rows = [(one.job or one.job_id, one.version, f"{one.count:,}") for one in answer.versions]
    if rows:
        print_table(("JOB", "RAN BY VERSION", "COUNT"), rows, empty="")


@click.group("redrive")
def redrive_group() -> None:
    """Show, pause, resume and cancel redrives; `mainspring dead redrive` makes one."""


@redrive_group.command("list")
@kind_option("--limit", _PAGE, default="100", words="The most to list.")
@click.option("--before", metavar="ID", help="Only redrives before this one, to go on with a list.")
@caller_options
@json_option
def list_command(limit: int, before: str | None, server: str, *, as_json: bool) -> None:
    """List redrives, the newest first."""
    page = call(server, lambda client: client.list_redrives(before=before, limit=limit))
    if as_json:
        print_json(plain(page))
        return
    print_table(
        ("REDRIVE", "STATE", "CREATED", "TOTAL", "DONE", "RATE", "DEFINITION"),
        map(_row, page.items),
        empty="no redrives",
    )
    if page.next is not None:
        click.echo(f"for earlier ones, add --before {page.next}", err=True)


@redrive_group.command("show")
@click.argument("redrive")
@click.option("--wait", is_flag=True, help="Show its progress until all are run again.")
@caller_options
@json_option
def show_command(redrive: str, server: str, *, wait: bool, as_json: bool) -> None:
    """Show REDRIVE, an id, and how far it has come."""
    found = (
        _watch(server, redrive, is_quiet=as_json)
        if wait
        else call(server, lambda client: client.get_redrive(redrive))
    )
    _print(found, as_json=as_json)


@redrive_group.command("pause")
@click.argument("redrive")
@caller_options
@json_option
def pause_command(redrive: str, server: str, *, as_json: bool) -> None:
    """Run no further dead letters of REDRIVE again for now. Those that were run go on."""
    _print(call(server, lambda client: client.pause_redrive(redrive)), as_json=as_json)


@redrive_group.command("resume")
@click.argument("redrive")
@caller_options
@json_option
def resume_command(redrive: str, server: str, *, as_json: bool) -> None:
    """Go on with REDRIVE where it stopped."""
    _print(call(server, lambda client: client.resume_redrive(redrive)), as_json=as_json)


@redrive_group.command("cancel")
@click.argument("redrive")
@caller_options
@json_option
def cancel_command(redrive: str, server: str, *, as_json: bool) -> None:
    """Run no further dead letters of REDRIVE again; they stay open. Those that were run go on."""
    _print(call(server, lambda client: client.cancel_redrive(redrive)), as_json=as_json)


def _watch(server: str, redrive: str, *, is_quiet: bool) -> RedriveView:
    """Return a redrive when it is over; show its progress until then."""

    async def work(client: AsyncClient) -> RedriveView:
        waiter, line = LoopWaiter(), ""
        found = await client.get_redrive(redrive)
        with Progress("redrive", 0 if is_quiet else found.total) as progress:
            while True:
                if progress.is_shown:
                    progress.show(found.done, found.state)
                elif not is_quiet and line != (line := f"{found.state}: {_progress(found)}"):
                    click.echo(line, err=True)
                if found.state in _OVER:
                    return found
                await waiter.wait(_PERIOD)
                found = await client.get_redrive(redrive)

    return call(server, work)


def _progress(redrive: RedriveView) -> str:
    return f"{redrive.done:,} of {count_letters(redrive.total)} run again"


def _row(one: RedriveView) -> tuple[object, ...]:
    return (
        one.redrive_id,
        one.state,
        show_instant(one.created_at),
        f"{one.total:,}",
        f"{one.done:,}",
        f"{one.rate}/s",
        one.definition,
    )


def _print(redrive: RedriveView, *, as_json: bool) -> None:
    if as_json:
        print_json(plain(redrive))
        return
    print_fields({**plain(redrive), "filter": _filter(redrive.filter), "rate": f"{redrive.rate}/s"})


def _filter(wanted: RedriveFilterView) -> str:
    given = {name: value for name, value in plain(wanted).items() if value is not None}
    runs = given.pop("run_ids", None)
    words = [f"{name.removesuffix('_id').replace('_', ' ')} {_text(value)}" for name, value in given.items()]
    return ", ".join([*words, *([f"of {len(runs):,} runs that were named"] if runs is not None else [])])


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, str) else show_instant(value)
