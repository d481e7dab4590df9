"""`mainspring capacity`: how busy workers will be within a day, and how long the disk lasts."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from mainspring.cli.calling import call, plain
from mainspring.cli.options import caller_options, cluster_option, json_option
from mainspring.cli.output import print_fields, print_json, print_table, show_rough
from mainspring.core.doctor.findings import weigh

if TYPE_CHECKING:
    from mainspring.wire.capacity import DiskCapacityView, QueueCapacityView

_HEADING = ("QUEUE", "SLOTS", "RUNS/H", "EACH", "NOW", "PEAK", "AT", "WAITING", "DRAINED IN", "NEEDS")


@click.command("capacity")
@cluster_option("the runs of the tenant", "those of all tenants, and the disk")
@caller_options
@json_option
def capacity_command(server: str, *, scope: str, as_json: bool) -> None:
    """Show how busy workers will be within 24 hours, and how long the backlog takes.

    NOW and PEAK are the shares of slots that are taken in this hour and in the busiest one, which begins AT (UTC).
    NEEDS is how many slots keep that at 80 %.
    """
    found = call(server, lambda client: client.get_capacity(scope=scope))
    if as_json:
        print_json(plain(found))
        return
    empty = "nothing is on record yet; look again in an hour"
    print_table(_HEADING, map(_row, found.queues), empty=empty, last=("QUEUE",))
    if found.disk is not None:
        click.echo()
        print_fields(_describe(found.disk))


def _row(one: QueueCapacityView) -> tuple[object, ...]:
    return (
        one.queue,
        f"{one.slots:,.3g}",
        f"{one.runs_per_hour:,.0f}",
        f"{one.seconds_per_run:.3g}s",
        _percent(one.utilisation),
        _percent(one.peak),
        f"{one.peak_at:%H:%M}",
        f"{one.waiting:,}",
        _drained(one),
        one.slots_needed,
    )


def _drained(one: QueueCapacityView) -> str:
    if not one.waiting:
        return "-"
    return "never" if one.drain_seconds is None else show_rough(timedelta(seconds=one.drain_seconds))


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.0f} %"


def _describe(disk: DiskCapacityView) -> dict[str, object]:
    how = "measured" if disk.measured else "assumed: too few runs to measure"
    runs = f"{disk.runs_per_day:,.0f} runs a day of {disk.bytes_per_run:,.0f} bytes ({how})"
    growth = f"grows by {weigh(round(disk.growth_per_day))} a day" if disk.growth_per_day else "does not grow"
    return {
        "history": f"{runs}, kept for {disk.keep_days:g} days",
        "store": f"{weigh(disk.size)}, and {growth}",
        "disk": _describe_room(disk),
    }


def _describe_room(disk: DiskCapacityView) -> str:
    if disk.free is None or disk.disk is None:
        return "not known: the server's machine, or its settings, cannot be read from here"
    free = f"{weigh(disk.free)} of {weigh(disk.disk)} free"
    if disk.full_in_days is None:
        return f"{free}; the history fits"
    advice = f"keep less: history.keep = {disk.advised_days}d fits, or take a larger disk"
    return f"{free}; full in {disk.full_in_days:,.1f} days at this rate; {advice}"
