"""Backfills, as the HTTP API takes and shows them."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from mainspring.core.backfill import Backfill, BackfillPlan
from mainspring.core.backfill_settings import BACKFILL_OPTIONS
from mainspring.core.ids import format_backfill_id, format_job_id
from mainspring.wire.policies import body_of
from mainspring.wire.views import Instant, JobIdText

BackfillBody: Any = body_of(
    "BackfillBody", "A range to backfill, and how.", BACKFILL_OPTIONS, module=__name__
)
BackfillIdText = Annotated[
    str, Meta(description="A backfill's id.", examples=["backfill_01ky8r4w4te7zsh3z3qydmr3kc"])
]


class BackfillPlanView(Struct, kw_only=True):
    """What a backfill does."""

    fires: Annotated[int, Meta(description="Fires in the range, those done among them.")]
    done: Annotated[int, Meta(description="How many of them are left out as done.")]
    excluded: Annotated[int, Meta(description="Fires that the job's calendars keep out, not among `fires`.")]
    versions: Annotated[
        dict[str, int], Meta(description="By the number of the job's version, the fires that it makes.")
    ]
    first: Annotated[list[Instant], Meta(description="The first fires that become runs, at most ten.")]
    rate: str
    max_live: int


class BackfillView(Struct, kw_only=True):
    """A backfill, and how far it has come."""

    backfill_id: BackfillIdText
    job_id: JobIdText
    state: Annotated[str, Meta(description="`open`, `paused`, `done` or `cancelled`.")]
    from_time: Instant
    to_time: Instant
    skip_done: str
    definition: str
    rate: str
    max_live: int
    priority: str
    note: str
    fires: Annotated[int, Meta(description="Fires in the range as the backfill was made.")]
    made: Annotated[int, Meta(description="Runs that it has made.")]
    skipped: Annotated[int, Meta(description="Fires that it has left out as done.")]
    live: Annotated[int, Meta(description="Its runs that are not over yet.")]
    left: Annotated[int, Meta(description="Fires still to be made or left out.")]
    cursor: Annotated[
        Instant | None, Meta(description="How far it has come in the range; null before its first step.")
    ]
    created_at: Instant
    closed_at: Instant | None
    is_job_paused: Annotated[
        bool, Meta(description="Its job is paused, so it makes no runs until that is resumed.")
    ] = False


class BackfillAnswer(Struct, kw_only=True):
    """A backfill's plan, and the backfill that was made; null after a dry run."""

    plan: BackfillPlanView
    backfill: BackfillView | None


class BackfillPage(Struct):
    """A page of backfills; `next` is the value of `before` for the page that follows."""

    items: list[BackfillView]
    next: str | None


def view_plan(plan: BackfillPlan, *, rate: str, max_live: int) -> BackfillPlanView:
    """Show what a backfill does."""
    return BackfillPlanView(
        fires=plan.fires,
        done=plan.done,
        excluded=plan.excluded,
        versions={str(version): count for version, count in plan.versions.items()},
        first=plan.first,
        rate=rate,
        max_live=max_live,
    )


def view_backfill(backfill: Backfill) -> BackfillView:
    """Show a backfill."""
    options = backfill.options
    return BackfillView(
        backfill_id=format_backfill_id(backfill.id),
        job_id=format_job_id(backfill.job_id),
        state=backfill.state.value,
        from_time=backfill.from_at,
        to_time=backfill.to_at,
        skip_done=options.skip_done.value,
        definition=options.definition.value,
        rate=options.rate.text,
        max_live=options.max_live,
        priority=options.priority.name,
        note=options.note,
        fires=backfill.fires,
        made=backfill.made,
        skipped=backfill.skipped,
        live=backfill.live,
        left=backfill.left,
        cursor=backfill.cursor_at,
        created_at=backfill.created_at,
        closed_at=backfill.closed_at,
        is_job_paused=backfill.is_job_paused,
    )
