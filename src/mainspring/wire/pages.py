"""The pages of lists, and how a brief run is made from the model."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from mainspring.core.ids import format_job_id, format_run_id
from mainspring.core.model import Run
from mainspring.wire.views import Instant, JobIdText, JobView, RunIdText, RunView, WorkerView, lag_ms

LONGEST_ERROR = 200
"""The most characters of an error in a brief run."""
SearchedTo = Annotated[
    Instant | None,
    Meta(
        description="When the runs were created down to which the list has looked, if its time was over before it"
        " had filled the page. `next` then goes on from there."
    ),
]


class BriefView(Struct, kw_only=True):
    """A run as a row of a table: without payload, result and output."""

    run_id: RunIdText
    job_id: JobIdText
    job: Annotated[str | None, Meta(description="The job's name, that of a deleted job too.")]
    kind: str
    status: str
    reason: str | None
    queue: str
    priority: str
    fire_time: Annotated[Instant | None, Meta(description="The nominal instant of a scheduled run.")]
    due_at: Instant
    created_at: Instant
    started_at: Instant | None
    finished_at: Instant | None
    lag_ms: Annotated[float | None, Meta(description="As in a run.")]
    took_ms: Annotated[
        float | None, Meta(description="How long the last attempt of an ended run took, in milliseconds.")
    ]
    attempt: int
    crashes: int
    error: Annotated[
        str | None, Meta(description=f"The error's first line, up to {LONGEST_ERROR} characters of it.")
    ]


class JobPage(Struct):
    """A page of jobs; `next` is the value of `after` for the page that follows."""

    items: list[JobView]
    next: str | None


class RunPage(Struct, omit_defaults=True):
    """A page of runs, the newest first; `next` is the value of `before` for the page that follows."""

    items: list[RunView]
    next: str | None
    searched_to: SearchedTo = None


class BriefPage(Struct, omit_defaults=True):
    """A page of brief runs, the newest first; `next` is the value of `before` for the page that follows."""

    items: list[BriefView]
    next: str | None
    searched_to: SearchedTo = None


class WorkerPage(Struct):
    """A page of live worker sessions; `next` is the value of `after` for the page that follows."""

    items: list[WorkerView]
    next: str | None = None


def view_brief(run: Run, job: str | None) -> BriefView:
    """Show a run as a row of a table.

    Args:
        job: the name of its job.
    """
    took = None
    if run.started_at is not None and run.finished_at is not None:
        took = (run.finished_at - run.started_at).total_seconds() * 1000
    return BriefView(
        run_id=format_run_id(run.id),
        job_id=format_job_id(run.job_id),
        job=job,
        kind=run.kind.value,
        status=run.state.value,
        reason=run.reason,
        queue=run.lane.queue,
        priority=run.lane.priority.name,
        fire_time=run.fire_at,
        due_at=run.due_at,
        created_at=run.created_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
        lag_ms=lag_ms(run),
        took_ms=took,
        attempt=run.attempt,
        crashes=run.crashes,
        error=run.error.lstrip().partition("\n")[0][:LONGEST_ERROR] if run.error else None,
    )
