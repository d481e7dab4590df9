"""`mainspring top`: what a cluster does now, drawn again every two seconds."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from mainspring.cli.calling import call
from mainspring.cli.options import caller_options, kind_option
from mainspring.cli.top_view import KEYS, SORTS, Screen, Snapshot, draw, rate_between
from mainspring.core.times import Duration
from mainspring.errors import InvalidInput, MainspringError, NeedsRight, NotAuthenticated

if TYPE_CHECKING:
    from mainspring.cli.live_screen import LiveScreen
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.views import WorkerView

_INTERVAL = Duration(timedelta(seconds=0.5), timedelta(hours=1))
_MOST_WORKERS = 100
_FAILURES = 8
_ALERTS = 4
_WITHOUT_TERMINAL = 110


@click.command("top")
@kind_option("--interval", _INTERVAL, default="2s", words="How often to look.")
@click.option("--once", is_flag=True, help="Print one screen, and end. So it is without a terminal, too.")
@caller_options
def top_command(interval: timedelta, server: str, *, once: bool) -> None:
    """Show live what the cluster does: rates, queues, workers, and the runs that failed last.

    Keys: q quits, p stops the drawing and goes on, and w, r, o, n sort the queues by those that wait, those that run,
    the oldest, and the name.
    """
    is_live = not once and sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

    async def work(client: AsyncClient) -> None:
        if not is_live:
            for line in draw(await _look(client, None), server, _screen(is_live=False)):
                click.echo(line)
            return
        from mainspring.cli.live_screen import live_screen

        first = await _look(client, None)  # what is wrong from the beginning is an error as of any command
        async with live_screen() as screen:
            await _run(client, server, screen, first, interval.total_seconds())

    call(server, work)


async def _run(client: AsyncClient, server: str, live: LiveScreen, first: Snapshot, seconds: float) -> None:
    """Draw until a key quits."""
    found, sort, is_paused = first, "waiting", False
    notes: tuple[str, ...] = ()
    loop = asyncio.get_running_loop()
    due = loop.time() + seconds
    while True:
        screen = replace(_screen(is_live=True), sort=sort, notes=notes)
        foot = "paused: p goes on   " if is_paused else ""
        live.draw([*draw(found, server, screen)[: (screen.lines or 1)], f"{foot}{KEYS}"[: screen.columns]])
        key = await live.key(3600 if is_paused else max(due - loop.time(), 0.01))
        if key in {"q", "\x03", "\x04"}:
            return
        sort = SORTS.get(key or "", sort)
        if key == "p":
            is_paused, due = not is_paused, loop.time()
        if key is None and not is_paused:
            due = loop.time() + seconds
            try:
                found, notes = await _look(client, found), ()
            except (NotAuthenticated, InvalidInput):
                raise
            except MainspringError as error:
                notes = (" ".join(str(error).split()),)


async def _look(client: AsyncClient, before: Snapshot | None) -> Snapshot:
    overview, usage, workers, failures, alerts = await asyncio.gather(
        client.get_overview(),
        client.get_usage(since="31m", step="minute"),
        _list_workers(client),
        client.list_briefs(state="FAILED", limit=_FAILURES),
        client.list_alerts(state="firing", limit=_ALERTS),
    )
    found = Snapshot(overview, usage, workers, failures.items, alerts.items)
    return replace(found, rate=rate_between(before, found))


async def _list_workers(client: AsyncClient) -> list[WorkerView]:
    """Return the workers; none for those who see one tenant only, as workers are everybody's."""
    try:
        return (await client.list_workers(limit=_MOST_WORKERS)).items
    except NeedsRight:
        return []


def _screen(*, is_live: bool) -> Screen:
    has_blocks = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    size = shutil.get_terminal_size((_WITHOUT_TERMINAL, 40))
    has_colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Screen(
        columns=size.columns,
        lines=size.lines - 1 if is_live else None,
        has_colours=has_colours,
        has_blocks=has_blocks,
    )
