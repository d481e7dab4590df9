"""`mainspring run`: shows, counts, cancels and repeats runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from mainspring.cli.calling import call, checked_run, find_job, plain, read_json_text
from mainspring.cli.commands.run_answers import (
    approve_command,
    complete_command,
    reject_command,
    signal_command,
)
from mainspring.cli.commands.run_detail import logs_command, show_command
from mainspring.cli.commands.run_flow import pause_command, resume_command, skip_command
from mainspring.cli.completion import complete_jobs, complete_run_kinds, complete_states
from mainspring.cli.options import caller_options, json_option, kind_option
from mainspring.cli.output import print_fields, print_json, print_table, show_instant
from mainspring.cli.progress import Progress
from mainspring.cli.waiting import (
    code_of,
    read_wait,
    tell_failures,
    tell_not_ended,
    wait_for_runs,
    wait_option,
)
from mainspring.core.fields import show
from mainspring.core.kinds import Whole
from mainspring.errors import Conflict, InvalidInput, MainspringError, NotFound
from mainspring.host.exit_codes import ExitCode

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.pages import BriefPage, RunPage
    from mainspring.wire.views import CancelView, CountsView, RunView, SubmittedView
    from mainspring.wire.why import WhyView
    from mainspring.wire.workflows import ItemPage

T = TypeVar("T")
_Retried = dict[str, "SubmittedView | MainspringError"]
_PAGE = 1000
_WIDTH = 60
_FROM = "Of a workflow, also run this step again, and all that follows it. Repeatable."
_OPTIONS = {"job_id": "job"}
"""The options of the API's parameters that are called otherwise."""
_WORDS = {**_OPTIONS, "state=FAILED": "--state FAILED", "GET /backfills": "mainspring backfill list"}
_CANCELLED = {
    "cancelled": "cancelled",
    "requested": "asked to stop; if it completes first, the completion wins",
    "finished": "had already ended",
}


@click.group("run")
def run_group() -> None:
    """Show, count, cancel and repeat runs."""


run_group.add_command(show_command)
run_group.add_command(logs_command)
run_group.add_command(pause_command)
run_group.add_command(resume_command)
run_group.add_command(skip_command)
for _command in (signal_command, approve_command, reject_command, complete_command):
    run_group.add_command(_command)


@run_group.command("list")
@click.option(
    "--job", metavar="JOB", shell_complete=complete_jobs, help="Only runs of this job (name or id)."
)
@click.option(
    "--state", metavar="STATE", shell_complete=complete_states, help="Only runs in this state, like FAILED."
)
@click.option("--queue", metavar="QUEUE", help="Only runs of this queue.")
@click.option(
    "--kind",
    metavar="KIND",
    shell_complete=complete_run_kinds,
    help="Only runs of this kind, like scheduled or manual.",
)
@click.option("--backfill", metavar="BACKFILL", help="Only runs of this backfill.")
@click.option("--error", metavar="TEXT", help="Only runs whose error begins so; with --state FAILED.")
@click.option(
    "--since", metavar="WHEN", help="Only runs created since then: an instant, or 2h for two hours ago."
)
@click.option("--until", metavar="WHEN", help="Only runs created before then.")
@click.option("--before", metavar="RUN", help="Only runs older than this one, to go on with a list.")
@kind_option("--limit", Whole(1, 1_000_000), default="20", words="The most to list, up to 1,000,000.")
@caller_options
@json_option
def list_command(
    job: str | None, before: str | None, limit: int, server: str, *, as_json: bool, **wanted: str | None
) -> None:
    """List runs, the newest first.

    A list whose filters match few of many runs says how far back it has looked, and how to go on.
    """

    async def work(client: AsyncClient) -> _Found:
        job_id = (await find_job(client, job)).job_id if job is not None else None
        if not as_json:
            try:
                return await _find(client.list_briefs, before, limit, {"job_id": job_id, **wanted})
            except InvalidInput as error:
                if error.field != "fields":  # servers of older releases have whole runs only
                    raise
        return await _find(client.list_runs, before, limit, {"job_id": job_id, **wanted})

    try:
        found = call(server, work)
    except InvalidInput as error:
        raise InvalidInput(_OPTIONS.get(error.field, error.field), _in_options(error.message)) from None
    if as_json:
        shown = {"items": found.items, "next": found.next}
        print_json(plain(shown if found.searched_to is None else {**shown, "searched_to": found.searched_to}))
        return
    rows = [
        (
            run.run_id,
            getattr(run, "job", None) or run.job_id,
            run.status,
            run.due_at,
            run.attempt,
            (run.error or run.reason or "").partition("\n")[0][:_WIDTH],
        )
        for run in found.items
    ]
    print_table(("RUN", "JOB", "STATE", "DUE", "ATTEMPT", ""), rows, empty="no runs")
    _tell_rest(found)


class _Found(NamedTuple):
    """What a list found, with `next` and `searched_to` of its last page."""

    items: list[Any]
    next: str | None
    searched_to: datetime | None = None


async def _find(
    ask: Callable[..., Awaitable[RunPage | BriefPage]],
    before: str | None,
    limit: int,
    wanted: dict[str, str | None],
) -> _Found:
    """Return so many runs, unless the list ends before, or stops because its time is over."""
    found = _Found([], before)
    while len(found.items) < limit:
        page = await ask(before=found.next, limit=min(limit - len(found.items), _PAGE), **wanted)
        found = _Found([*found.items, *page.items], page.next, page.searched_to)
        if page.next is None or page.searched_to is not None:
            break
    return found


def _in_options(message: str) -> str:
    """Return the words of a refusal with options in place of the API's parameters."""
    for of_api, of_command in _WORDS.items():
        message = message.replace(of_api, of_command)
    return message


def _tell_rest(found: _Found) -> None:
    """Say where a list stopped, and how to go on."""
    if found.searched_to is not None:
        click.echo(
            f"looked back to {show_instant(found.searched_to)} and found {len(found.items)}; "
            f"to look further back, add --before {found.next}",
            err=True,
        )
    elif found.next is not None:
        click.echo(f"for older ones, add --before {found.next}", err=True)


@run_group.command("count")
@caller_options
@json_option
def count_command(server: str, *, as_json: bool) -> None:
    """Count the runs in each state, including ended ones that are still kept."""

    async def work(client: AsyncClient) -> CountsView:
        return await client.count_runs()

    counts = plain(call(server, work))
    if as_json:
        print_json(counts)
        return
    age = timedelta(milliseconds=counts.pop("age_ms"))
    print_fields({**counts, "counted": f"{show(age)} ago" if age else "now"})


@run_group.command("why")
@click.argument("run")
@caller_options
@json_option
def why_command(run: str, server: str, *, as_json: bool) -> None:
    """Say in one sentence why a run has not started, or what became of it."""

    async def work(client: AsyncClient) -> WhyView:
        return await client.get_run_why(checked_run(run))

    why = call(server, work)
    if as_json:
        print_json(plain(why))
    else:
        click.echo(why.sentence)


@run_group.command("cancel")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@caller_options
@json_option
def cancel_command(runs: tuple[str, ...], server: str, *, as_json: bool) -> int:
    """Cancel runs. A waiting run ends at once; one under way is asked to stop.

    If some of them are refused, the others are cancelled all the same, and the exit code is 2.
    """
    wanted = list(dict.fromkeys(map(checked_run, runs)))

    async def work(client: AsyncClient) -> dict[str, CancelView | MainspringError]:
        return await _answer_each(wanted, "cancelling", client.cancel_run)

    answers = call(server, work)
    results = {
        run: answer.result for run, answer in answers.items() if not isinstance(answer, MainspringError)
    }
    if as_json:
        print_json([{"run_id": run, "result": result} for run, result in results.items()])
    for run, answer in answers.items():
        if isinstance(answer, MainspringError):
            click.echo(f"error: {answer}", err=True)
        elif not as_json:
            click.echo(f"{run}: {_CANCELLED.get(answer.result, answer.result)}")
    return ExitCode.REFUSED if len(results) < len(answers) else ExitCode.DONE


@run_group.command("retry")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--kept", is_flag=True, help="Run the definition that the run had, not the job's newest.")
@click.option("--payload", metavar="JSON", help="Run with this payload instead of the run's own.")
@click.option("--from", "steps", multiple=True, metavar="STEP", help=_FROM)
@click.option("--whole", is_flag=True, help="Of a workflow, run all steps again, those too that succeeded.")
@wait_option("the new runs to end")
@caller_options
@json_option
def retry_command(
    runs: tuple[str, ...],
    payload: str | None,
    steps: tuple[str, ...],
    wait: str | None,
    server: str,
    *,
    kept: bool,
    whole: bool,
    as_json: bool,
) -> int:
    """Run failed or cancelled runs again, each once: a new run that names the old one.

    A workflow goes on where it failed: the new run takes over what had succeeded.

    If some of them are refused, the others are run all the same, and the exit code is 2.
    """
    seconds = read_wait(wait)
    body = _retry_body(payload, steps, kept=kept, whole=whole)
    wanted = list(dict.fromkeys(map(checked_run, runs)))

    async def work(client: AsyncClient) -> tuple[_Retried, dict[str, RunView | None]]:
        answers: _Retried = await _answer_each(
            wanted, "running again", lambda run: client.redrive_run(run, body)
        )
        if seconds is None:
            return answers, {}
        made = [answer.run_id for answer in answers.values() if not isinstance(answer, MainspringError)]
        return answers, await wait_for_runs(client, made, seconds)

    answers, ends = call(server, work)
    if as_json:
        print_json(_plain_retries(answers, ends))
    _tell_retries(answers, as_json=as_json)
    _tell_ends(ends, seconds or 0.0, as_json=as_json)
    is_refused = any(isinstance(answer, MainspringError) for answer in answers.values())
    return ExitCode.REFUSED if is_refused else code_of(ends.values())


def _tell_retries(answers: _Retried, *, as_json: bool) -> None:
    """Say which new runs there are, and what was refused."""
    for run, answer in answers.items():
        if isinstance(answer, MainspringError):
            click.echo(f"error: {answer}", err=True)
        elif not as_json:
            click.echo(
                f"{run}: {'runs again' if answer.is_new else 'was run again before'} as {answer.run_id}"
            )


def _tell_ends(ends: Mapping[str, RunView | None], seconds: float, *, as_json: bool) -> None:
    """Say how the new runs have ended for which one waited so many seconds."""
    for run_id, end in ends.items():
        if end is None:
            tell_not_ended(run_id, seconds)
            continue
        if not as_json:
            click.echo(f"{run_id}  {end.status}")
    tell_failures(end for end in ends.values() if end is not None)


def _retry_body(payload: str | None, steps: Sequence[str], *, kept: bool, whole: bool) -> dict[str, Any]:
    """Return the body of a request to run a run again."""
    body: dict[str, Any] = {"definition": "kept" if kept else "newest"}
    if payload is not None:
        body["payload"] = read_json_text(payload, "payload")
    if steps and whole:
        raise InvalidInput("--from", "does not go with --whole, which runs all steps; give one of them")
    if steps or whole:
        body["from"] = list(steps) or "start"
    return body


def _plain_retries(answers: _Retried, ends: dict[str, RunView | None]) -> list[dict[str, Any]]:
    plain_retries: list[dict[str, Any]] = []
    for run, answer in answers.items():
        if isinstance(answer, MainspringError):
            continue
        one: dict[str, Any] = {"run_id": run, "retried_as": answer.run_id, "is_new": answer.is_new}
        if answer.run_id in ends:
            end = ends[answer.run_id]
            one |= {
                "status": None if end is None else end.status,
                "error": None if end is None else end.error or end.reason,
            }
        plain_retries.append(one)
    return plain_retries


async def _answer_each(
    runs: Sequence[str], doing: str, ask: Callable[[str], Awaitable[T]]
) -> dict[str, T | MainspringError]:
    """Ask for one run after the other; return what came of each. One that is refused does not stop the others."""
    answers: dict[str, T | MainspringError] = {}
    with Progress(doing, len(runs)) as progress:
        for run in runs:
            try:
                answers[run] = await ask(run)
            except (InvalidInput, Conflict, NotFound) as error:
                answers[run] = error
            progress.advance()
    return answers


@run_group.command("steps")
@click.argument("run")
@caller_options
@json_option
def steps_command(run: str, server: str, *, as_json: bool) -> None:
    """List the steps of a workflow's run, parents before their children, and why some do not run.

    `mainspring workflow show` draws them.
    """
    from mainspring.cli.commands.workflow import list_all_steps
    from mainspring.cli.flow_view import HEADINGS, row_of
    from mainspring.clock import host_time

    page = call(server, lambda client: list_all_steps(client, checked_run(run)))
    if as_json:
        print_json(plain(page))
        return
    print_table(HEADINGS, [row_of(step, host_time()) for step in page.items], empty="", last=("STEP", "WHY"))


@run_group.command("items")
@click.argument("run")
@click.argument("step")
@click.option(
    "--state", metavar="STATE", shell_complete=complete_states, help="Only runs in this state, like FAILED."
)
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", default=100, show_default=True, help="At most so many."
)
@caller_options
@json_option
def items_command(run: str, step: str, state: str | None, limit: int, server: str, *, as_json: bool) -> None:
    """List the runs of a step that runs once for each of many items.

    RUN is the run of the workflow, and STEP the name of the step.
    """
    from mainspring.cli.flow_view import tell_items

    page = call(server, lambda client: _list_items(client, checked_run(run), step, state, limit))
    if as_json:
        print_json(plain(page))
        return
    rows = [
        (
            one.item,
            one.state,
            one.attempt,
            one.run_id,
            (one.error or one.reason or "").strip().split("\n")[-1],
        )
        for one in page.items
    ]
    print_table(("ITEM", "STATE", "ATTEMPT", "RUN", "WHY"), rows, empty="no such runs", last=("WHY",))
    if page.counts is not None:
        click.echo(tell_items(page.counts), err=True)


async def _list_items(client: AsyncClient, run: str, step: str, state: str | None, limit: int) -> ItemPage:
    page = await client.list_items(run, step, state=state, limit=min(limit, _PAGE))
    while page.next is not None and len(page.items) < limit:
        more = await client.list_items(
            run, step, state=state, after=page.next, limit=min(limit - len(page.items), _PAGE)
        )
        page.items += more.items
        page.next = more.next
    return page
