"""What attempts write while they run, and how far they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from mainspring.core.ids import format_run_id
from mainspring.core.run_logs import MAX_MESSAGE, MOST_PLACE, PIECE, LogPart, RunProgress
from mainspring.ports.gateway import LogReport, LogResult
from mainspring.wire.protocol.leases import RunText, Token, read_run_id
from mainspring.wire.protocol.sessions import SessionText

LOG_RESULTS = [LogResult.KEPT.value, LogResult.STALE.value]
_Place = Annotated[int, Meta(ge=0, le=MOST_PLACE)]


class LogPartItem(Struct, kw_only=True, forbid_unknown_fields=True):
    """A part of what an attempt has written, as UTF-8, with no secret in it."""

    start: Annotated[
        _Place,
        Meta(
            description="How many bytes the attempt had written before it. What is left out between two parts shows."
        ),
    ]
    size: Annotated[
        Annotated[int, Meta(ge=1, le=PIECE)], Meta(description="How many bytes it has before it is deflated.")
    ]
    data: Annotated[bytes, Meta(description="A zlib stream of its bytes, in Base64.")]


class ProgressItem(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How far an attempt is."""

    done: Annotated[float, Meta(ge=0, description="How much is done.")]
    total: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Meta(description="How much there is to do; null if it is not known."),
    ] = None
    message: Annotated[
        str | None, Meta(description=f"For people; the first {MAX_MESSAGE} characters are kept.")
    ] = None


class LogItem(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one attempt has written since the last time, and says of its progress."""

    run_id: RunText
    token: Token
    parts: Annotated[
        list[LogPartItem], Meta(max_length=1000, description="The new parts, by their places.")
    ] = []
    forget: Annotated[
        Annotated[list[_Place], Meta(min_length=2, max_length=2)] | None,
        Meta(
            description="Parts that begin at the first place or after it, and before the second, are not kept longer."
        ),
    ] = None
    progress: Annotated[ProgressItem | None, Meta(description="The newest; null: nothing new.")] = None


class LogBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """What attempts of a session have written."""

    session_id: SessionText
    reports: Annotated[list[LogItem], Meta(description="One for each attempt.")]


class LogView(Struct, kw_only=True):
    """The result for each attempt."""

    results: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"enum": LOG_RESULTS})]],
        Meta(description="One word per report, in order. `stale`: the session does not hold the lease."),
    ]


def to_log_report(item: LogItem, index: int) -> LogReport:
    """Read what an attempt has written.

    Raises:
        InvalidInput: the text is not a run's id.
    """
    told = item.progress
    return LogReport(
        read_run_id(item.run_id, f"reports[{index}].run_id"),
        item.token,
        tuple(LogPart(part.start, part.size, part.data) for part in item.parts),
        None if item.forget is None else (item.forget[0], item.forget[1]),
        None if told is None else RunProgress(told.done, told.total, told.message),
    )


def from_log_report(report: LogReport) -> LogItem:
    """Write what an attempt has written."""
    told = report.progress
    return LogItem(
        run_id=format_run_id(report.run_id),
        token=report.token,
        parts=_from_parts(report.parts),
        forget=None if report.forget is None else list(report.forget),
        progress=None
        if told is None
        else ProgressItem(done=told.done, total=told.total, message=told.message),
    )


def _from_parts(parts: Iterable[LogPart]) -> list[LogPartItem]:
    return [LogPartItem(start=part.start, size=part.size, data=part.data) for part in parts]
