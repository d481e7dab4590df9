"""Reports of how attempts ended."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from mainspring.core.fields import MAX_DEPTH, is_deep
from mainspring.core.ids import format_run_id
from mainspring.core.model import INLINE_LIMIT
from mainspring.core.outcomes import Failure, clamp_snooze
from mainspring.core.text import storable
from mainspring.errors import InvalidInput
from mainspring.ports.executor import Snooze, Success
from mainspring.ports.gateway import Ending, HandedBack, Report, ReportResult, Stopped
from mainspring.wire.protocol.leases import RunText, Token, read_json, read_run_id
from mainspring.wire.protocol.sessions import SessionText

OUTCOMES = ["success", "failure", "snooze", "handed_back", "stopped"]
PREEMPTED = "preempted"
RESULTS = [result.value for result in ReportResult]


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
        Meta(description="For a success or failure: any JSON, at most 64 KiB and 64 levels deep."),
    ] = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))
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
        item.reason = PREEMPTED if ending.is_preempted else None
    else:
        item.outcome, item.error, item.output = "stopped", storable(ending.error), storable(ending.output)
    return item


def _raw(text: bytes | None) -> msgspec.Raw:
    return msgspec.Raw(b"null" if text is None else text)


def _result(raw: msgspec.Raw, field: str) -> bytes | None:
    text = read_json(raw)
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
