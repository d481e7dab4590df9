"""What became of runs, as the HTTP API shows it."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from mainspring.core.usage import COUNTS, Times, Usage, UsageReport, UsageStep
from mainspring.wire.views import Instant


class TimesView(Struct, kw_only=True):
    """How long something took, in seconds."""

    mean: float
    p50: Annotated[
        float, Meta(description="Half of them took no longer. It is exact to the bounds of the figures.")
    ]
    p95: float
    p99: float


class UsageFigures(Struct, kw_only=True):
    """What became of runs."""

    submitted: Annotated[int, Meta(description="Runs made by submissions, by hand or by repetition.")]
    fired: Annotated[int, Meta(description="Runs made by fires.")]
    started: Annotated[int, Meta(description="First attempts that were given to workers.")]
    succeeded: Annotated[int, Meta(description="Runs that have succeeded.")]
    failed: Annotated[int, Meta(description="Runs that have failed with an attempt's report.")]
    cancelled: Annotated[int, Meta(description="Runs that were cancelled during an attempt.")]
    retried: Annotated[int, Meta(description="Attempts after which another one follows.")]
    lag: Annotated[
        TimesView | None,
        Meta(description="How long after they were due runs were started; null if none was."),
    ]
    duration: Annotated[
        TimesView | None,
        Meta(
            description="How long attempts took, from when they were given to a worker until their report was stored."
        ),
    ]


class UsageStepView(UsageFigures, kw_only=True):
    """What became of runs within a minute or an hour."""

    at: Annotated[Instant, Meta(description="When it began.")]


class QueueUsageView(UsageFigures, kw_only=True):
    """What became of the runs of a queue."""

    queue: str


class UsageView(Struct, kw_only=True):
    """What became of runs within a time, as all processes have counted it. The last half minute may be missing."""

    since: Instant
    until: Instant
    step: Annotated[str, Meta(extra_json_schema={"enum": [step.value for step in UsageStep]})]
    total: UsageFigures
    steps: Annotated[
        list[UsageStepView],
        Meta(description="By the minute or hour, in order. Those in which nothing happened are left out."),
    ]
    queues: list[QueueUsageView]


def view_usage(report: UsageReport) -> UsageView:
    """Show what became of runs."""
    return UsageView(
        since=report.since,
        until=report.until,
        step=report.step.value,
        total=UsageFigures(**_figures(report.total)),
        steps=[UsageStepView(at=at, **_figures(usage)) for at, usage in report.steps],
        queues=[QueueUsageView(queue=queue, **_figures(usage)) for queue, usage in report.queues],
    )


def _figures(usage: Usage) -> dict[str, Any]:
    counts = {name: getattr(usage, name) for name in COUNTS}
    return {**counts, "lag": _times(usage.lags), "duration": _times(usage.durations)}


def _times(times: Times) -> TimesView | None:
    quantiles = [times.quantile(share) for share in (0.5, 0.95, 0.99)]
    if not times.count:
        return None
    middle, most, nearly_all = (round(value or 0.0, 6) for value in quantiles)
    return TimesView(mean=round(times.total / times.count, 6), p50=middle, p95=most, p99=nearly_all)
