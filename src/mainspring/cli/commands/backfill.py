"""`mainspring job backfill` and `mainspring backfill`: make the runs of a range that is past, and look after them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.calling import call, find_job, plain
from mainspring.cli.completion import job_argument
from mainspring.cli.options import caller_options, json_option, kind_option
from mainspring.cli.output import print_fields, print_json, print_table, show_instant
from mainspring.cli.progress import Progress
from mainspring.clock import LoopWaiter
from mainspring.core.kinds import OneOf, Text, Whole, Word
from mainspring.core.rates import Rate, RateText
from mainspring.core.times import Instant

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.backfills import BackfillAnswer, BackfillPlanView, BackfillView

_PERIOD = 1.0
"""Seconds between two looks at a backfill that is waited for."""
_OVER = frozenset({"done", "cancelled"})
_PAGE = Whole(1, 1000)


@click.command("backfill")
@job_argument
@kind_option(
    "--from", Instant(), words="The first instant of the range, ISO 8601 with an offset.", is_required=True
)
@kind_option(
    "--to", Instant(), words="The end of the range, which has passed; it does not count.", is_required=True
)
@click.option("--dry-run", is_flag=True, help="Only say what would be made.")
@kind_option(
    "--skip-done",
    OneOf(("succeeded", "any", "none")),
    default="succeeded",
    words="Leave out fires that have a run that succeeded or goes on, any run, or none.",
)
@kind_option(
    "--definition",
    OneOf(("then", "now")),
    default="then",
    words="Make each fire by the definition that held at its time, or by the newest.",
)
@kind_option("--rate", RateText(), words="How fast runs are made, like 20/s.")
@kind_option(
    "--max-live", Whole(1, 100_000), words="How many of its runs may wait or be under way at a time."
)
@kind_option(
    "--priority",
    Word(),
    default="LOW",
    words="The priority of its runs: HIGH, MEDIUM, LOW, or a class of that tier.",
)
@kind_option("--note", Text(500), words="What you want to remember about it.")
@click.option("--wait", is_flag=True, help="Show its progress until all its runs are over.")
@caller_options
@json_option
def backfill_command(
    job: str, server: str, *, dry_run: bool, wait: bool, as_json: bool, **given: Any
) -> None:
    """Make the runs of JOB, an id or a name, for a range that is past, each fire once."""
    options = {name: _plain(value) for name, value in given.items() if value is not None}

    async def work(client: AsyncClient) -> BackfillAnswer:
        found = await find_job(client, job)
        from_time, to_time = options.pop("from"), options.pop("to")
        return await client.backfill(found.job_id, from_time, to_time, dry_run=dry_run, **options)

    answer = call(server, work)
    if wait and answer.backfill is not None:
        answer.backfill = _watch(server, answer.backfill.backfill_id, is_quiet=as_json)
    if as_json:
        print_json(plain(answer))
        return
    _print_plan(answer.plan, is_dry_run=dry_run)
    if answer.backfill is not None:
        click.echo(f"{answer.backfill.backfill_id}  {_state(answer.backfill)}")


@click.group("backfill")
def backfill_group() -> None:
    """Show, pause, resume and cancel backfills; `mainspring job backfill` makes one."""


@backfill_group.command("list")
@click.option("--job", metavar="JOB", help="Only backfills of this job, an id or a name.")
@kind_option("--limit", _PAGE, default="100", words="The most to list.")
@click.option("--before", metavar="ID", help="Only backfills before this one, to go on with a list.")
@caller_options
@json_option
def list_command(job: str | None, limit: int, before: str | None, server: str, *, as_json: bool) -> None:
    """List backfills, the newest first."""

    async def work(client: AsyncClient) -> Any:
        job_id = None if job is None else (await find_job(client, job)).job_id
        return await client.list_backfills(job_id=job_id, before=before, limit=limit)

    page = call(server, work)
    if as_json:
        print_json(plain(page))
        return
    columns = ("BACKFILL", "STATE", "FROM", "TO", "FIRES", "MADE", "SKIPPED", "LIVE", "LEFT")
    print_table(columns, map(_row, page.items), empty="no backfills")
    if page.next is not None:
        click.echo(f"for earlier ones, add --before {page.next}", err=True)


@backfill_group.command("show")
@click.argument("backfill")
@click.option("--wait", is_flag=True, help="Show its progress until all its runs are over.")
@caller_options
@json_option
def show_command(backfill: str, server: str, *, wait: bool, as_json: bool) -> None:
    """Show BACKFILL, an id, and how far it has come."""
    found = (
        _watch(server, backfill, is_quiet=as_json)
        if wait
        else call(server, lambda client: client.get_backfill(backfill))
    )
    _print(found, as_json=as_json)


@backfill_group.command("pause")
@click.argument("backfill")
@caller_options
@json_option
def pause_command(backfill: str, server: str, *, as_json: bool) -> None:
    """Make no further runs of BACKFILL for now. Those that were made go on."""
    _print(call(server, lambda client: client.pause_backfill(backfill)), as_json=as_json)


@backfill_group.command("resume")
@click.argument("backfill")
@caller_options
@json_option
def resume_command(backfill: str, server: str, *, as_json: bool) -> None:
    """Go on with BACKFILL where it stopped."""
    _print(call(server, lambda client: client.resume_backfill(backfill)), as_json=as_json)


@backfill_group.command("cancel")
@click.argument("backfill")
@caller_options
@json_option
def cancel_command(backfill: str, server: str, *, as_json: bool) -> None:
    """Make no further runs of BACKFILL, and cancel those that wait. Those under way go on."""
    _print(call(server, lambda client: client.cancel_backfill(backfill)), as_json=as_json)


def _watch(server: str, backfill: str, *, is_quiet: bool) -> BackfillView:
    """Return a backfill when it makes no more runs and none of its runs is live; show its progress until then."""

    async def work(client: AsyncClient) -> BackfillView:
        waiter, line = LoopWaiter(), ""
        found = await client.get_backfill(backfill)
        with Progress("backfill", 0 if is_quiet else found.fires) as progress:
            while True:
                if progress.is_shown:
                    progress.show(found.fires - found.left, f"{_state(found)}, {_counts(found)}")
                elif not is_quiet:
                    line = _tell_progress(found, line)
                if found.state in _OVER and not found.live:
                    return found
                await waiter.wait(_PERIOD)
                found = await client.get_backfill(backfill)

    return call(server, work)


def _tell_progress(backfill: BackfillView, last: str) -> str:
    """Print how far a backfill has come, if that has changed since the last line; return the line."""
    passed = backfill.fires - backfill.left
    line = f"{_state(backfill)}: {passed:,} of {backfill.fires:,} fires, {_counts(backfill)}"
    if line != last:
        click.echo(line, err=True)
    return line


def _counts(backfill: BackfillView) -> str:
    return f"{backfill.made:,} made, {backfill.skipped:,} skipped, {backfill.live:,} live"


def _state(backfill: BackfillView) -> str:
    """Return a backfill's state, and what keeps an open one from going on."""
    is_held = backfill.state == "open" and backfill.is_job_paused
    return "open, but its job is paused" if is_held else backfill.state


def _row(one: BackfillView) -> tuple[object, ...]:
    return (
        one.backfill_id,
        _state(one),
        show_instant(one.from_time),
        show_instant(one.to_time),
        one.fires,
        one.made,
        one.skipped,
        one.live,
        one.left,
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Rate):
        return value.text
    return value.isoformat() if isinstance(value, datetime) else value


def _print_plan(plan: BackfillPlanView, *, is_dry_run: bool) -> None:
    fields: dict[str, object] = plain(plan)
    counts = [f"{count:,} by version {version}" for version, count in plan.versions.items()]
    fields["versions"] = ", ".join(counts) or None
    fields["first"] = "\n".join(map(show_instant, plan.first)) or None
    print_fields(fields)
    if is_dry_run:
        click.echo("a dry run: nothing was made", err=True)


def _print(backfill: BackfillView, *, as_json: bool) -> None:
    if as_json:
        print_json(plain(backfill))
    else:
        print_fields(
            {name: value or None if name == "note" else value for name, value in plain(backfill).items()}
        )
