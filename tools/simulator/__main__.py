"""`python -m tools.simulator`: run a campaign, or replay one seed or kept plan.

Exit code 1: a rule was broken. 3: the campaign is void, because something that it must meet never happened. 130: it
was interrupted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from tools.simulator.campaign import Tally, run_campaign
from tools.simulator.draw import make_plan
from tools.simulator.outage import replay_outage
from tools.simulator.plan import Plan, read_plan, write_plan
from tools.simulator.run import Result, simulate
from tools.simulator.shrink import describe, shrink

_VOID = 3
_BROKEN_OFF = 130
_SECONDS_BETWEEN_LINES = 30.0


@click.command()
@click.option("--seeds", default=1000, show_default=True, type=click.IntRange(min=1), help="How many seeds.")
@click.option("--first", default=0, show_default=True, type=click.IntRange(min=0), help="The first seed.")
@click.option(
    "--store", default="memory", type=click.Choice(["memory", "sqlite"]), help="The store; default memory."
)
@click.option("--processes", type=click.IntRange(min=1), help="How many at a time; by default one per core.")
@click.option(
    "--replay",
    metavar="SEED|FILE",
    help="Simulate this one seed or saved plan, and show what happened.",
)
@click.option("--log", "log_file", metavar="FILE", help="With --replay: write the log there.")
@click.option("--shrink", "is_shrinking", is_flag=True, help="With --replay: cut a failing plan down first.")
@click.option(
    "--outage",
    metavar="SECONDS",
    type=click.IntRange(min=60),
    help="Replay one outage of so long, for each misfire policy, and show what became of the fires.",
)
@click.option(
    "--jobs", default=60, show_default=True, type=click.IntRange(min=4), help="With --outage: how many."
)
@click.option("--keep", metavar="FILE", help="With --replay: write the plan there, cut down or unchanged.")
def main(
    seeds: int,
    first: int,
    store: str,
    processes: int | None,
    replay: str | None,
    log_file: str | None,
    keep: str | None,
    outage: int | None,
    jobs: int,
    *,
    is_shrinking: bool,
) -> None:
    """Search for a seed that breaks a rule."""
    if outage is not None:
        sys.exit(_replay_outage(outage, jobs))
    if replay is not None:
        sys.exit(_replay(_plan_of(replay, store), log_file, keep, is_shrinking=is_shrinking))
    for name, value in (("--log", log_file), ("--keep", keep), ("--shrink", is_shrinking)):
        if value:
            raise click.UsageError(f"{name} goes with --replay")
    sys.exit(_search(first, seeds, store, processes))


def _replay_outage(seconds: int, jobs: int) -> int:
    is_good = True
    click.echo("policy           expected        run   left out  difference")
    for replay in replay_outage(seconds, jobs=jobs):
        numbers = f"{replay.expected:>10,} {replay.run:>10,} {replay.left_out:>10,} {replay.difference:>11,}"
        click.echo(f"{replay.policy:<14} {numbers}")
        if replay.catch_ups_open:
            click.echo(f"{replay.catch_ups_open:,} fire ranges are still to be made up for")
        for broken in (*map(str, replay.result.verdict.violations[:3]), *replay.result.errors[:1]):
            click.echo(broken)
        is_good = is_good and replay.is_good
    return 0 if is_good else 1


def _plan_of(replay: str, store: str) -> Plan:
    if replay.isdecimal():
        return make_plan(int(replay), store=store)
    try:
        return read_plan(Path(replay).read_bytes())
    except OSError as error:
        message = f"{replay!r} is neither a seed nor a file that can be read: {error.strerror}"
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        message = f"{replay!r} is not a plan: {error}"
    raise click.BadParameter(message, param_hint="--replay")


def _replay(plan: Plan, log_file: str | None, keep: str | None, *, is_shrinking: bool) -> int:
    result = simulate(plan)
    if is_shrinking and not result.is_good:
        result = shrink(plan)
    try:
        if log_file is not None:
            Path(log_file).write_text("\n".join(result.log) + "\n")
        if keep is not None:
            Path(keep).write_bytes(write_plan(result.plan))
    except OSError as error:
        raise click.ClickException(f"{error.filename} cannot be written: {error.strerror}") from None
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
    tally = Tally(store=store)
    is_broken_off = False
    try:
        for grown in _watched(run_campaign(first, seeds, processes=processes, store=store), seeds):
            tally = grown
    except KeyboardInterrupt:
        is_broken_off = True
    for name, count in sorted(tally.met.items()):
        click.echo(f"{count:>12,}  {name}")
    for seed, story in sorted(tally.failed.items()):
        click.echo(f"seed {seed}: {story}")
    click.echo(json.dumps(tally.summary()))
    if tally.failed:
        how = "" if store == "memory" else f" --store {store}"
        click.echo(f"a rule was broken; show how with{how} --replay SEED --shrink", err=True)
        return 1
    if is_broken_off:
        click.echo(f"interrupted after {tally.seeds} of {seeds} seeds", err=True)
        return _BROKEN_OFF
    if tally.never_met:
        click.echo("void: what never_met lists did not happen; run more seeds", err=True)
        return _VOID
    return 0


def _watched(tallies: Iterator[Tally], seeds: int) -> Iterator[Tally]:
    """Show a campaign's progress: as a bar on a terminal, otherwise as a line now and then. Show failures at once."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("seeds"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]} failed"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    failed: set[int] = set()
    told = 0.0
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("seeds", total=seeds, failed=0)
        for tally in tallies:
            progress.update(task, completed=tally.seeds, failed=len(tally.failed))
            for seed in tally.failed.keys() - failed:
                failed.add(seed)
                click.echo(f"seed {seed}: {tally.failed[seed].splitlines()[0]}", err=True)
            if not console.is_terminal and tally.spent - told >= _SECONDS_BETWEEN_LINES:
                told = tally.spent
                left = (seeds - tally.seeds) * tally.spent / tally.seeds
                line = f"{tally.seeds:,} of {seeds:,} seeds, {len(failed)} failed, about {left / 60:.0f} minutes left"
                click.echo(line, err=True)
            yield tally


if __name__ == "__main__":
    main()
