"""`mainspring workers`: lists the live workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mainspring.cli.calling import call, plain
from mainspring.cli.options import caller_options, json_option, kind_option
from mainspring.cli.output import print_json, print_table, show_age
from mainspring.core.kinds import Whole

if TYPE_CHECKING:
    from datetime import datetime

    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.pages import WorkerPage
    from mainspring.wire.views import WorkerView

_PAGE = 1000


@click.command("workers")
@kind_option("--limit", Whole(1, 1_000_000), default="1000", words="The most to list, up to 1,000,000.")
@click.option("--after", metavar="SESSION", help="Only workers after this one, to go on with a list.")
@caller_options
@json_option
def workers_command(limit: int, after: str | None, server: str, *, as_json: bool) -> None:
    """List the live workers in order of their start: who they are, how busy, and what they serve."""

    async def work(client: AsyncClient) -> tuple[list[WorkerView], str | None, datetime]:
        found: list[WorkerView] = []
        following = after
        while len(found) < limit:
            page: WorkerPage = await client.list_workers(
                after=following, limit=min(limit - len(found), _PAGE)
            )
            found += page.items
            following = page.next
            if following is None:
                break
        # Ages are told by the store's clock; each worker's own beats say how far that is at least.
        now = max((worker.last_beat_at for worker in found), default=None)
        return found, following, now or (await client.get_overview()).now

    workers, following, now = call(server, work)
    if as_json:
        print_json({"items": plain(workers), "next": following})
        return
    rows = [
        (
            worker.name,
            worker.host,
            worker.pid,
            f"{worker.held}/{worker.slots}",
            worker.tenant or "all",
            ", ".join(worker.queues) or "all",
            offer(worker),
            show_age(worker.started_at, now),
            show_age(worker.last_beat_at, now),
        )
        for worker in workers
    ]
    columns = ("WORKER", "HOST", "PID", "BUSY", "TENANT", "QUEUES", "RUNS", "UP", "BEAT")
    print_table(columns, rows, empty="no worker is connected")
    if following is not None:
        click.echo(f"for later ones, add --after {following}", err=True)


def offer(worker: WorkerView) -> str:
    """Return what a worker carries out, and the labels that it offers."""
    functions = [f"{len(worker.functions)} functions"] if worker.functions else []
    return ", ".join([*functions, *worker.types, *(f"+{label}" for label in worker.labels)])
