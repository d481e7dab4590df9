"""`mainspring run signal|approve|reject|complete`: answers to steps of workflows that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mainspring.cli.calling import call, checked_run, plain, read_json_text
from mainspring.cli.options import caller_options, json_option
from mainspring.cli.output import print_json

if TYPE_CHECKING:
    from mainspring.wire.answers import AnswerView

_comment_option = click.option("--comment", metavar="TEXT", help="Why. The run and the audit show it.")
_data_option = click.option("--data", metavar="JSON", help="What the step returns, for those that follow.")


@click.command("signal")
@click.argument("run")
@click.argument("name")
@_data_option
@caller_options
@json_option
def signal_command(run: str, name: str, data: str | None, server: str, *, as_json: bool) -> None:
    """Give the signal NAME to the steps of a workflow's run that wait for it, or will."""
    value = None if data is None else read_json_text(data, "data")
    done = call(server, lambda client: client.send_signal(checked_run(run), name, value))
    _show(done, f"{run}: signal {name} sent", as_json=as_json)


@click.command("approve")
@click.argument("run")
@click.argument("step")
@_comment_option
@caller_options
@json_option
def approve_command(run: str, step: str, comment: str | None, server: str, *, as_json: bool) -> None:
    """Approve a STEP of a workflow's run that waits for an approval, or will."""
    done = call(server, lambda client: client.approve_step(checked_run(run), step, comment=comment))
    _show(done, f"{run}: {step} approved", as_json=as_json)


@click.command("reject")
@click.argument("run")
@click.argument("step")
@_comment_option
@caller_options
@json_option
def reject_command(run: str, step: str, comment: str | None, server: str, *, as_json: bool) -> None:
    """Reject what a STEP of a workflow's run asks for, so that it fails."""
    done = call(server, lambda client: client.reject_step(checked_run(run), step, comment=comment))
    _show(done, f"{run}: {step} rejected", as_json=as_json)


@click.command("complete")
@click.argument("run")
@click.argument("step")
@_data_option
@_comment_option
@caller_options
@json_option
def complete_command(
    run: str, step: str, data: str | None, comment: str | None, server: str, *, as_json: bool
) -> None:
    """End the wait of a STEP of a workflow's run by hand, as if what it waits for had come."""
    value = None if data is None else read_json_text(data, "data")
    done = call(server, lambda client: client.complete_step(checked_run(run), step, value, comment=comment))
    _show(done, f"{run}: {step} completed", as_json=as_json)


def _show(answer: AnswerView, done: str, *, as_json: bool) -> None:
    """Say what was done, or that it had been done before."""
    if as_json:
        print_json(plain(answer))
    else:
        click.echo(done if answer.is_new else f"{done} before; nothing has changed")
