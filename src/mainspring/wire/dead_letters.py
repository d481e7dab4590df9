"""Dead letters in the HTTP API: how they are asked for, and how they are shown."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import asdict

from mainspring.core.dead_letters import DeadGroup, DeadRun, SettledLetter
from mainspring.core.ids import format_job_id, format_run_id
from mainspring.wire.pages import BriefView, view_brief
from mainspring.wire.views import Instant, JobIdText, RunIdText

_GROUP = "What the error has in common with others like it: its telling line, with `#` for numbers and ids."


class SettledView(Struct, kw_only=True):
    """What became of a dead letter."""

    settlement: Annotated[str, Meta(description="`redriven` or `discarded`.")]
    at: Instant
    reason: Annotated[str | None, Meta(description="Why it was discarded.")]
    redriven_as: Annotated[str | None, Meta(description="The run that repeats it.")]


class DeadRunView(BriefView, kw_only=True):
    """A dead letter as a row of a table: the run without payload, result and output."""

    error_group: Annotated[
        str | None, Meta(description=f"{_GROUP} Null for runs that failed under releases before 0.2.")
    ]
    settled: Annotated[SettledView | None, Meta(description="Null while it is open.")]


class DeadPage(Struct):
    """A page of dead letters, the newest runs first."""

    items: list[DeadRunView]
    next: str | None = None


class DeadGroupView(Struct, kw_only=True):
    """Open dead letters of one job that failed alike."""

    job_id: JobIdText
    job: Annotated[str | None, Meta(description="The job's name, that of a deleted job too.")]
    error_group: Annotated[str | None, Meta(description=_GROUP)]
    count: int
    first_at: Annotated[Instant, Meta(description="When the first of them failed.")]
    last_at: Annotated[Instant, Meta(description="When the last of them failed.")]
    newest: Annotated[RunIdText, Meta(description="The newest of the runs, as an example.")]


class DeadGroups(Struct):
    """Groups of dead letters, the largest first."""

    items: list[DeadGroupView]


class DeadFilterBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters are meant: those to which all of the given fields apply. At least one is needed."""

    job: Annotated[str | None, Meta(description="Of this job, a name or an id.")] = None
    queue: Annotated[str | None, Meta(description="Of this queue.")] = None
    reason: Annotated[str | None, Meta(description="That failed for this reason, like `deadline`.")] = None
    error: Annotated[str | None, Meta(description="Whose error has this text in it.")] = None
    error_group: Annotated[str | None, Meta(description="Whose error is of exactly this group.")] = None
    since: Annotated[
        str | None,
        Meta(
            description="That failed at or after this instant, ISO 8601 with an offset, or so long ago, like `2h`."
        ),
    ] = None
    until: Annotated[str | None, Meta(description="That failed before this instant, given as `since`.")] = (
        None
    )
    run_ids: Annotated[list[str] | None, Meta(description="Of these runs, up to 1,000.")] = None


class DiscardBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters to discard, and why."""

    filter: DeadFilterBody
    reason: Annotated[str, Meta(description="Why they are not to run again, up to 500 characters.")]
    dry_run: Annotated[bool, Meta(description="Only say how many that would be.")] = False


class DiscardedView(Struct, kw_only=True):
    """What was discarded, or would be."""

    total: int
    first: Annotated[list[str], Meta(description="Up to 20 of the runs.")]
    is_complete: Annotated[
        bool,
        Meta(
            description="False if the time was over before all were discarded: call again, with this `until`."
        ),
    ]
    until: Annotated[Instant, Meta(description="Only what failed before it was meant.")]


def view_settled(settled: SettledLetter) -> SettledView:
    """Show what became of a dead letter."""
    redriven_as = settled.redriven_as
    return SettledView(
        settlement=settled.settlement.value,
        at=settled.at,
        reason=settled.reason,
        redriven_as=None if redriven_as is None else format_run_id(redriven_as),
    )


def view_dead(letter: DeadRun, job: str | None) -> DeadRunView:
    """Show a dead letter.

    Args:
        job: the name of its job.
    """
    return DeadRunView(
        **asdict(view_brief(letter.run, job)),
        error_group=letter.error_group,
        settled=None if letter.settled is None else view_settled(letter.settled),
    )


def view_dead_group(group: DeadGroup, job: str | None) -> DeadGroupView:
    """Show a group of dead letters.

    Args:
        job: the name of their job.
    """
    return DeadGroupView(
        job_id=format_job_id(group.job_id),
        job=job,
        error_group=group.error_group,
        count=group.count,
        first_at=group.first_at,
        last_at=group.last_at,
        newest=format_run_id(group.newest),
    )
