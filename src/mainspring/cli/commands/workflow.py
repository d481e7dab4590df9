"""`mainspring workflow`: checks and draws jobs that have steps, and follows their runs."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.calling import call, checked_run, find_job, plain
from mainspring.cli.completion import complete_files, job_argument
from mainspring.cli.flow_view import FlowScreen, draw_screen, head_of, row_of, word_of
from mainspring.cli.job_files import parse_file, read_job_files
from mainspring.cli.options import caller_options, json_option
from mainspring.cli.output import print_json
from mainspring.cli.terminal import Terminal
from mainspring.cli.workflow_text import WIDTH_OF_FILES, WRITERS, can_draw, print_graph
from mainspring.clock import LoopWaiter, host_time
from mainspring.core.fields import kind
from mainspring.core.model import Priority
from mainspring.core.states import FINAL_STATES, RunState
from mainspring.core.targets import WORKFLOW
from mainspring.errors import InvalidFields, InvalidInput, MainspringError, NotAuthenticated, NotFound
from mainspring.host.exit_codes import ExitCode

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.workflows import GraphView, JobGraphView, StepPage

_FORMATS = ("text", *WRITERS, "json")
_PAGE = 1000
_PERIOD = 1.0
"""Seconds between two looks at a run that is followed."""


@click.group("workflow")
def workflow_group() -> None:
    """Check, draw and follow workflows: jobs that run steps."""


@workflow_group.command("check")
@click.argument("file", shell_complete=complete_files)
@click.option(
    "--offline", is_flag=True, help="Ask no server: functions and priority classes are not looked up."
)
@caller_options
@json_option
def check_command(file: str, server: str, *, offline: bool, as_json: bool) -> None:
    """Check the workflows of a file, and draw their graphs. Nothing is stored.

    FILE is TOML, JSON or YAML. It has jobs, as for apply, or a single job with `workflow`. All that is wrong is told,
    each on its line.
    """
    bodies = _read_workflows(file)

    async def check_here(body: dict[str, Any]) -> GraphView:
        return _check_alone(body)

    async def check_each(
        check: Callable[[dict[str, Any]], Awaitable[GraphView]],
    ) -> list[tuple[str, GraphView]]:
        found: list[tuple[str, GraphView]] = []
        errors: list[InvalidInput] = []
        for where, body in bodies:
            try:
                found.append((where, await check(body)))
            except InvalidInput as error:
                placed = error.renamed(f"{where}: ".__add__)
                errors += placed.errors if isinstance(placed, InvalidFields) else [placed]
        if errors:
            raise InvalidFields(errors)
        return found

    if offline:
        checked = asyncio.run(check_each(check_here))
    else:
        checked = call(server, lambda client: check_each(client.check_workflow))
    if as_json:
        print_json([{"workflow": where, **plain(graph)} for where, graph in checked])
        return
    for place, (where, graph) in enumerate(checked):
        if place:
            click.echo()
        click.echo(f"{where}: {_count(len(graph.steps), 'step')} on {_count(len(graph.levels), 'level')}")
        print_graph(graph)


def _check_alone(body: dict[str, Any]) -> GraphView:
    """Check the definition of a workflow by itself.

    Raises:
        InvalidInput: a field is wrong, or it is no workflow.
    """
    from mainspring.core.definition import read_definition
    from mainspring.core.definition.workflows import workflow_from_plain
    from mainspring.core.workflows.plan import FlowPlan
    from mainspring.plugins import load_plugins
    from mainspring.wire.workflows import view_graph

    if not _has_steps(body):
        raise InvalidInput(WORKFLOW, "is missing; give an object of steps")
    load_plugins()  # they may bring triggers
    priority = body.get("priority")
    if (
        isinstance(priority, str) and priority not in Priority.__members__
    ):  # of a class, which only a server knows
        body = {**body, "priority": Priority.MEDIUM.name}
    spec = read_definition({"name": "check", **body}, now=host_time(), may_be_over=True)
    return view_graph(FlowPlan.of(workflow_from_plain(spec.target.params)))


def _read_workflows(file: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the jobs of a file that have steps, each with where it stands, for errors."""
    document = parse_file(file)
    if isinstance(document, dict) and "jobs" in document:
        found = [
            (job.path("").removesuffix(": "), job.body)
            for job in read_job_files([file]).jobs
            if _has_steps(job.body)
        ]
        if not found:
            raise InvalidInput(file, "has no job with 'workflow'")
        return found
    if not isinstance(document, dict):
        raise InvalidInput(file, f"must be an object of jobs, or a job, not {kind(document)}")
    return [(file, document)]


def _has_steps(body: dict[str, Any]) -> bool:
    target = body.get("target")
    return WORKFLOW in body or (isinstance(target, dict) and target.get("type") == WORKFLOW)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@workflow_group.command("graph")
@job_argument
@click.option("--version", type=int, metavar="N", help="Which version of the job; by default the newest.")
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    default="text",
    show_default=True,
    help="Draw it here, or write it for a program that draws graphs.",
)
@caller_options
@json_option
def graph_command(job: str, version: int | None, form: str, server: str, *, as_json: bool) -> None:
    """Draw the steps of a job, from left to right. Each line leads from a step to one that waits for it."""

    async def work(client: AsyncClient) -> JobGraphView:
        found = await find_job(client, job)
        return await client.get_job_graph(found.job_id, version=version)

    graph = call(server, work)
    if as_json or form == "json":
        print_json(plain(graph))
    elif form == "text":
        print_graph(graph)
    else:
        for line in WRITERS[form](graph, graph.job):
            click.echo(line)


@workflow_group.command("show")
@click.argument("run")
@click.option("--live", is_flag=True, help="Draw it again each second until it has ended; q quits.")
@caller_options
@json_option
def show_command(run: str, server: str, *, live: bool, as_json: bool) -> int:
    """Show where the steps of a run are: its graph with the state of each, and why some do not run.

    With --live, the exit code is 3 unless the run succeeds. Without a terminal, --live prints a line for each change.
    """
    checked_run(run)
    if as_json and live:
        raise click.UsageError("--live goes with no --json")
    is_screen = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

    async def work(client: AsyncClient) -> StepPage:
        if not live:
            return await list_all_steps(client, run)
        return await (_follow_on_screen if is_screen else _follow_in_lines)(client, run)

    page = call(server, work)
    if as_json:
        print_json(plain(page))
        return ExitCode.DONE
    if not live or is_screen:
        for line in draw_screen(page, _screen(is_live=False), host_time()):
            click.echo(line)
    if not live or page.status not in FINAL_STATES:
        return ExitCode.DONE
    return ExitCode.DONE if page.status == RunState.SUCCEEDED else ExitCode.NOT_WELL


async def list_all_steps(client: AsyncClient, run: str) -> StepPage:
    """Return all steps of a run, as one page."""
    page = await client.list_steps(run, limit=_PAGE)
    while page.next is not None:
        further = await client.list_steps(run, after=page.next, limit=_PAGE)
        page.items += further.items
        page.next = further.next
    return page


async def _follow_on_screen(client: AsyncClient, run: str) -> StepPage:
    """Draw until the run has ended, or a key quits."""
    from mainspring.cli.live_screen import live_screen

    page = await list_all_steps(client, run)  # what is wrong from the beginning is an error as of any command
    note = ""
    async with live_screen() as screen:
        while page.status not in FINAL_STATES:
            size = _screen(is_live=True)
            screen.draw(
                [*draw_screen(page, size, host_time())[: size.lines], f"{note or 'q quits'}"[: size.columns]]
            )
            if await screen.key(_PERIOD) in {"q", "\x03", "\x04"}:
                break
            try:
                page, note = await list_all_steps(client, run), ""
            except (NotAuthenticated, InvalidInput, NotFound):
                raise
            except MainspringError as error:
                note = " ".join(str(error).split())
    return page


async def _follow_in_lines(client: AsyncClient, run: str) -> StepPage:
    """Print each change of a step until the run has ended."""
    waiter, told = LoopWaiter(), dict[str, str]()
    while True:
        page = await list_all_steps(client, run)
        for step in page.items:
            word = word_of(step)
            if told.get(step.name, "WAITING") != word:
                name, word, time, _, _, why = row_of(step, host_time())
                click.echo("  ".join(part for part in (name, word, time, why) if part not in {"", "-"}))
            told[step.name] = word_of(step)
        if page.status in FINAL_STATES:
            click.echo(head_of(page, host_time()))
            return page
        await waiter.wait(_PERIOD)


def _screen(*, is_live: bool) -> FlowScreen:
    terminal = Terminal.of_output()
    if terminal is None:
        return FlowScreen(columns=WIDTH_OF_FILES, lines=None, has_colours=False, can_draw=can_draw())
    return FlowScreen(
        columns=terminal.columns,
        lines=terminal.lines - 1 if is_live else None,
        has_colours=terminal.has_colours,
        can_draw=can_draw(),
    )
