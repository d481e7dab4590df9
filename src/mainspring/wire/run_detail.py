"""A run in the HTTP API with all that is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from mainspring.core.dead_letters import SettledLetter
from mainspring.core.ids import format_run_id
from mainspring.core.model import Attempt, Run
from mainspring.core.outcomes import AttemptOutcome
from mainspring.core.states import RunState
from mainspring.ports.store.run_logs import KeptProgress
from mainspring.ports.store.sessions import WorkerName
from mainspring.wire.dead_letters import SettledView, view_settled
from mainspring.wire.run_logs import ProgressView, view_progress
from mainspring.wire.views import Instant, RunView, run_fields


class AttemptView(Struct, kw_only=True):
    """One attempt of a run, which has ended."""

    number: int
    token: int
    outcome: Annotated[str, Meta(description="How it ended.")]
    worker: Annotated[str, Meta(description="The worker's name; empty if it is not known any more.")]
    host: Annotated[str | None, Meta(description="The worker's host; null if it is not known.")] = None
    started_at: Instant
    finished_at: Instant
    error: str | None
    output: str | None


class RunDetail(RunView, kw_only=True):
    """A run with the attempts that have ended. The one under way is told by `attempt`, `started_at`, `worker`."""

    attempts: list[AttemptView]
    worker: Annotated[
        str | None,
        Meta(
            description="The worker that carries out the attempt under way, or carried out the last one; null before"
            " the first, and when its session is no longer kept."
        ),
    ] = None
    host: Annotated[str | None, Meta(description="The host of that worker.")] = None
    progress: Annotated[
        ProgressView | None,
        Meta(description="How far the last attempt said it was; null if it has said nothing, or long ago."),
    ] = None
    redrive_of: Annotated[str | None, Meta(description="The run that this one repeats.")] = None
    settled: Annotated[
        SettledView | None,
        Meta(description="For a dead letter that was redriven or discarded, what became of it; else null."),
    ] = None


def view_run_detail(
    run: Run,
    attempts: Sequence[Attempt],
    *,
    job: str | None,
    worker: WorkerName | None,
    settled: SettledLetter | None,
    progress: KeptProgress | None = None,
) -> RunDetail:
    """Show a run with its attempts.

    Args:
        attempts: those on record.
        job: the name of its job.
        worker: who had the last one; None if that is not known.
        settled: what became of it as a dead letter; None if it is none, or open.
        progress: how far the last attempt said it was; None if that is not known.
    """
    views = [_view_attempt(attempt) for attempt in attempts]
    if run.state is RunState.SUCCEEDED and run.token not in {attempt.token for attempt in attempts}:
        views += _unrecorded(run, worker)
    return RunDetail(
        **run_fields(run),
        attempts=views,
        job=job,
        worker=None if worker is None else worker.worker,
        host=None if worker is None else worker.host,
        redrive_of=None if run.redrive_of is None else format_run_id(run.redrive_of),
        settled=None if settled is None else view_settled(settled),
        progress=None if progress is None else view_progress(progress),
    )


def _unrecorded(run: Run, worker: WorkerName | None) -> list[AttemptView]:
    """Return the attempt that was the first and succeeded: it is not on record (design 3)."""
    if run.started_at is None or run.finished_at is None:
        return []
    return [
        AttemptView(
            number=run.attempt,
            token=run.token,
            outcome=AttemptOutcome.SUCCEEDED.value,
            worker="" if worker is None else worker.worker,
            host=None if worker is None else worker.host,
            started_at=run.started_at,
            finished_at=run.finished_at,
            error=None,
            output=run.output,
        )
    ]


def _view_attempt(attempt: Attempt) -> AttemptView:
    return AttemptView(
        number=attempt.number,
        token=attempt.token,
        outcome=attempt.outcome,
        worker=attempt.worker,
        host=attempt.host,
        started_at=attempt.started_at,
        finished_at=attempt.finished_at,
        error=attempt.error,
        output=attempt.output,
    )
