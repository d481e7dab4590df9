"""Waits for runs, and tells of those that do not succeed what went wrong and how to see more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mainspring.cli.progress import Progress
from mainspring.cli.terminal import cut
from mainspring.clock import monotonic
from mainspring.core.run_logs import strip_controls
from mainspring.errors import InvalidInput
from mainspring.host.exit_codes import ExitCode

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.views import RunView

F = TypeVar("F", bound=Callable[..., Any])
_LONGEST = 300
"""Characters of an error that are told."""
_MOST_TOLD = 20
"""Runs that are told with their errors."""


def wait_option(what: str) -> Callable[[F], F]:
    """Return a decorator that adds --wait.

    Args:
        what: what is waited for, like `the run to end`.
    """
    words = (
        f"Wait up to this long for {what}, 0 or more; exit code 3 unless it succeeds, 4 if it has not ended."
    )
    return click.option("--wait", metavar="SECONDS", help=words)


def read_wait(text: str | None) -> float | None:
    """Return how long to wait; None if nobody does.

    Raises:
        InvalidInput: it is no number of seconds.
    """
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:  # written this way, it refuses NaN, too
        raise InvalidInput("wait", f"must be 0 or more seconds, not {text[:60]!r}")
    return seconds


async def wait_for_runs(
    client: AsyncClient, run_ids: Sequence[str], seconds: float
) -> dict[str, RunView | None]:
    """Wait for runs, all of them within so many seconds. None stands for a run that has not ended by then."""
    from mainspring.sdk.runs import wait_for_run

    end = monotonic() + seconds
    found: dict[str, RunView | None] = {}
    with Progress("waiting for runs", len(run_ids)) as progress:
        for run_id in run_ids:
            try:
                found[run_id] = await wait_for_run(client, run_id, max(end - monotonic(), 0.0))
            except TimeoutError:
                found[run_id] = None
            progress.advance()
    return found


def tell_failures(runs: Iterable[RunView]) -> None:
    """Say on the standard error what became of runs that did not succeed, and how to see more of the first one."""
    failed = [run for run in runs if run.status != "SUCCEEDED"]
    for run in failed[:_MOST_TOLD]:
        lines = strip_controls(run.error or "").strip().splitlines()
        why = cut(lines[-1].strip(), _LONGEST) if lines else (run.reason or "")
        if why:
            click.echo(f"error: {why}" if len(failed) == 1 else f"error: {run.run_id}: {why}", err=True)
    if len(failed) > _MOST_TOLD:
        click.echo(f"and {len(failed) - _MOST_TOLD:,} more", err=True)
    if failed:
        click.echo(f"for all that is known of it: mainspring run show {failed[0].run_id}", err=True)


def tell_not_ended(run_id: str, seconds: float) -> None:
    """Say on the standard error that a run was waited for in vain."""
    click.echo(f"error: {run_id} has not ended after {seconds:g} s; it goes on", err=True)


def code_of(ends: Iterable[RunView | None]) -> ExitCode:
    """Return the exit code for runs that were waited for; None stands for one that has not ended."""
    states = [None if end is None else end.status for end in ends]
    if None in states:
        return ExitCode.NOT_ENDED
    return ExitCode.DONE if set(states) <= {"SUCCEEDED"} else ExitCode.NOT_WELL
