"""Redrives, as the HTTP API takes and shows them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from mainspring.core.dead_letters import DeadFilter
from mainspring.core.ids import format_job_id, format_redrive_id, format_run_id
from mainspring.core.redrives import FASTEST, USUAL_RATE, DeadVersion, Redrive
from mainspring.wire.dead_letters import DeadFilterBody
from mainspring.wire.views import Instant, JobIdText

RedriveIdText = Annotated[
    str, Meta(description="A redrive's id.", examples=["redrive_01ky8r4w4te7zsh3z3qydmr3kc"])
]


class StartRedriveBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters to run again, and how fast."""

    filter: DeadFilterBody
    rate: Annotated[int, Meta(description=f"Runs a second, 1 to {FASTEST:,}.")] = USUAL_RATE
    definition: Annotated[
        str,
        Meta(
            description="`newest`: by the newest definition of each job; `kept`: by the one that the run had."
        ),
    ] = "newest"
    dry_run: Annotated[bool, Meta(description="Only say what would be run again.")] = False


class DeadVersionView(Struct, kw_only=True):
    """How many of the dead letters ran by one version of a job."""

    job_id: JobIdText
    job: Annotated[str | None, Meta(description="The job's name, that of a deleted job too.")]
    version: int
    count: int


class RedriveFilterView(Struct, kw_only=True):
    """Which dead letters a redrive goes through: those to which all applies that is not null."""

    job_id: str | None
    queue: str | None
    reason: str | None
    error: str | None
    error_group: str | None
    since: Instant | None
    until: Instant | None
    run_ids: list[str] | None


class RedriveView(Struct, kw_only=True):
    """A redrive, and how far it has come."""

    redrive_id: RedriveIdText
    state: Annotated[str, Meta(description="`running`, `paused`, `done` or `cancelled`.")]
    filter: RedriveFilterView
    definition: Annotated[str, Meta(description="`newest` or `kept`.")]
    rate: Annotated[int, Meta(description="Runs a second.")]
    total: Annotated[int, Meta(description="How many dead letters were open when it was made.")]
    done: Annotated[
        int,
        Meta(
            description="How many of those that it has passed are redriven. The others were discarded, or their jobs"
            " deleted."
        ),
    ]
    created_at: Instant
    closed_at: Instant | None


class RedriveAnswer(Struct, kw_only=True):
    """What a redrive goes through, and the redrive that was made; null after a dry run."""

    total: Annotated[int, Meta(description="How many dead letters are open that are meant.")]
    versions: Annotated[
        list[DeadVersionView],
        Meta(description="By which versions of their jobs they ran: up to 20, those with the most first."),
    ]
    first: Annotated[list[str], Meta(description="Up to 20 of the runs, the newest first.")]
    redrive: RedriveView | None


class RedrivePage(Struct):
    """A page of redrives; `next` is the value of `before` for the page that follows."""

    items: list[RedriveView]
    next: str | None


def view_dead_version(one: DeadVersion, job: str | None) -> DeadVersionView:
    """Show how many dead letters ran by a version of a job.

    Args:
        job: the job's name.
    """
    return DeadVersionView(job_id=format_job_id(one.job_id), job=job, version=one.version, count=one.count)


def view_redrive(redrive: Redrive) -> RedriveView:
    """Show a redrive."""
    return RedriveView(
        redrive_id=format_redrive_id(redrive.id),
        state=redrive.state.value,
        filter=_view_filter(redrive.wanted),
        definition="newest" if redrive.is_newest else "kept",
        rate=redrive.rate,
        total=redrive.total,
        done=redrive.done,
        created_at=redrive.created_at,
        closed_at=redrive.closed_at,
    )


def _view_filter(wanted: DeadFilter) -> RedriveFilterView:
    return RedriveFilterView(
        job_id=None if wanted.job_id is None else format_job_id(wanted.job_id),
        queue=wanted.queue,
        reason=wanted.reason,
        error=wanted.error,
        error_group=wanted.error_group,
        since=wanted.since,
        until=wanted.until,
        run_ids=None if wanted.run_ids is None else [format_run_id(run_id) for run_id in wanted.run_ids],
    )
