"""Reports of how attempts ended."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from mainspring.core.causes import MAX_CAUSE, MOST_EXCEPTIONS, Cause
from mainspring.core.ids import format_run_id
from mainspring.core.outcomes import Failure, clamp_snooze
from mainspring.core.results import LeftOut, ResultMark, read_mark, write_mark
from mainspring.core.text import storable
from mainspring.errors import InvalidInput
from mainspring.ports.executor import Snooze, Success
from mainspring.ports.gateway import Ending, HandedBack, Report, ReportResult, Stopped
from mainspring.ports.strict_json import keep_unread
from mainspring.wire.protocol.leases import RunText, Token, read_json, read_run_id
from mainspring.wire.protocol.sessions import SessionText

OUTCOMES = ["success", "failure", "snooze", "handed_back", "stopped"]
PREEMPTED = "preempted"
RESULTS = [result.value for result in ReportResult]


class LeftOutResult(Struct, kw_only=True, forbid_unknown_fields=True):
    """Why a result was not kept. The attempt ends as it would have with its result."""

    reason: Annotated[
        str,
        Meta(
            description="`too_large`, `too_deep`, or `not_json`: it has no JSON form.",
            extra_json_schema={"enum": [reason.value for reason in LeftOut]},
        ),
    ]
    note: Annotated[str, Meta(description="What was wrong with it, for people.")] = ""
    size_bytes: Annotated[
        Annotated[int, Meta(ge=0, le=2**53)] | None, Meta(description="The bytes of its JSON text.")
    ] = None
    sha256: Annotated[
        Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | None,
        Meta(description="The digest of that text, so that a copy kept elsewhere can be recognized."),
    ] = None


class CauseItem(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Why an attempt failed, for the rules of its job. Give what applies."""

    exceptions: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=MAX_CAUSE)]],
        Meta(
            description="The qualified names of the exception's classes: its own, then those it is derived from.",
            max_length=MOST_EXCEPTIONS,
        ),
    ] = []
    exit_code: Annotated[
        Annotated[int, Meta(ge=-64, le=255)] | None,
        Meta(description="How a command ended; a negative number is the signal that ended it."),
    ] = None
    status: Annotated[
        Annotated[int, Meta(ge=100, le=599)] | None, Meta(description="The status of an HTTP answer.")
    ] = None
    is_connection: Annotated[bool, Meta(description="Whether there was no HTTP answer.")] = False


class ReportItem(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How one attempt ended. Fields that do not belong to its outcome are ignored."""

    run_id: RunText
    token: Token
    # The list is only for the description. The error for a wrong outcome names the report's place.
    outcome: Annotated[
        str,
        Meta(
            description="How it ended. It decides which of the other fields apply.",
            extra_json_schema={"enum": OUTCOMES},
        ),
    ]
    # By a factory, because a schema cannot describe a default of this type.
    result: Annotated[
        msgspec.Raw,
        Meta(
            description="For a success or failure: any JSON. More than 64 KiB or 64 levels is not kept; the run then "
            "says so."
        ),
    ] = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))
    result_left_out: Annotated[
        LeftOutResult | None,
        Meta(description="In place of a result that the worker does not send because it would not be kept."),
    ] = None
    output: Annotated[str | None, Meta(description="What the attempt printed.")] = None
    error: Annotated[str | None, Meta(description="For `failure` and `stopped`: why.")] = None
    is_retryable: Annotated[bool, Meta(description="For a failure: false means no retry.")] = True
    is_timeout: Annotated[
        bool, Meta(description="For a failure: whether the attempt ran into its time limit.")
    ] = False
    retry_after_seconds: Annotated[
        Annotated[float, Meta(ge=0, le=86_400)] | None,
        Meta(
            description="For a failure: the shortest wait before a retry. A longer backoff of the job wins."
        ),
    ] = None
    cause: Annotated[
        CauseItem | None, Meta(description="For a failure: why, for the rules of the job's retries.")
    ] = None
    delay_seconds: Annotated[
        Annotated[float, Meta(ge=0, le=31_536_000)] | None,
        Meta(description="For a snooze, where it is required: how long the snooze lasts."),
    ] = None
    was_started: Annotated[bool, Meta(description="For `handed_back`: whether the work was started.")] = True
    reason: Annotated[
        str | None,
        Meta(
            description="For `handed_back`: `preempted` if a heartbeat's answer asked for it.",
            extra_json_schema={"enum": [PREEMPTED, None]},
        ),
    ] = None
    took_seconds: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Meta(description="How long the attempt held its slot. Tenants share the workers by it."),
    ] = None


class ReportBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Reports of a session."""

    session_id: SessionText
    reports: Annotated[list[ReportItem], Meta(description="One for each attempt.")]


class ReportView(Struct, kw_only=True):
    """The result of each report. All three results are final."""

    results: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"enum": RESULTS})]],
        Meta(description="One word per report, in order. `stale` and `missing` mean that nothing changed."),
    ]


def to_report(item: ReportItem, index: int) -> Report:
    """Read a report.

    Raises:
        InvalidInput: the outcome is unknown, or a field that it needs is missing or wrong.
    """
    field = f"reports[{index}]"
    return Report(
        run_id=read_run_id(item.run_id, f"{field}.run_id"),
        token=item.token,
        ending=_to_ending(item, field),
        took=item.took_seconds,
    )


def _to_ending(item: ReportItem, field: str) -> Ending:
    match item.outcome:
        case "success":
            return Success(result=_result(item, field), output=storable(item.output))
        case "failure":
            retry_after = item.retry_after_seconds
            return Failure(
                error=storable(item.error) or "the worker gave no reason",
                output=storable(item.output),
                result=_result(item, field),
                is_retryable=item.is_retryable,
                is_timeout=item.is_timeout,
                retry_after=None if retry_after is None else timedelta(seconds=retry_after),
                cause=None if item.cause is None else _to_cause(item.cause),
            )
        case "snooze":
            if item.delay_seconds is None:
                raise InvalidInput(
                    f"{field}.delay_seconds", "is missing; a snooze must say how long it lasts"
                )
            return Snooze(timedelta(seconds=item.delay_seconds))
        case "handed_back":
            if item.reason not in {None, PREEMPTED}:
                raise InvalidInput(f"{field}.reason", f"must be {PREEMPTED!r} or left out")
            return HandedBack(was_started=item.was_started, is_preempted=item.reason == PREEMPTED)
        case "stopped":
            return Stopped(error=storable(item.error), output=storable(item.output))
    raise InvalidInput(f"{field}.outcome", "must be success, failure, snooze, handed_back or stopped")


def from_report(report: Report) -> ReportItem:
    """Write a report."""
    item = ReportItem(run_id=format_run_id(report.run_id), token=report.token, outcome="success")
    if report.took is not None:
        item.took_seconds = max(report.took, 0.0)
    ending = report.ending
    if isinstance(ending, Success):
        item.output = storable(ending.output)
        _write_result(item, ending.result)
    elif isinstance(ending, Failure):
        item.outcome, item.error, item.output = "failure", storable(ending.error), storable(ending.output)
        item.is_retryable, item.is_timeout = ending.is_retryable, ending.is_timeout
        _write_result(item, ending.result)
        if ending.cause is not None:
            item.cause = _from_cause(ending.cause)
        if ending.retry_after is not None:
            item.retry_after_seconds = min(max(ending.retry_after.total_seconds(), 0.0), 86_400.0)
    elif isinstance(ending, Snooze):
        item.outcome, item.delay_seconds = "snooze", clamp_snooze(ending.delay).total_seconds()
    elif isinstance(ending, HandedBack):
        item.outcome, item.was_started = "handed_back", ending.was_started
        item.reason = PREEMPTED if ending.is_preempted else None
    else:
        item.outcome, item.error, item.output = "stopped", storable(ending.error), storable(ending.output)
    return item


def _to_cause(item: CauseItem) -> Cause:
    return Cause(
        exceptions=tuple(item.exceptions),
        exit_code=item.exit_code,
        status=item.status,
        is_connection=item.is_connection,
    )


def _from_cause(cause: Cause) -> CauseItem:
    return CauseItem(
        exceptions=list(cause.exceptions),
        exit_code=cause.exit_code,
        status=cause.status,
        is_connection=cause.is_connection,
    )


def _write_result(item: ReportItem, result: bytes | None) -> None:
    mark = read_mark(result)
    if mark is not None:
        item.result_left_out = view_mark(mark)
    elif result is not None:
        item.result = msgspec.Raw(result)


def _result(item: ReportItem, field: str) -> bytes | None:
    left_out = item.result_left_out
    if left_out is None:
        text = read_json(item.result)
        return None if text is None else keep_unread(text)
    if left_out.reason not in list(LeftOut):
        reasons = ", ".join(LeftOut)
        raise InvalidInput(f"{field}.result_left_out.reason", f"must be one of {reasons}")
    mark = ResultMark(
        reason=LeftOut(left_out.reason),
        note=left_out.note,
        size=left_out.size_bytes,
        sha256=left_out.sha256,
    )
    return write_mark(mark)


def view_mark(mark: ResultMark) -> LeftOutResult:
    """Show why a result was not kept."""
    return LeftOutResult(reason=mark.reason.value, note=mark.note, size_bytes=mark.size, sha256=mark.sha256)
