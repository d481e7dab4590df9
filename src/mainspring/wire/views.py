"""The answers of the HTTP API, and how they are made from the model."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct, defstruct

from mainspring.core.abilities import plain_labels
from mainspring.core.calendars.preview import fires_of_clock
from mainspring.core.ciphertexts import is_encrypted_bytes, show_hidden
from mainspring.core.definition import plain_from_spec
from mainspring.core.definition.options import YOUNGER
from mainspring.core.definition.schema import view_schemas
from mainspring.core.ids import format_job_id, format_run_id
from mainspring.core.job_warnings import UNDEFINED, warnings_of
from mainspring.core.model import Job, JobSpec, JobStatus, Run, Target
from mainspring.core.results import read_mark
from mainspring.core.serving import GapCode, Offers
from mainspring.core.states import RunState
from mainspring.core.tracing import show_trace_id
from mainspring.core.triggers import Trigger
from mainspring.ports.store.sessions import SessionFacts
from mainspring.wire.protocol.reports import LeftOutResult, view_mark

JobIdText = Annotated[str, Meta(description="A job's id.", examples=["job_01ky8r4w4te7zsh3z3qydmr3kc"])]
RunIdText = Annotated[str, Meta(description="A run's id.", examples=["run_00000000009z4"])]
Instant = Annotated[datetime, Meta(tz=True, description="An instant in UTC, ISO 8601.")]
NEXT_FIRES = 5
_STATUS = "`submitted`, `existing`, `replaced`, `debounced` or `throttled`."


_USUAL: Mapping[str, Any] = plain_from_spec(JobSpec(name="job", target=Target("function", {})))


def _default_of(name: str) -> tuple[Any, ...]:
    """Return what stands in a field of a definition that servers of earlier releases do not send; () of the others."""
    if name not in YOUNGER:
        return ()
    usual = _USUAL[name]
    is_shared = isinstance(usual, dict | list)  # then each answer gets its own, which can be changed
    return (msgspec.field(default_factory=partial(deepcopy, usual)) if is_shared else usual,)


class WarningView(Struct, kw_only=True):
    """What is wrong with a job."""

    code: Annotated[str, Meta(extra_json_schema={"enum": [UNDEFINED, *(code.value for code in GapCode)]})]
    sentence: str


class _JobHead(Struct, kw_only=True):
    job_id: JobIdText
    name: str
    version: Annotated[int, Meta(description="Grows with each edit.")]
    is_paused: bool
    next_fire_time: Instant | None
    next_fire_times: Annotated[list[Instant], Meta(description="The next five fires, if so many are left.")]
    created_at: Instant
    updated_at: Instant
    fires_left: Annotated[int | None, Meta(description="Left of `max_fires`; 0: it is finished.")] = None
    pause_note: Annotated[
        str | None,
        Meta(description="Why Mainspring paused it. Null if it is not paused, or a user paused it."),
    ] = None
    owner: Annotated[
        str | None, Meta(description="The app whose code defines it, or did. Null if a user made it.")
    ] = None
    undefined_since: Annotated[
        Instant | None, Meta(description="Since when its owner's code does not define it any more.")
    ] = None
    warnings: Annotated[
        list[WarningView],
        Meta(description="What is wrong with it: no code defines it any more, or no live worker can run it."),
    ] = []


if TYPE_CHECKING:

    class JobView(_JobHead, kw_only=True):
        """A job: its full definition and the state of its clock."""

        def __getattr__(self, name: str) -> Any: ...

else:
    # The core describes the fields of a definition, once for all.
    JobView = defstruct(
        "JobView",
        [
            (name, Annotated[Any, Meta(extra_json_schema=schema)], *_default_of(name))
            for name, schema in view_schemas().items()
        ],
        bases=(_JobHead,),
        module=__name__,
        namespace={"__doc__": "A job: its full definition and the state of its clock."},
        kw_only=True,
    )


class StatusView(Struct, kw_only=True):
    """A job's status: the state of its newest run that is due or started."""

    job_id: JobIdText
    status: Annotated[str, Meta(description="PENDING when there is no such run.")]
    last_run: Annotated[Instant | None, Meta(description="When that run started, or was due.")]
    last_run_id: str | None
    next_run: Instant | None
    retry_count: Annotated[int, Meta(description="The retries of that run so far.")]


class RunView(Struct, kw_only=True):
    """A run, live or finished."""

    run_id: RunIdText
    job_id: JobIdText
    job_version: int
    kind: str
    status: str
    reason: str | None
    priority: str
    queue: str
    fire_time: Annotated[Instant | None, Meta(description="The nominal instant of a scheduled run.")]
    due_at: Instant
    created_at: Instant
    started_at: Instant | None
    finished_at: Instant | None
    lag_ms: Annotated[
        float | None,
        Meta(description="How late the newest attempt started: start minus due, in milliseconds."),
    ]
    attempt: int
    retry_count: int
    crashes: int
    is_cancel_requested: bool
    idempotency_key: str | None
    payload: Any
    result: Any
    output: str | None
    error: str | None
    result_left_out: Annotated[
        LeftOutResult | None,
        Meta(
            description="Why `result` is null although the attempt returned one; the run ended as it would have."
        ),
    ] = None
    job: Annotated[str | None, Meta(description="The name of its job, that of a deleted one too.")] = None
    trace_id: Annotated[
        str | None, Meta(description="Its trace in your tracing tool; null if it is not traced.")
    ] = None


class WorkerView(Struct, kw_only=True):
    """A live worker session."""

    session_id: str
    name: str
    host: str
    pid: int
    slots: int
    queues: list[str]
    types: list[str]
    functions: list[str]
    labels: list[str]
    started_at: Instant
    last_beat_at: Instant
    held: Annotated[
        int,
        Meta(description="Runs that it holds: under way, or claimed ahead of a free slot."),
    ] = 0
    tenant: Annotated[
        str | None, Meta(description="The only tenant whose runs it gets; null: those of all tenants.")
    ] = None


class CountsView(Struct, kw_only=True):
    """How many runs are in each state, all at one instant."""

    PENDING: int
    BLOCKED: int
    RUNNING: int
    RETRYING: int
    SUCCEEDED: int
    FAILED: int
    CANCELLED: int
    SKIPPED: int
    age_ms: Annotated[
        int,
        Meta(
            description="How long ago they were counted, in milliseconds. 0: for this answer. More: in the last "
            "census, because counting takes long."
        ),
    ] = 0


class Deleted(Struct):
    """It is gone."""

    deleted: bool = True


class SubmittedView(Struct, kw_only=True):
    """What became of a submission."""

    run_id: Annotated[
        str,
        Meta(
            description="The run that it made or joined; with `throttled`, the run that was let through last.",
            examples=["run_00000000009z4"],
        ),
    ]
    is_new: Annotated[
        bool, Meta(description="False: no run was made; the answer says which run there is already.")
    ]
    status: Annotated[str, Meta(description=_STATUS)] = "submitted"


class BulkRunView(Struct, kw_only=True):
    """The result of one submission of many."""

    run_id: str | None
    status: Annotated[str, Meta(description=f"{_STATUS} Besides `duplicate`, `key_mismatch` and `rejected`.")]


class BulkJobView(Struct, kw_only=True):
    """The result for one job of many: `created` or `name_taken`."""

    status: str
    job: JobView | None


class CancelView(Struct):
    """The result of a cancel: `cancelled`, `requested` or `finished`."""

    result: str


def view_job(job: Job, trigger: Trigger | None, offers: Offers) -> JobView:
    """Show a job.

    Args:
        trigger: the job's, with its calendars.
        offers: what live workers offer.
    """
    return JobView(**job_fields(job, trigger, offers))


def job_fields(job: Job, trigger: Trigger | None, offers: Offers) -> dict[str, Any]:
    """Return the fields of a job's view."""
    gap = offers.find_gap_of(job.spec, job.tenant)
    most = NEXT_FIRES if job.fires_left is None else min(NEXT_FIRES, job.fires_left)
    fires = fires_of_clock(trigger, job.next_fire_at, most)
    return {
        "job_id": format_job_id(job.id),
        "version": job.version,
        "is_paused": job.is_paused,
        "next_fire_time": fires[0] if fires else None,
        "next_fire_times": fires,
        "created_at": job.created_at,
        "updated_at": job.updated_at,
        "fires_left": job.fires_left,
        "pause_note": job.pause_note,
        "owner": job.owner,
        "undefined_since": job.undefined_since,
        "warnings": [WarningView(code=one.code, sentence=one.sentence) for one in warnings_of(job, gap)],
        **plain_from_spec(job.spec, msgspec.Raw),
    }


def view_status(status: JobStatus) -> StatusView:
    """Show a job's status."""
    run = status.last_run
    return StatusView(
        job_id=format_job_id(status.job.id),
        status=status.state.value,
        last_run=(run.started_at or run.due_at) if run is not None else None,
        last_run_id=format_run_id(run.id) if run is not None else None,
        next_run=status.next_fire_at,
        retry_count=status.retry_count,
    )


def view_counts(by_state: Mapping[RunState, int], *, age: timedelta) -> CountsView:
    """Show how many runs are in each state.

    Args:
        age: how long ago they were counted.
    """
    counts = {state.value: by_state.get(state, 0) for state in RunState}
    return CountsView(**counts, age_ms=age // timedelta(milliseconds=1))


def view_run(run: Run, job: str | None) -> RunView:
    """Show a run.

    Args:
        job: the name of its job.
    """
    return RunView(**run_fields(run), job=job)


def lag_ms(run: Run) -> float | None:
    """Return how late a run's newest attempt started, in milliseconds; None before its start."""
    return None if run.started_at is None else (run.started_at - run.due_at).total_seconds() * 1000


def run_fields(run: Run) -> dict[str, Any]:
    mark = read_mark(run.result)
    return {
        "run_id": format_run_id(run.id),
        "job_id": format_job_id(run.job_id),
        "job_version": run.version,
        "kind": run.kind.value,
        "status": run.state.value,
        "reason": run.reason,
        "priority": run.lane.priority.name,
        "queue": run.lane.queue,
        "fire_time": run.fire_at,
        "due_at": run.due_at,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "lag_ms": lag_ms(run),
        "attempt": run.attempt,
        "retry_count": run.attempt - 1,
        "crashes": run.crashes,
        "is_cancel_requested": run.is_cancel_requested,
        "idempotency_key": run.idempotency_key,
        "payload": raw_json(run.payload),
        "result": raw_json(run.result) if mark is None else None,
        "result_left_out": None if mark is None else view_mark(mark),
        "output": run.output,
        "error": run.error,
        "trace_id": show_trace_id(run.trace),
    }


def raw_json(text: bytes | None) -> msgspec.Raw | None:
    """Pass JSON text through unchanged. In the place of what cannot be decrypted here, say why."""
    if text is None:
        return None
    return msgspec.Raw(show_hidden(text) if is_encrypted_bytes(text) else text)


def view_worker(session: SessionFacts, held: int) -> WorkerView:
    """Show a worker session, which holds so many runs."""
    return WorkerView(
        session_id=f"ses_{session.id}",
        name=session.worker,
        host=session.host,
        pid=session.pid,
        slots=session.slots,
        queues=list(session.queues),
        types=list(session.types),
        functions=list(session.functions),
        labels=plain_labels(session.labels),
        started_at=session.started_at,
        last_beat_at=session.last_beat_at,
        held=held,
        tenant=session.tenant,
    )
