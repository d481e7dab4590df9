"""`python -m mainspring.testing.simulation`: run a campaign, or replay one seed.

Exit code 1: a rule was broken. 3: the campaign is void, because it never met something that it is for.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from mainspring.testing.simulation.campaign import run_campaign
from mainspring.testing.simulation.plan import make_plan
from mainspring.testing.simulation.run import Result, simulate
from mainspring.testing.simulation.shrink import describe, shrink

_VOID = 3


@click.command()
@click.option("--seeds", default=1000, show_default=True, type=click.IntRange(min=1), help="How many seeds.")
@click.option("--first", default=0, show_default=True, type=click.IntRange(min=0), help="The first seed.")
@click.option(
    "--store", default="memory", type=click.Choice(["memory", "sqlite"]), help="The store; default memory."
)
@click.option("--processes", type=click.IntRange(min=1), help="How many at a time; by default one per core.")
@click.option("--replay", type=int, metavar="SEED", help="Run this one seed, and tell what happened.")
@click.option("--log", "log_file", metavar="FILE", help="With --replay: write the log there.")
@click.option("--shrink", "is_shrinking", is_flag=True, help="With --replay: cut a failing seed down first.")
def main(
    seeds: int,
    first: int,
    store: str,
    processes: int | None,
    replay: int | None,
    log_file: str | None,
    *,
    is_shrinking: bool,
) -> None:
    """Search for a seed that breaks a rule."""
    if replay is not None:
        sys.exit(_replay(replay, store, log_file, is_shrinking=is_shrinking))
    sys.exit(_search(first, seeds, store, processes))


def _replay(seed: int, store: str, log_file: str | None, *, is_shrinking: bool) -> int:
    plan = make_plan(seed, store=store)
    result = shrink(plan) if is_shrinking else simulate(plan)
    if log_file is not None:
        Path(log_file).write_text("\n".join(result.log) + "\n")
    _tell(result)
    return 0 if result.is_good else 1


def _tell(result: Result) -> None:
    for line in describe(result.plan):
        click.echo(line)
    for violation in result.verdict.violations:
        click.echo(str(violation))
    for error in result.errors:
        click.echo(f"uncaught: {error}")
    click.echo(f"log {result.digest}, {len(result.log)} lines, {result.seconds:.0f} virtual seconds")
    click.echo("good" if result.is_good else "a rule was broken")


def _search(first: int, seeds: int, store: str, processes: int | None) -> int:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("seeds"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]} failed"),
        TimeRemainingColumn(),
    )
    tally = None
    with Progress(*columns, disable=not sys.stderr.isatty(), transient=True) as progress:
        task = progress.add_task("seeds", total=seeds, failed=0)
        for tally in run_campaign(first, seeds, processes=processes, store=store):
            progress.update(task, completed=tally.seeds, failed=len(tally.failed))
    assert tally is not None
    for name, count in sorted(tally.met.items()):
        click.echo(f"{count:>12,}  {name}")
    for seed, story in sorted(tally.failed.items()):
        click.echo(f"seed {seed}: {story}")
    click.echo(json.dumps(tally.summary()))
    if tally.failed:
        click.echo("a rule was broken; tell the story with --replay SEED --shrink", err=True)
        return 1
    if tally.never_met:
        click.echo("void: never met what is listed as never_met; run more seeds", err=True)
        return _VOID
    return 0


if __name__ == "__main__":
    main()
