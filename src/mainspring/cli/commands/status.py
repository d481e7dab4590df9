"""`mainspring status`: the cluster at a glance, on one screen."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from mainspring.cli.calling import call, plain
from mainspring.cli.options import caller_options, json_option
from mainspring.cli.output import print_fields, print_json, print_table, show_age, show_instant, show_rough
from mainspring.cli.terminal import Terminal
from mainspring.core.attention import AttentionLevel
from mainspring.host.exit_codes import ExitCode

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.overview import OverviewView, ServerView

_MOST_QUEUES = 10
_MOST_SERVERS = 5


@click.command("status")
@caller_options
@json_option
def status_command(server: str, *, as_json: bool) -> int:
    """Show servers, workers, jobs, runs and queues at a glance, what is paused, and what needs attention.

    The exit code is 3 if something is wrong: nothing schedules, fires are overdue, or runs wait where no worker
    serves, or the daily check has missed fires. Warnings and failed runs do not change it.
    """

    async def work(client: AsyncClient) -> OverviewView:
        return await client.get_overview()

    found = call(server, work)
    if as_json:
        print_json(plain(found))
    else:
        _print(found)
    is_bad = any(one.level == AttentionLevel.BAD for one in found.attention)
    return ExitCode.NOT_WELL if is_bad else ExitCode.DONE


def _print(found: OverviewView) -> None:
    terminal = Terminal.of_output()
    for one in found.attention:
        mark = "!!" if one.level == AttentionLevel.BAD else " !"
        line = f"{mark} {one.sentence}"
        if terminal is not None and terminal.has_colours:
            line = click.style(line, fg="red" if one.level == AttentionLevel.BAD else "yellow")
        click.echo(line)
    if found.attention:
        click.echo()
    runs, jobs, slots = found.runs, found.jobs, found.slots
    age = timedelta(milliseconds=runs.age_ms)
    waiting = f"{runs.PENDING:,} waiting, {runs.RUNNING:,} running, {runs.RETRYING:,} retrying"
    ended = f"{runs.SUCCEEDED:,} succeeded, {runs.FAILED:,} failed, {runs.CANCELLED:,} cancelled"
    fields: dict[str, object] = {
        "server": "\n".join(_servers(found)) or "none schedules",
        "store": found.store,
        "workers": f"{slots.workers:,}; {slots.held:,} of {slots.total:,} slots busy",
        "jobs": f"{jobs.active:,} active, {jobs.paused:,} paused{' or more' if jobs.is_more else ''}",
        "runs": f"{waiting}\n{ended}, {runs.SKIPPED:,} skipped",
        "dead letters": f"{found.dead_letters:,} open; see mainspring dead groups"
        if found.dead_letters
        else "none",
        "paused": "\n".join(_paused(found)) or "nothing",
        "ledger": _sum_up_ledger(found),
        "counted": f"{show_rough(age)} ago" if age else None,
    }
    print_fields(fields)
    _print_queues(found)


def _sum_up_ledger(found: OverviewView) -> str:
    """Say what the daily check of all fires has found."""
    check = found.ledger
    if check is None:
        return "not checked yet; a server checks all jobs once a day"
    owed = f"{check.expected:,} fires of {check.jobs:,} job{'' if check.jobs == 1 else 's'} owed"
    differences = f"{check.missing:,} missing, {check.surplus:,} surplus"
    return f"{owed}, {differences}; checked {show_age(check.ended_at, found.now)} ago"


def _servers(found: OverviewView) -> Iterator[str]:
    for one in found.servers[:_MOST_SERVERS]:
        yield _server(one, found)
    if len(found.servers) > _MOST_SERVERS:
        yield f"and {len(found.servers) - _MOST_SERVERS} more"


def _server(one: ServerView, found: OverviewView) -> str:
    health = "ok" if one.refusal is None else f"refused: {one.refusal}"
    up = show_age(one.started_at, found.now)
    return f"{one.name} {one.version}, {health}, up {up}, beat {show_age(one.last_beat_at, found.now)} ago"


def _paused(found: OverviewView) -> Iterator[str]:
    for pause in found.paused.items:
        what = "everything" if pause.scope == "all" else f"{pause.scope} {pause.name}"
        until = "" if pause.until is None else f" until {show_instant(pause.until)}"
        yield f"{what}{until}{f': {pause.note}' if pause.note else ''}"
    for one in found.paused.blackouts:
        what = "everything" if one.scope == "all" else f"{one.scope} {one.name}"
        until = "" if one.until is None else f" until {show_instant(one.until)}"
        yield f"{what} by calendar {one.calendar}{until}"


def _print_queues(found: OverviewView) -> None:
    """Print the queues with the most runs."""
    queues = sorted(found.queues, key=lambda each: -(each.waiting + each.running))
    rows = [
        (
            each.queue,
            f"{each.waiting:,}",
            f"{each.running:,}",
            "-"
            if each.oldest_ready_at is None or each.oldest_ready_at > found.now
            else show_age(each.oldest_ready_at, found.now),
        )
        for each in queues[:_MOST_QUEUES]
    ]
    if rows:
        click.echo()
        print_table(("QUEUE", "WAITING", "RUNNING", "OLDEST WAITS"), rows, empty="")
    if len(queues) > _MOST_QUEUES:
        click.echo(f"and {len(queues) - _MOST_QUEUES} queues more")
