"""`mainspring usage`: what became of runs, by the minute, the hour or the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mainspring.cli.calling import call, plain
from mainspring.cli.options import caller_options, json_option
from mainspring.cli.output import print_json, print_table

if TYPE_CHECKING:
    from mainspring.wire.usage import TimesView, UsageFigures

_COLUMNS = ("SUBMITTED", "FIRED", "STARTED", "SUCCEEDED", "FAILED", "RETRIED", "LAG", "DURATION")
_NONE = "-"


@click.command("usage")
@click.option("--since", metavar="WHEN", help="From then on, like 2h or an instant.  [default: 1h]")
@click.option("--until", metavar="WHEN", help="Until then.  [default: now]")
@click.option(
    "--step",
    type=click.Choice(["minute", "hour"]),
    help="How long the time of each line is: minutes for at most 3 hours, hours for at most 31 days.",
)
@click.option("--queue", metavar="NAME", help="Only runs of this queue.")
@click.option("--by-queue", is_flag=True, help="A line for each queue instead of for each time.")
@caller_options
@json_option
def usage_command(server: str, *, by_queue: bool, as_json: bool, **wanted: str | None) -> None:
    """Show how many runs were made, started and ended, how late they started and how long their attempts took.

    LAG and DURATION are the times that half of them, and 99 of 100, did not exceed. The last half minute may be
    missing.
    """
    found = call(server, lambda client: client.get_usage(**wanted))
    if as_json:
        print_json(plain(found))
        return
    rows: list[tuple[object, ...]]
    if by_queue:
        rows = [(one.queue, *_cells(one)) for one in found.queues]
    else:
        rows = [(step.at, *_cells(step)) for step in found.steps]
    if len(rows) > 1:
        rows.append(("all", *_cells(found.total)))
    print_table(("QUEUE" if by_queue else "AT", *_COLUMNS), rows, empty="nothing happened in this time")


def _cells(figures: UsageFigures) -> tuple[str, ...]:
    counts = (
        figures.submitted,
        figures.fired,
        figures.started,
        figures.succeeded,
        figures.failed,
        figures.retried,
    )
    return (*(f"{count:,}" for count in counts), _show_times(figures.lag), _show_times(figures.duration))


def _show_times(times: TimesView | None) -> str:
    return _NONE if times is None else f"{_show_seconds(times.p50)} / {_show_seconds(times.p99)}"


def _show_seconds(seconds: float) -> str:
    if seconds < 1:
        return f"{1000 * seconds:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s"
    return f"{seconds / 60:.0f}m"
