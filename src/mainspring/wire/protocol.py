"""The open worker protocol: register, claim, beat, report, leave (design 3.2, 4); both directions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from mainspring.core.definition import plain_from_spec, spec_from_plain
from mainspring.core.fields import MAX_DEPTH, is_deep
from mainspring.core.ids import SessionId, format_job_id, format_run_id, parse_job_id, parse_run_id
from mainspring.core.model import INLINE_LIMIT
from mainspring.core.text import storable
from mainspring.core.transitions import Failure, clamp_snooze
from mainspring.errors import InvalidInput
from mainspring.ports.executor import Snooze, Success
from mainspring.ports.gateway import (
    MAX_SLOTS,
    BeatReply,
    ClaimCall,
    ClaimReply,
    Ending,
    FunctionLimit,
    HandedBack,
    Lease,
    Registration,
    Report,
    ReportResult,
    Stopped,
)

OUTCOMES = ["success", "failure", "snooze", "handed_back", "stopped"]
RESULTS = [result.value for result in ReportResult]
RUN_EXAMPLE = "run_00000000001yf"
JOB_EXAMPLE = "job_01m7yv7wr6e6nrt8p6jmm2gz6f"
SessionText = Annotated[
    str,
    Meta(
        pattern="^ses_[0-9]{1,18}$",
        examples=["ses_17"],
        description="The session, as `register` answered it.",
    ),
]
RunText = Annotated[str, Meta(examples=[RUN_EXAMPLE], description="The run.")]
JobText = Annotated[str, Meta(examples=[JOB_EXAMPLE], description="The job.")]
Token = Annotated[
    int,
    Meta(ge=0, le=2**31 - 1, description="The lease's token: grows with every claim and loss of the run."),
]
Name = Annotated[str, Meta(max_length=200)]


class RegisterBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a worker offers for the length of a session."""

    name: Annotated[str, Meta(min_length=1, max_length=200, description="Its name, for people.")]
    host: Annotated[str, Meta(max_length=255, description="Its host, for people.")] = ""
    pid: Annotated[int, Meta(ge=0, le=2**31 - 1, description="Its process, for people.")] = 0
    slots: Annotated[int, Meta(ge=1, le=MAX_SLOTS, description="Attempts at a time; for people.")] = 1
    queues: Annotated[list[Name], Meta(max_length=10_000, description="Queues it serves; none is all.")] = []
    types: Annotated[
        list[Name], Meta(max_length=10_000, description="Target types it carries out: `http`, `shell`.")
    ] = []
    functions: Annotated[
        list[Name], Meta(max_length=10_000, description="Functions it carries out, by name.")
    ] = []
    labels: Annotated[
        list[Name], Meta(max_length=10_000, description="Labels it offers; a job needs all of its own.")
    ] = []


class SessionBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which session speaks."""

    session_id: SessionText


class SessionGranted(Struct, kw_only=True):
    """A granted session."""

    session_id: SessionText
    beat_period_seconds: Annotated[
        float, Meta(description="Beat at least so often; three periods of silence end the session.")
    ]


class FunctionLimitBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A bound on the leases of certain functions, all together."""

    functions: Annotated[list[Name], Meta(max_length=10_000, description="Functions by name.")]
    limit: Annotated[int, Meta(ge=0, le=100_000, description="Leases of these at most; 0 is none.")]


class ClaimBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A request for work; the same number again gets the same answer."""

    session_id: SessionText
    number: Annotated[
        int,
        Meta(ge=1, le=2**62, description="From 1, one more for each new claim; the same to repeat one."),
    ]
    limit: Annotated[int, Meta(ge=0, le=100_000, description="Leases at most: the free slots.")]
    wait_seconds: Annotated[
        float, Meta(ge=0, le=30, description="How long to hold the call while there is nothing.")
    ] = 0
    is_idle: Annotated[bool, Meta(description="This worker holds no lease.")] = False
    function_limit: Annotated[
        FunctionLimitBody | None,
        Meta(description="What it can begin fewer of than `limit`; null is no such bound."),
    ] = None


class LeaseView(Struct, kw_only=True):
    """The right to carry out one attempt."""

    run_id: RunText
    token: Token
    job_id: JobText
    version: Annotated[int, Meta(description="With `job_id`: which of the definitions holds.")]
    tenant: Annotated[str, Meta(description="Whose run it is.")]
    attempt: Annotated[int, Meta(description="From 1; a lost, handed back or snoozed one keeps its number.")]
    fire_time: Annotated[
        datetime | None, Meta(description="The nominal instant of a scheduled run; null for others.")
    ]
    due_at: Annotated[datetime, Meta(description="When it was to start.")]
    payload: Annotated[Any, Meta(description="The run's own, else the job's; null without one.")]
    idempotency_key: Annotated[
        str, Meta(description="The submitter's, else the run's id: the same for all attempts.")
    ]
    is_quarantined: Annotated[
        bool,
        Meta(description="Quarantined, since it crashed a worker: claim nothing else until it has ended."),
    ]
    is_cancel_requested: Annotated[
        bool, Meta(description="Its cancel was asked for: do not begin it, report `stopped`.")
    ]


class DefinitionView(Struct, kw_only=True):
    """A kept definition, sent once for all leases of one answer that need it."""

    job_id: JobText
    version: Annotated[int, Meta(description="Which version of the job.")]
    definition: Annotated[
        dict[str, Any], Meta(description="The full form, as `GET /api/v1/jobs/{job_id}` has it.")
    ]


class ClaimAnswerView(Struct, kw_only=True):
    """Leases with their definitions."""

    leases: Annotated[
        list[LeaseView], Meta(description="At most `limit`, in the order in which to begin them.")
    ]
    definitions: Annotated[
        list[DefinitionView], Meta(description="Each job version that the leases name, once.")
    ]
    is_session_live: Annotated[bool, Meta(description="False: the session is dead, register anew.")]
    is_quarantined_waiting: Annotated[
        bool, Meta(description="Claim no more until nothing is held, then claim with `is_idle`.")
    ]


class LeaseKey(Struct, kw_only=True, forbid_unknown_fields=True):
    """A lease by run and token."""

    run_id: RunText
    token: Token


class BeatBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A heartbeat: what the session holds, and the number of the last claim whose answer has arrived."""

    session_id: SessionText
    held: Annotated[
        list[LeaseKey],
        Meta(description="Every lease under way, and those that ended and are not yet reported."),
    ] = []
    answered: Annotated[
        Annotated[int, Meta(ge=0, le=2**62)] | None,
        Meta(description="The last claim answered when `held` was read, 0 before; null takes it for all."),
    ] = None


class BeatView(Struct, kw_only=True):
    """What a heartbeat brings back."""

    is_session_live: Annotated[
        bool, Meta(description="False: the session is dead and all that is held is lost; register anew.")
    ]
    lost: Annotated[
        list[LeaseKey], Meta(description="Of those held, no longer this session's: stop, report nothing.")
    ]
    cancel: Annotated[
        list[LeaseKey], Meta(description="Of those held, to be cancelled: stop, report `stopped`.")
    ]


class ReportItem(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How one attempt ended. Fields that its outcome does not take are ignored."""

    run_id: RunText
    token: Token
    # The list is for the description alone: what is wrong is answered with the report's own place.
    outcome: Annotated[
        str,
        Meta(description="How it ended; the other fields go with it.", extra_json_schema={"enum": OUTCOMES}),
    ]
    # By a factory, because a default of this type cannot be described in a schema.
    result: Annotated[
        msgspec.Raw, Meta(description="Of a success or failure: any JSON, at most 64 KiB and 64 levels deep.")
    ] = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))
    output: Annotated[str | None, Meta(description="What the attempt printed.")] = None
    error: Annotated[str | None, Meta(description="Of a failure or one stopped: why.")] = None
    is_retryable: Annotated[bool, Meta(description="Of a failure; false: not to be tried again.")] = True
    is_timeout: Annotated[bool, Meta(description="Of a failure: it ran into its time limit.")] = False
    retry_after_seconds: Annotated[
        Annotated[float, Meta(ge=0, le=86_400)] | None,
        Meta(description="Of a failure: not before so long; the job's backoff holds when it is longer."),
    ] = None
    delay_seconds: Annotated[
        Annotated[float, Meta(ge=0, le=31_536_000)] | None,
        Meta(description="Of a snooze, which needs it: how long it lasts."),
    ] = None
    was_started: Annotated[bool, Meta(description="Of one handed back: whether anything was begun.")] = True


class ReportBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Reports of a session."""

    session_id: SessionText
    reports: Annotated[list[ReportItem], Meta(description="One for each attempt.")]


class ReportView(Struct, kw_only=True):
    """What became of each report; all three are final."""

    results: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"enum": RESULTS})]],
        Meta(description="One word for each report, in order; `stale` and `missing` changed nothing."),
    ]


def read_session(text: str) -> SessionId:
    """Read `ses_…`."""
    return SessionId(int(text.removeprefix("ses_")))


def show_session(session_id: SessionId) -> str:
    """Write `ses_…`."""
    return f"ses_{session_id}"


def to_registration(body: RegisterBody) -> Registration:
    """Read a registration."""
    return Registration(
        name=body.name,
        host=body.host,
        pid=body.pid,
        slots=body.slots,
        queues=tuple(body.queues),
        types=tuple(body.types),
        functions=tuple(body.functions),
        labels=tuple(body.labels),
    )


def from_registration(registration: Registration) -> RegisterBody:
    """Write a registration."""
    return RegisterBody(
        name=registration.name,
        host=registration.host,
        pid=registration.pid,
        slots=registration.slots,
        queues=list(registration.queues),
        types=list(registration.types),
        functions=list(registration.functions),
        labels=list(registration.labels),
    )


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
    """Write an answer to a claim; every definition once."""
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
    )


class _LeaseIn(LeaseView, kw_only=True):
    payload: msgspec.Raw
    is_cancel_requested: bool = False  # an older server does not say


class ClaimAnswerIn(Struct, kw_only=True):
    """The same answer as a client reads it: payloads stay the text that they are."""

    leases: list[_LeaseIn]
    definitions: list[DefinitionView]
    is_session_live: bool
    is_quarantined_waiting: bool


def to_claim_reply(answer: ClaimAnswerIn) -> ClaimReply:
    """Read an answer to a claim."""
    specs = {(item.job_id, item.version): spec_from_plain(item.definition) for item in answer.definitions}
    job_ids = {item.job_id: parse_job_id(item.job_id) for item in answer.definitions}
    leases = tuple(
        Lease(
            run_id=parse_run_id(item.run_id),
            token=item.token,
            job_id=job_ids[item.job_id],
            version=item.version,
            tenant=item.tenant,
            attempt=item.attempt,
            fire_at=item.fire_time,
            due_at=item.due_at,
            payload=_text(item.payload),
            target_key=None if item.idempotency_key == item.run_id else item.idempotency_key,
            is_quarantined=item.is_quarantined,
            is_cancel_requested=item.is_cancel_requested,
            spec=specs[item.job_id, item.version],
        )
        for item in answer.leases
    )
    return ClaimReply(
        leases=leases,
        is_session_live=answer.is_session_live,
        is_quarantined_waiting=answer.is_quarantined_waiting,
    )


def to_keys(items: Iterable[LeaseKey]) -> tuple[tuple[Any, int], ...]:
    """Read leases by run and token."""
    return tuple((_run_id(item.run_id), item.token) for item in items)


def from_keys(keys: Iterable[tuple[Any, int]]) -> list[LeaseKey]:
    """Write leases by run and token."""
    return [LeaseKey(run_id=format_run_id(run_id), token=token) for run_id, token in keys]


def from_beat_reply(reply: BeatReply) -> BeatView:
    """Write what a heartbeat brings back."""
    return BeatView(
        is_session_live=reply.is_session_live, lost=from_keys(reply.lost), cancel=from_keys(reply.cancel)
    )


def to_beat_reply(view: BeatView) -> BeatReply:
    """Read what a heartbeat brings back."""
    return BeatReply(
        is_session_live=view.is_session_live, lost=to_keys(view.lost), cancel=to_keys(view.cancel)
    )


def to_report(item: ReportItem, index: int) -> Report:
    """Read a report.

    Raises:
        InvalidInput: the outcome is unknown, or lacks what goes with it.
    """
    field = f"reports[{index}]"
    return Report(
        run_id=_run_id(item.run_id, f"{field}.run_id"), token=item.token, ending=_to_ending(item, field)
    )


def _to_ending(item: ReportItem, field: str) -> Ending:
    match item.outcome:
        case "success":
            return Success(result=_result(item.result, field), output=storable(item.output))
        case "failure":
            retry_after = item.retry_after_seconds
            return Failure(
                error=storable(item.error) or "the worker gave no reason",
                output=storable(item.output),
                result=_result(item.result, field),
                is_retryable=item.is_retryable,
                is_timeout=item.is_timeout,
                retry_after=None if retry_after is None else timedelta(seconds=retry_after),
            )
        case "snooze":
            if item.delay_seconds is None:
                raise InvalidInput(f"{field}.delay_seconds", "is missing; a snooze says how long")
            return Snooze(timedelta(seconds=item.delay_seconds))
        case "handed_back":
            return HandedBack(was_started=item.was_started)
        case "stopped":
            return Stopped(error=storable(item.error), output=storable(item.output))
    raise InvalidInput(f"{field}.outcome", "must be success, failure, snooze, handed_back or stopped")


def from_report(report: Report) -> ReportItem:
    """Write a report."""
    item = ReportItem(run_id=format_run_id(report.run_id), token=report.token, outcome="success")
    ending = report.ending
    if isinstance(ending, Success):
        item.result, item.output = _raw(ending.result), storable(ending.output)
    elif isinstance(ending, Failure):
        item.outcome, item.error, item.output = "failure", storable(ending.error), storable(ending.output)
        item.result, item.is_retryable, item.is_timeout = (
            _raw(ending.result),
            ending.is_retryable,
            ending.is_timeout,
        )
        if ending.retry_after is not None:
            item.retry_after_seconds = min(max(ending.retry_after.total_seconds(), 0.0), 86_400.0)
    elif isinstance(ending, Snooze):
        item.outcome, item.delay_seconds = "snooze", clamp_snooze(ending.delay).total_seconds()
    elif isinstance(ending, HandedBack):
        item.outcome, item.was_started = "handed_back", ending.was_started
    else:
        item.outcome, item.error, item.output = "stopped", storable(ending.error), storable(ending.output)
    return item


def _run_id(text: str, field: str = "run_id") -> Any:
    try:
        return parse_run_id(text)
    except ValueError as error:
        raise InvalidInput(field, str(error)) from None


def _raw(text: bytes | None) -> msgspec.Raw:
    return msgspec.Raw(b"null" if text is None else text)


def _result(raw: msgspec.Raw, field: str) -> bytes | None:
    text = _text(raw)
    if text is None:
        return None
    if len(text) > INLINE_LIMIT:
        message = f"{len(text)} bytes; at most {INLINE_LIMIT} fit, put large data elsewhere and pass a link"
        raise InvalidInput(f"{field}.result", message)
    if is_deep(text):
        raise InvalidInput(f"{field}.result", f"is nested deeper than {MAX_DEPTH} levels")
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"{field}.result", f"is not JSON in UTF-8: {str(error)[:200]}") from None
    return text


def _text(raw: msgspec.Raw) -> bytes | None:
    text = bytes(raw)
    return None if text == b"null" else text
