"""`mainspring run`: shows and cancels runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.calling import call, find_job, plain
from mainspring.cli.options import json_option, kind_option, server_option
from mainspring.cli.output import print_fields, print_json, print_table
from mainspring.core.kinds import Whole

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.views import CancelView, RunDetail, RunView

_PAGE = 1000
_CANCELLED = {
    "cancelled": "cancelled",
    "requested": "asked to stop; if it completes first, the completion wins",
    "finished": "had already ended",
}


@click.group("run")
def run_group() -> None:
    """Show and cancel runs."""


@run_group.command("list")
@click.option("--job", metavar="JOB", help="Only runs of this job (name or id).")
@click.option("--state", metavar="STATE", help="Only runs in this state, like FAILED.")
@kind_option("--limit", Whole(1, 1_000_000), default="20", words="The most to list, up to 1,000,000.")
@server_option
@json_option
def list_command(job: str | None, state: str | None, limit: int, server: str, *, as_json: bool) -> None:
    """List runs, the newest first."""

    async def work(client: AsyncClient) -> tuple[list[RunView], dict[str, str]]:
        job_id = (await find_job(client, job)).job_id if job is not None else None
        found: list[RunView] = []
        before: str | None = None
        while len(found) < limit:
            size = min(limit - len(found), _PAGE)
            page = await client.list_runs(job_id=job_id, state=state, before=before, limit=size)
            found += page.items
            before = page.next
            if before is None:
                break
        return found, {} if as_json else await _names(client, {run.job_id for run in found})

    runs, names = call(server, work)
    if as_json:
        print_json(plain(runs))
        return
    rows = [
        (run.run_id, names.get(run.job_id, run.job_id), run.status, run.due_at, run.attempt, _first_line(run))
        for run in runs
    ]
    print_table(("RUN", "JOB", "STATE", "DUE", "ATTEMPT", ""), rows, empty="no runs")


async def _names(client: AsyncClient, job_ids: set[str]) -> dict[str, str]:
    """Return the names of jobs by id; deleted ones have none."""
    from mainspring.errors import NotFound

    names = {}
    for job_id in sorted(job_ids):
        try:
            names[job_id] = (await client.get_job(job_id)).name
        except NotFound:
            continue
    return names


def _first_line(run: RunView) -> str:
    text = run.error or run.reason or ""
    return text.splitlines()[0][:60] if text else ""


def _checked(run: str) -> str:
    from mainspring.core.ids import parse_run_id
    from mainspring.errors import InvalidInput

    try:
        parse_run_id(run)
    except ValueError as error:
        raise InvalidInput("run", str(error)) from None
    return run


@run_group.command("show")
@click.argument("run")
@server_option
@json_option
def show_command(run: str, server: str, *, as_json: bool) -> None:
    """Show a run with its attempts, result and output."""

    async def work(client: AsyncClient) -> RunDetail:
        return await client.get_run(_checked(run))

    found = plain(call(server, work))
    if as_json:
        print_json(found)
        return
    attempts: list[dict[str, Any]] = found.pop("attempts")
    output = found.pop("output")
    print_fields(found)
    if attempts:
        click.echo()
        rows = [
            (each["number"], each["outcome"], each["worker"], each["started_at"], each["error"])
            for each in attempts
        ]
        print_table(("ATTEMPT", "OUTCOME", "WORKER", "STARTED", "ERROR"), rows, empty="")
    if output:
        click.echo(f"\n{output}", nl=not output.endswith("\n"))


@run_group.command("cancel")
@click.argument("run")
@server_option
@json_option
def cancel_command(run: str, server: str, *, as_json: bool) -> None:
    """Cancel a run. A waiting run ends at once; one under way is asked to stop."""

    async def work(client: AsyncClient) -> CancelView:
        return await client.cancel_run(_checked(run))

    answer = call(server, work)
    if as_json:
        print_json({"run_id": run, "result": answer.result})
    else:
        click.echo(f"{run}: {_CANCELLED.get(answer.result, answer.result)}")
