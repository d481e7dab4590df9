"""Claims, and the leases that answer them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from mainspring.core.definition import plain_from_spec, spec_from_plain
from mainspring.core.ids import format_job_id, format_run_id, parse_job_id, parse_run_id
from mainspring.core.tracing import as_linked, follow_traceparent, must_be_linked, show_traceparent
from mainspring.ports.gateway import ClaimCall, ClaimReply, FunctionLimit, Lease
from mainspring.wire.protocol.leases import RunText, Token, read_json
from mainspring.wire.protocol.sessions import Name, SessionText, read_session, show_session

JOB_EXAMPLE = "job_01m7yv7wr6e6nrt8p6jmm2gz6f"
JobText = Annotated[str, Meta(examples=[JOB_EXAMPLE], description="The job.")]


class FunctionLimitBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A limit on the leases of certain functions, all together."""

    functions: Annotated[list[Name], Meta(max_length=10_000, description="The functions, by name.")]
    limit: Annotated[int, Meta(ge=0, le=100_000, description="The most leases of them; 0 allows none.")]


class ClaimBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A request for work. The same number again gets the same answer."""

    session_id: SessionText
    number: Annotated[
        int,
        Meta(ge=1, le=2**62, description="Starts at 1, plus 1 for each new claim; the same to repeat one."),
    ]
    limit: Annotated[int, Meta(ge=0, le=100_000, description="The most leases to take: the free slots.")]
    wait_seconds: Annotated[float, Meta(ge=0, le=30, description="How long to wait if nothing is ready.")] = 0
    is_idle: Annotated[bool, Meta(description="Whether this worker holds no lease.")] = False
    function_limit: Annotated[
        FunctionLimitBody | None,
        Meta(description="Functions of which it can start fewer than `limit`; null means no such limit."),
    ] = None


class LeaseView(Struct, kw_only=True):
    """The right to execute one attempt."""

    run_id: RunText
    token: Token
    job_id: JobText
    version: Annotated[int, Meta(description="The job's version. With `job_id`, it names the definition.")]
    tenant: Annotated[str, Meta(description="The owner of the run.")]
    attempt: Annotated[
        int, Meta(description="Starts at 1. A lost, handed back or snoozed attempt keeps its number.")
    ]
    fire_time: Annotated[
        datetime | None, Meta(description="The nominal instant of a scheduled run; null for others.")
    ]
    due_at: Annotated[datetime, Meta(description="When the run was due to start.")]
    payload: Annotated[Any, Meta(description="The run's payload, or else the job's; null if there is none.")]
    idempotency_key: Annotated[
        str, Meta(description="The submitter's key, or else the run's id; the same for all attempts.")
    ]
    is_quarantined: Annotated[
        bool,
        Meta(description="The run has crashed a worker: claim nothing else until this attempt has ended."),
    ]
    is_cancel_requested: Annotated[
        bool, Meta(description="A cancel was requested: do not start the attempt, report `stopped`.")
    ]
    batch: Annotated[
        str | None,
        Meta(description="Leases with the same text are one call, for one slot; null: a call of its own."),
    ]
    traceparent: Annotated[
        str | None,
        Meta(
            description="The trace that the attempt goes on with, as W3C has it; null: the run is not traced."
        ),
    ]
    is_trace_split: Annotated[
        bool, Meta(description="The attempts are to have a trace of their own, with a link to this one.")
    ]


class DefinitionView(Struct, kw_only=True):
    """A definition, sent once per answer for all leases that need it."""

    job_id: JobText
    version: Annotated[int, Meta(description="The version of the job.")]
    definition: Annotated[
        dict[str, Any], Meta(description="The full form, as in `GET /api/v1/jobs/{job_id}`.")
    ]


class ClaimAnswerView(Struct, kw_only=True):
    """Leases with their definitions."""

    leases: Annotated[
        list[LeaseView], Meta(description="At most `limit` calls, in the order in which to start them.")
    ]
    definitions: Annotated[
        list[DefinitionView], Meta(description="Each job version that the leases name, once.")
    ]
    is_session_live: Annotated[bool, Meta(description="False: the session is dead; register again.")]
    is_quarantined_waiting: Annotated[
        bool, Meta(description="True: claim no more until you hold nothing, then claim with `is_idle`.")
    ]


def to_claim(body: ClaimBody) -> ClaimCall:
    """Read a claim."""
    bound = body.function_limit
    return ClaimCall(
        session_id=read_session(body.session_id),
        number=body.number,
        limit=body.limit,
        wait=timedelta(seconds=body.wait_seconds),
        is_idle=body.is_idle,
        function_limit=None
        if bound is None
        else FunctionLimit(functions=frozenset(bound.functions), limit=bound.limit),
    )


def from_claim(call: ClaimCall) -> ClaimBody:
    """Write a claim."""
    bound = call.function_limit
    return ClaimBody(
        session_id=show_session(call.session_id),
        number=call.number,
        limit=call.limit,
        wait_seconds=call.wait.total_seconds(),
        is_idle=call.is_idle,
        function_limit=None
        if bound is None
        else FunctionLimitBody(functions=sorted(bound.functions), limit=bound.limit),
    )


def from_claim_reply(reply: ClaimReply) -> ClaimAnswerView:
    """Write an answer to a claim, with each definition once."""
    specs = {(lease.job_id, lease.version): lease.spec for lease in reply.leases}
    shown = {job_id: format_job_id(job_id) for job_id, _ in specs}
    return ClaimAnswerView(
        leases=[_from_lease(lease, shown[lease.job_id]) for lease in reply.leases],
        definitions=[
            DefinitionView(job_id=shown[job_id], version=version, definition=plain_from_spec(spec))
            for (job_id, version), spec in specs.items()
        ],
        is_session_live=reply.is_session_live,
        is_quarantined_waiting=reply.is_quarantined_waiting,
    )


def _from_lease(lease: Lease, job_id: str) -> LeaseView:
    run_id = format_run_id(lease.run_id)
    return LeaseView(
        run_id=run_id,
        token=lease.token,
        job_id=job_id,
        version=lease.version,
        tenant=lease.tenant,
        attempt=lease.attempt,
        fire_time=lease.fire_at,
        due_at=lease.due_at,
        payload=None if lease.payload is None else msgspec.Raw(lease.payload),
        idempotency_key=run_id if lease.target_key is None else lease.target_key,
        is_quarantined=lease.is_quarantined,
        is_cancel_requested=lease.is_cancel_requested,
        batch=lease.batch,
        traceparent=None if lease.trace is None else show_traceparent(lease.trace),
        is_trace_split=lease.trace is not None and must_be_linked(lease.trace),
    )


class _LeaseIn(LeaseView, kw_only=True):
    payload: msgspec.Raw
    is_cancel_requested: bool = False  # an older server does not send it
    batch: str | None = None  # nor this
    traceparent: str | None = None  # nor these
    is_trace_split: bool = False


class ClaimAnswerIn(Struct, kw_only=True):
    """The same answer as a client reads it. Payloads stay JSON text."""

    leases: list[_LeaseIn]
    definitions: list[DefinitionView]
    is_session_live: bool
    is_quarantined_waiting: bool


def _read_trace(item: _LeaseIn) -> bytes | None:
    trace, _ = follow_traceparent(item.traceparent)
    return as_linked(trace) if trace is not None and item.is_trace_split else trace


def to_claim_reply(answer: ClaimAnswerIn) -> ClaimReply:
    """Read an answer to a claim."""
    specs = {(item.job_id, item.version): spec_from_plain(item.definition) for item in answer.definitions}
    job_ids = {item.job_id: parse_job_id(item.job_id) for item in answer.definitions}
    # Every run that a worker carries out comes through here: names of arguments would take a third of its time.
    leases = [
        Lease(
            parse_run_id(item.run_id),
            item.token,
            job_ids[item.job_id],
            item.version,
            item.tenant,
            item.attempt,
            item.fire_time,
            item.due_at,
            read_json(item.payload),
            None if item.idempotency_key == item.run_id else item.idempotency_key,
            item.is_quarantined,
            item.is_cancel_requested,
            specs[item.job_id, item.version],
            item.batch,
            None if item.traceparent is None else _read_trace(item),
        )
        for item in answer.leases
    ]
    return ClaimReply(
        leases=tuple(leases),
        is_session_live=answer.is_session_live,
        is_quarantined_waiting=answer.is_quarantined_waiting,
    )
