"""`mainspring run show` and `mainspring run logs`: all that is known about one run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.calling import call, checked_run, plain
from mainspring.cli.options import caller_options, has_archive, json_option, kind_option
from mainspring.cli.output import print_fields, print_json, print_table, show_instant, show_rough
from mainspring.cli.terminal import Terminal, wrap_text
from mainspring.core.kinds import Whole
from mainspring.core.run_logs import strip_controls
from mainspring.errors import InvalidInput, MainspringError, NotFound

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.protocol import KeptStepView, LeftOutResult
    from mainspring.wire.run_detail import RunDetail
    from mainspring.wire.why import WhyView

_WAITING = frozenset({"PENDING", "RETRYING", "BLOCKED"})
_MOST_STEPS = 100
_LONGEST_VALUE = 60
_NOTEWORTHY = timedelta(seconds=1)
"""A start that is this late is told."""


@click.command("show")
@click.argument("run")
@caller_options
@json_option
def show_command(run: str, server: str, *, as_json: bool) -> None:
    """Show a run with its attempts, its error and its output; for one that waits, what it waits for."""

    async def work(client: AsyncClient) -> tuple[RunDetail, WhyView | None, Sequence[KeptStepView]]:
        found = await client.get_run(checked_run(run))
        if as_json:
            return found, None, ()
        steps = await _steps(client, found)
        if found.status not in _WAITING:
            return found, None, steps
        try:
            return found, await client.get_run_why(run), steps
        except (
            MainspringError
        ):  # asked too often: what is known of the run itself is worth showing all the same
            return found, None, steps

    try:
        found, why, steps = call(server, work)
    except NotFound:
        if has_archive():
            click.echo(f"It may be in the archive: mainspring archive find {run}", err=True)
        raise
    if as_json:
        print_json(plain(found))
        return
    print_fields(_fields(found, why))
    rows = list(_attempt_rows(found))
    if rows:
        click.echo()
        print_table(("ATTEMPT", "OUTCOME", "WORKER", "STARTED", "TOOK", "ERROR"), rows, empty="")
    if steps:
        click.echo()
        print_table(("STEP", "NUMBER", "KEPT", "VALUE"), list(map(_step_row, steps)), empty="")
    error = found.error or (found.attempts[-1].error if found.attempts and why is not None else None)
    for title, text in (("error", error), ("output", found.output)):
        if text:
            print_text(title, text)


def print_text(title: str, text: str) -> None:
    """Print what a job has written, below a title."""
    terminal = Terminal.of_output()
    click.echo(f"\n{title}:")
    for line in wrap_text(strip_controls(text).rstrip("\n"), None if terminal is None else terminal.columns):
        click.echo(line)


async def _steps(client: AsyncClient, run: RunDetail) -> Sequence[KeptStepView]:
    """Return the first steps that are kept of a run. What is hidden, or unknown to an older server, is not shown."""
    if run.started_at is None:
        return ()
    try:
        return (await client.list_checkpoints(run.run_id, limit=_MOST_STEPS)).items
    except MainspringError:
        return ()


def _step_row(step: KeptStepView) -> tuple[object, ...]:
    text = bytes(step.value).decode()
    if len(text) > _LONGEST_VALUE:
        text = f"{text[: _LONGEST_VALUE - 1]}…"
    return step.name, step.number, step.kept_at, f"failed: {text}" if step.is_error else text


def _fields(run: RunDetail, why: WhyView | None) -> dict[str, object]:
    """Return what is told of a run. What says nothing is left out."""
    status = run.status if run.reason is None else f"{run.status} ({run.reason})"
    is_begun = run.started_at is not None
    return {
        "run": run.run_id,
        "status": f"{status}, asked to stop" if run.is_cancel_requested else status,
        "why": None if why is None else why.sentence,
        "next start": None if why is None else why.until,
        "job": f"{run.job or 'unknown'} ({run.job_id}), version {run.job_version}",
        "kind": run.kind,
        "fire time": run.fire_time,
        "redrive of": run.redrive_of,
        "settled": _settled(run),
        "queue": f"{run.queue}, priority {run.priority}",
        "created": run.created_at,
        "due": run.due_at,
        "started": _started(run),
        "ended": _ended(run),
        "attempt": run.attempt if is_begun else None,
        "crashes": run.crashes or None,
        "progress": _progress(run),
        "worker": _worker(run),
        "key": run.idempotency_key,
        "trace": run.trace_id,
        "payload": _json(run.payload),
        "result": _json(run.result) if run.result_left_out is None else _left_out(run.result_left_out),
    }


def _started(run: RunDetail) -> str | None:
    if run.started_at is None:
        return None
    lag = timedelta(milliseconds=run.lag_ms or 0)
    begun = len(run.attempts) + (run.status == "RUNNING")
    is_late = lag >= _NOTEWORTHY and begun < 2  # a later attempt waits for its backoff
    late = f" ({show_rough(lag)} after it was due)" if is_late else ""
    return f"{show_instant(run.started_at)}{late}"


def _ended(run: RunDetail) -> str | None:
    if run.finished_at is None:
        return None
    took = "" if run.started_at is None else f" (took {show_rough(run.finished_at - run.started_at)})"
    return f"{show_instant(run.finished_at)}{took}"


def _worker(run: RunDetail) -> str | None:
    return None if run.worker is None else f"{run.worker} on {run.host}"


def _progress(run: RunDetail) -> str | None:
    told = run.progress
    if told is None:
        return None
    share = f" ({100 * told.done / told.total:.0f} %)" if told.total else ""
    amount = f"{told.done:,g}" if told.total is None else f"{told.done:,g} of {told.total:,g}{share}"
    return amount if told.message is None else f"{amount}: {told.message}"


def _settled(run: RunDetail) -> str | None:
    if run.settled is None:
        return None
    at = show_instant(run.settled.at)
    if run.settled.redriven_as is not None:
        return f"{at}: run again as {run.settled.redriven_as}"
    return f"{at}: discarded: {run.settled.reason}"


def _left_out(why: LeftOutResult) -> str:
    digest = "" if why.sha256 is None else f" (sha256 {why.sha256})"
    return f"left out: {why.note or why.reason}{digest}"


def _json(value: object) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _attempt_rows(run: RunDetail) -> Iterator[tuple[Any, ...]]:
    for each in run.attempts:
        error = (each.error or "").strip().rpartition("\n")[2]
        took = show_rough(each.finished_at - each.started_at)
        yield each.number, each.outcome, each.worker or "-", each.started_at, took, error
    if run.status == "RUNNING":
        yield run.attempt, "running", run.worker or "-", run.started_at, "-", ""


@click.command("logs")
@click.argument("run")
@click.option("-f", "--follow", is_flag=True, help="Go on with what it writes, until it has ended.")
@kind_option("--attempt", Whole(1, 1_000_000), words="Only the output of this attempt.")
@caller_options
@json_option
def logs_command(run: str, attempt: int | None, server: str, *, follow: bool, as_json: bool) -> None:
    """Print what a run wrote, attempt by attempt, as far as it is kept; with -f, while it writes it.

    What an attempt writes is kept about once a second, and the last of it when the attempt ends.
    """
    checked_run(run)
    if follow:
        if as_json:
            raise InvalidInput("follow", "does not go with --json")
        call(server, lambda client: _follow(client, run, attempt))
        return
    found, outputs = call(server, lambda client: _read_outputs(client, run, attempt))
    if as_json:
        print_json([dict(zip(("attempt", "outcome", "output"), each, strict=True)) for each in outputs])
        return
    for number, outcome, output in outputs:
        if len(outputs) > 1:
            click.echo(f"--- attempt {number}: {outcome}", err=True)
        if output:
            click.echo(output, nl=not output.endswith("\n"))
    if not any(output for _, _, output in outputs):
        still = "" if found.finished_at is not None else " so far; follow it with -f"
        click.echo(f"{run} has no output{still}", err=True)


_Output = tuple[int, str, str | None]


async def _read_outputs(
    client: AsyncClient, run: str, attempt: int | None
) -> tuple[RunDetail, list[_Output]]:
    """Return a run, and the output of each of its attempts. One that was begun anew counts once."""
    found = await client.get_run(run)
    outputs: dict[int, _Output] = {
        each.number: (each.number, each.outcome, each.output) for each in found.attempts
    }
    if found.status == "RUNNING":
        outputs[found.attempt] = found.attempt, "running", None
    chosen = [each for number, each in outputs.items() if attempt is None or number == attempt]
    if attempt is not None and not chosen:
        raise _not_begun(run, attempt)
    return found, [
        (number, outcome, await _read(client, run, number, output)) for number, outcome, output in chosen
    ]


def _not_begun(run: str, attempt: int) -> InvalidInput:
    return InvalidInput("attempt", f"no attempt {attempt} of {run} has begun")


async def _read(client: AsyncClient, run: str, number: int, output: str | None) -> str | None:
    try:
        if logs := await client.get_run_logs(run, attempt=number):
            return logs
    except NotFound:
        pass  # a server of an earlier release knows only what came with the attempt's end
    return None if output is None else strip_controls(output)


async def _follow(client: AsyncClient, run: str, attempt: int | None) -> None:
    """Print what a run writes until it has ended."""
    from mainspring.sdk.log_streams import LogStream

    if attempt is not None and attempt > (await client.get_run(run)).attempt:
        raise _not_begun(run, attempt)
    stream = LogStream(run, attempt)
    last, is_line_open = 0, False
    while (event := await stream.read(client)) is not None:
        if last not in {0, event.attempt}:
            click.echo(nl=is_line_open)
            click.echo(f"--- attempt {event.attempt}", err=True)
        last, is_line_open = event.attempt, not event.text.endswith("\n")
        click.echo(event.text, nl=False)
    if is_line_open:
        click.echo()
    if not last:
        click.echo(f"{run} has no output", err=True)
