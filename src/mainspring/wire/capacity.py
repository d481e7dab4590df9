"""How busy workers will be and how long the disk lasts, as the HTTP API shows it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from mainspring.core.capacity import DiskForecast, QueueForecast
from mainspring.wire.views import Instant


class QueueCapacityView(Struct, kw_only=True):
    """How busy the workers of a queue will be."""

    queue: str
    slots: Annotated[float, Meta(description="What it has of its workers' slots, beside their other queues.")]
    runs_per_hour: Annotated[float, Meta(description="How many runs arrive in this hour.")]
    seconds_per_run: Annotated[float, Meta(description="For how long a run takes a slot, with its retries.")]
    utilisation: Annotated[
        float | None,
        Meta(description="The share of its slots that is taken in this hour; null without slots."),
    ]
    peak: Annotated[
        float | None,
        Meta(description="The same in the busiest of the next 24 hours. Above 1, the backlog grows."),
    ]
    peak_at: Annotated[Instant, Meta(description="When that hour begins.")]
    waiting: Annotated[int, Meta(description="Runs that are ready.")]
    drain_seconds: Annotated[
        float | None,
        Meta(description="How long until none of them waits; null if that is never, as things are."),
    ]
    slots_needed: Annotated[int, Meta(description="So many slots keep the busiest hour at 80 percent.")]


class DiskCapacityView(Struct, kw_only=True):
    """How much room the history takes, and how long the disk lasts. Sizes are in bytes."""

    runs_per_day: float
    bytes_per_run: float
    measured: Annotated[
        bool, Meta(description="Whether that was measured; there may be too few runs for it.")
    ]
    keep_days: float
    size: Annotated[int, Meta(description="What the store takes now.")]
    growth_per_day: Annotated[float, Meta(description="Until as many days are kept as should be.")]
    free: Annotated[int | None, Meta(description="Null if the disk cannot be known.")]
    disk: int | None
    full_in_days: Annotated[float | None, Meta(description="Null if all fits, or the disk cannot be known.")]
    advised_days: Annotated[
        int | None, Meta(description="For how many days it fits; null if it fits as it is.")
    ]


class CapacityView(Struct, kw_only=True):
    """How busy workers will be within a day, and how long the disk lasts."""

    queues: list[QueueCapacityView]
    disk: Annotated[DiskCapacityView | None, Meta(description="Only with the scope `cluster`.")]


def view_capacity(queues: list[QueueForecast], disk: DiskForecast | None) -> CapacityView:
    """Show what is expected."""
    return CapacityView(
        queues=list(map(_view_queue, queues)), disk=None if disk is None else _view_disk(disk)
    )


def _view_queue(one: QueueForecast) -> QueueCapacityView:
    return QueueCapacityView(
        queue=one.queue,
        slots=round(one.slots, 2),
        runs_per_hour=round(one.arrivals, 2),
        seconds_per_run=round(one.seconds, 6),
        utilisation=None if one.utilisation is None else round(one.utilisation, 4),
        peak=None if one.peak is None else round(one.peak, 4),
        peak_at=one.peak_at,
        waiting=one.waiting,
        drain_seconds=None if one.drain is None else round(one.drain.total_seconds(), 3),
        slots_needed=one.slots_needed,
    )


def _view_disk(disk: DiskForecast) -> DiskCapacityView:
    return DiskCapacityView(
        runs_per_day=round(disk.runs_per_day, 2),
        bytes_per_run=round(disk.bytes_per_run, 1),
        measured=disk.is_measured,
        keep_days=round(disk.keep_days, 2),
        size=disk.size,
        growth_per_day=round(disk.growth),
        free=disk.free,
        disk=disk.disk,
        full_in_days=None if disk.full_in is None else round(disk.full_in.total_seconds() / 86_400, 2),
        advised_days=disk.advised_days,
    )
