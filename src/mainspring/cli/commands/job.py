"""`mainspring job`: adds, shows, changes and runs jobs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.calling import call, find_job, plain, read_json_text, read_text_file
from mainspring.cli.commands.backfill import backfill_command
from mainspring.cli.commands.job_versions import diff_command, edit_command, history_command
from mainspring.cli.completion import complete_files, complete_tiers, job_argument
from mainspring.cli.definition import definition_options, read_body_options
from mainspring.cli.fires import print_fires, print_preview, print_warnings
from mainspring.cli.options import caller_options, json_option, kind_option
from mainspring.cli.output import print_fields, print_json, print_table, show_instant
from mainspring.cli.waiting import code_of, read_wait, tell_failures, wait_option
from mainspring.core.definition import names_target
from mainspring.core.definition.retry import RETRY
from mainspring.core.kinds import Whole, number_of
from mainspring.core.retry import RetryPolicy, preview
from mainspring.core.retry_words import tell_retries, tell_rule
from mainspring.core.targets import TARGETS, WORKFLOW
from mainspring.core.times import to_seconds
from mainspring.core.tracing import follow_traceparent, read_traceparent
from mainspring.core.triggers import tell_trigger
from mainspring.errors import InvalidInput
from mainspring.host.exit_codes import ExitCode

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.calendars import FireList
    from mainspring.wire.views import JobView
    from mainspring.wire.written import JobWritten

_PAGE = 1000
_MOST_WARNINGS = 5


@click.group("job")
def job_group() -> None:
    """Add, show, change and run jobs."""


for _command in (backfill_command, history_command, diff_command, edit_command):
    job_group.add_command(_command)


@job_group.command("add")
@click.argument("name", required=False)
@click.option(
    "--body",
    metavar="FILE",
    shell_complete=complete_files,
    help="A job's fields as JSON; - is standard input. Options override it.",
)
@definition_options
@click.option("--update", is_flag=True, help="If a job of that name exists, give it this definition.")
@click.option(
    "--dry-run", is_flag=True, help="Only show what was understood, with the next fires and warnings."
)
@kind_option(
    "--count", Whole(1, 1000), default="5", words="With --dry-run: how many fires to show, up to 1,000."
)
@caller_options
@json_option
def add_command(
    name: str | None,
    body: str | None,
    server: str,
    *,
    update: bool,
    dry_run: bool,
    count: int,
    as_json: bool,
    **given: Any,
) -> None:
    """Add a job.

    NAME must be free unless --update is given. The fields are those of docs/reference/job-definition.md.
    """
    definition = _definition(name, body, given)
    if dry_run:
        _show_preview(definition, server, count, update=update, as_json=as_json)
        return

    async def work(client: AsyncClient) -> JobWritten:
        return await (client.put_job(definition) if update else client.create_job(definition))

    job = call(server, work)
    if as_json:
        print_json(plain(job))
        return
    when = f"; {job.explanation}" if job.trigger is not None and job.explanation is not None else ""
    click.echo(f"{job.job_id}  {job.name}  next fire: {_instant(job.next_fire_time)}{when}")
    print_warnings(job.schedule_warnings)


def _show_preview(
    definition: dict[str, Any], server: str, count: int, *, update: bool, as_json: bool
) -> None:
    if not names_target(definition):
        raise InvalidInput("target", f"is missing; give one of {', '.join([*TARGETS.heads, 'target'])}")
    preview = call(server, lambda client: client.preview_trigger(definition, count=count))
    if as_json:
        print_json(plain(preview))
        return
    print_preview(preview)
    if preview.job_id is not None and not update:
        click.echo(
            f"note: there is a job of that name, {preview.job_id}; to redefine it, add --update", err=True
        )
    click.echo("this is a dry run; nothing was changed", err=True)


def _definition(name: str | None, file: str | None, given: dict[str, Any]) -> dict[str, Any]:
    definition: dict[str, Any] = {}
    if file is not None:
        read = read_json_text(read_text_file(file, "body"), "body")
        if not isinstance(read, dict):
            raise InvalidInput("body", "must be an object")
        definition = read
    if name is not None:
        definition["name"] = name
    return read_body_options(definition, given)


@job_group.command("list")
@kind_option("--limit", Whole(1, 1_000_000), default="100", words="The most to list, up to 1,000,000.")
@click.option("--after", metavar="ID", help="Only jobs created after this one, to go on with a list.")
@caller_options
@json_option
def list_command(limit: int, after: str | None, server: str, *, as_json: bool) -> None:
    """List jobs in order of creation."""

    async def work(client: AsyncClient) -> tuple[list[JobView], str | None]:
        found: list[JobView] = []
        following = after
        while len(found) < limit:
            page = await client.list_jobs(after=following, limit=min(limit - len(found), _PAGE))
            found += page.items
            following = page.next
            if following is None:
                break
        return found, following

    jobs, following = call(server, work)
    if as_json:
        print_json({"items": plain(jobs), "next": following})
        return
    rows = [
        (
            *(job.name, job.job_id, _when(job), job.target["type"]),
            _stopped(job) or job.next_fire_time,
        )
        for job in jobs
    ]
    print_table(("NAME", "ID", "WHEN", "TARGET", "NEXT FIRE"), rows, empty="no jobs")
    print_warnings(_warnings(jobs))
    if following is not None:
        click.echo(f"for later ones, add --after {following}", err=True)


def _warnings(jobs: Iterable[JobView]) -> Iterator[str]:
    """Name the first jobs of a list that nobody defines or can run."""
    found = [f"{job.name}: {one.sentence}" for job in jobs for one in job.warnings]
    yield from found[:_MOST_WARNINGS]
    if len(found) > _MOST_WARNINGS:
        yield f"and {len(found) - _MOST_WARNINGS:,} more; mainspring status sums them up"


@job_group.command("show")
@job_argument
@caller_options
@json_option
def show_command(job: str, server: str, *, as_json: bool) -> None:
    """Show a job: its definition, its clock, when its retries follow a failure, and the status of its newest run."""

    async def work(client: AsyncClient) -> dict[str, Any]:
        found = await find_job(client, job)
        status = plain(await client.get_status(found.job_id))
        return {**plain(found), "status": status["status"], "last_run_id": status["last_run_id"]} | {
            field: status[field] for field in ("last_run", "retry_count")
        }

    shown = call(server, work)
    policy = RETRY.load(shown["retry"])
    if as_json:
        print_json({**shown, "retry_preview": _preview(policy)})
        return
    told = {"retries": tell_retries(policy)}
    if shown["fires_left"] == 0 and not shown["is_paused"]:
        told["next_fire_time"] = "finished"
    if shown["target"]["type"] == WORKFLOW:
        steps = shown["target"].get("steps", ())
        told["target"] = f"workflow of {len(steps)} steps; mainspring workflow graph draws it"
    if policy.rules:
        told["rules"] = "\n".join(tell_rule(policy, rule) for rule in policy.rules)
    print_fields({**shown, **told})


def _preview(policy: RetryPolicy) -> dict[str, Any]:
    """Return when retries follow the first failure, in seconds."""
    found = preview(policy)
    return {
        "waits_seconds": [to_seconds(wait) for wait in found.waits],
        "after_seconds": [to_seconds(instant) for instant in found.instants],
        "last_between_seconds": [to_seconds(found.earliest), to_seconds(found.latest)],
        "rules": [tell_rule(policy, rule) for rule in policy.rules],
    }


@job_group.command("rm")
@job_argument
@caller_options
@json_option
def rm_command(job: str, server: str, *, as_json: bool) -> None:
    """Delete a job. Its waiting runs are cancelled; all its runs stay readable."""

    async def work(client: AsyncClient) -> JobView:
        found = await find_job(client, job)
        await client.delete_job(found.job_id)
        return found

    found = call(server, work)
    if as_json:
        print_json({"deleted": True, "job_id": found.job_id})
    else:
        click.echo(f"deleted {found.name} ({found.job_id})")


@job_group.command("pause")
@job_argument
@caller_options
@json_option
def pause_command(job: str, server: str, *, as_json: bool) -> None:
    """Stop a job's clock."""

    async def work(client: AsyncClient) -> JobView:
        return await client.pause_job((await find_job(client, job)).job_id)

    _report_clock(call(server, work), as_json=as_json)


@job_group.command("resume")
@job_argument
@caller_options
@json_option
def resume_command(job: str, server: str, *, as_json: bool) -> None:
    """Start a job's clock again, from now on."""

    async def work(client: AsyncClient) -> JobView:
        return await client.resume_job((await find_job(client, job)).job_id)

    _report_clock(call(server, work), as_json=as_json)


def _report_clock(job: JobView, *, as_json: bool) -> None:
    if as_json:
        print_json(plain(job))
    else:
        click.echo(f"{job.name}: {_stopped(job) or f'next fire {_instant(job.next_fire_time)}'}")


@job_group.command("fires")
@job_argument
@kind_option("--count", Whole(1, 1000), default="5", words="How many fires to show, up to 1,000.")
@click.option(
    "--from", "from_time", metavar="INSTANT", help="Only fires at or after this instant; default: now."
)
@caller_options
@json_option
def fires_command(job: str, count: int, from_time: str | None, server: str, *, as_json: bool) -> None:
    """Show when a job fires next, and what its calendars do with its fires."""

    async def work(client: AsyncClient) -> tuple[JobView, FireList]:
        found = await find_job(client, job)
        return found, await client.list_job_fires(found.job_id, from_time=from_time, count=count)

    found, fires = call(server, work)
    if as_json:
        print_json(plain(fires))
        return
    print_fires(fires.items, found.trigger, fires.waits_for)


@job_group.command("run")
@job_argument
@click.option("--payload", metavar="JSON", help="The run's own payload.")
@click.option(
    "--run-at",
    metavar="INSTANT",
    help="The earliest instant to start: ISO 8601, '2026-12-01 09:00 Europe/Berlin', or 'in 10m'.",
)
@click.option(
    "--delay", metavar="DURATION", help="Start this long from now: seconds, or like 5m; not with --run-at."
)
@click.option(
    "--priority",
    metavar="TIER",
    shell_complete=complete_tiers,
    help="HIGH, MEDIUM, LOW, or a class of that tier.",
)
@click.option(
    "--key", metavar="TEXT", help="Idempotency key: repeating the call with it returns the same run."
)
@click.option(
    "--traceparent",
    metavar="TEXT",
    help="The trace that the run goes on with, as W3C has it.  [env var: TRACEPARENT]",
)
@wait_option("the run to end")
@caller_options
@json_option
def run_command(
    job: str, key: str | None, wait: str | None, server: str, *, as_json: bool, **given: Any
) -> int:
    """Submit a run of a job.

    With --wait, the last line of a failed run's error goes to the standard error.
    """
    from mainspring.core.triggers.moments import Moment, read_moment_or_delay
    from mainspring.sdk.runs import wait_for_run

    seconds, trace = read_wait(wait), _read_trace(given["traceparent"])
    body: dict[str, Any] = {}
    if given["priority"] is not None:
        body["priority"] = given["priority"]
    if given["payload"] is not None:
        body["payload"] = read_json_text(given["payload"], "payload")
    if given["run_at"] is not None:
        moment = read_moment_or_delay(given["run_at"], "run_at")
        if isinstance(moment, Moment) and moment.note is not None:
            click.echo(f"note: {moment.note}", err=True)
        body["run_at"] = moment.at.isoformat() if isinstance(moment, Moment) else given["run_at"]
    if given["delay"] is not None:
        body["delay"] = number_of(given["delay"])

    async def work(client: AsyncClient) -> Any:
        found = await find_job(client, job)
        submitted = await client.submit_run(found.job_id, body, idempotency_key=key, traceparent=trace)
        if seconds is None or submitted.status == "throttled":  # it is dropped; the run is another's
            return submitted
        return await wait_for_run(client, submitted.run_id, seconds)

    try:
        run = call(server, work)
    except TimeoutError as error:
        click.echo(f"error: {error}", err=True)
        return ExitCode.NOT_ENDED
    if as_json:
        print_json(plain(run))
    else:
        click.echo(run.run_id if run.status == "submitted" else f"{run.run_id}  {run.status}")
    if hasattr(run, "is_new"):  # the submission; nobody waited for its run
        return ExitCode.DONE
    tell_failures([run])
    return code_of([run])


def _read_trace(given: str | None) -> str | None:
    """Return the trace that a run goes on with. What the environment says wrongly counts as not said.

    Raises:
        InvalidInput: what was given is none.
    """
    if given is not None:
        read_traceparent(given)
        return given.strip()
    text = os.environ.get("TRACEPARENT")
    return text.strip() if text is not None and follow_traceparent(text)[1] else None


def _when(job: JobView) -> str:
    from mainspring.core.triggers.words import tell_count

    return f"{tell_trigger(job.trigger)}{tell_count(job.max_fires)}"


def _stopped(job: JobView) -> str | None:
    if not job.is_paused:
        return "finished" if job.fires_left == 0 else None
    return "paused" if job.pause_note is None else f"paused: {job.pause_note}"


def _instant(value: datetime | None) -> str:
    return "-" if value is None else show_instant(value)
