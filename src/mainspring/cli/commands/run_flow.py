"""`mainspring run pause|resume|skip`: commands to runs of workflows that are under way."""

from __future__ import annotations

import click

from mainspring.cli.calling import call, checked_run, plain
from mainspring.cli.options import caller_options, json_option
from mainspring.cli.output import print_json


@click.command("pause")
@click.argument("run")
@caller_options
@json_option
def pause_command(run: str, server: str, *, as_json: bool) -> None:
    """Have a workflow's run start no more steps. Those under way go on, and so does the time until its deadline."""
    done = call(server, lambda client: client.pause_run(checked_run(run)))
    if as_json:
        print_json(plain(done))
    else:
        click.echo(f"{run}: paused")


@click.command("resume")
@click.argument("run")
@caller_options
@json_option
def resume_command(run: str, server: str, *, as_json: bool) -> None:
    """Have a paused run of a workflow start the steps that it has kept back."""
    done = call(server, lambda client: client.resume_run(checked_run(run)))
    if as_json:
        print_json(plain(done))
    else:
        click.echo(f"{run}: goes on")


@click.command("skip")
@click.argument("run")
@click.argument("steps", nargs=-1, required=True, metavar="STEP...")
@caller_options
@json_option
def skip_command(run: str, steps: tuple[str, ...], server: str, *, as_json: bool) -> None:
    """Have steps of a workflow's run skipped that have no run yet. What waits for them goes by its rule."""
    done = call(server, lambda client: client.skip_steps(checked_run(run), steps))
    if as_json:
        print_json(plain(done))
    else:
        click.echo(f"{run}: {', '.join(steps)} {'is' if len(steps) == 1 else 'are'} skipped")
