"""Calendars and previews of fires, as the HTTP API takes and shows them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from mainspring.core.calendars.days import CalendarDay
from mainspring.core.calendars.preview import Preview
from mainspring.core.calendars.resolved import CalendarVersion
from mainspring.core.ends import FiredRun
from mainspring.core.ids import format_run_id
from mainspring.wire.views import Instant

_RULE = {
    "type": "object",
    "description": "One of: `date`; `from` and `to`; `yearly`; `weekly`, with or without `from` and `to`; `union`; "
    "`intersect`; `minus`. Each may have a `note`.",
    "examples": [{"date": "2026-12-24"}, {"weekly": ["SAT", "SUN"]}, {"minus": ["bridge-days"]}],
}
LocalTime = Annotated[datetime, Meta(tz=True, description="The same instant in the schedule's zone.")]


class CalendarBody(Struct, kw_only=True):
    """A calendar: the union of its rules, in a time zone of its own."""

    rules: Annotated[list[Any], Meta(extra_json_schema={"items": _RULE, "minItems": 1})]
    tz: Annotated[str, Meta(description="The zone's IANA name.", examples=["Europe/Berlin"])] = "UTC"
    invert: Annotated[bool, Meta(description="It holds just what its rules do not.")] = False


class CalendarView(Struct, kw_only=True):
    """A version of a calendar."""

    name: str
    version: int
    tz: str
    rules: list[dict[str, Any]]
    invert: bool
    resolved: Annotated[
        dict[str, int], Meta(description="The version of each calendar that its rules name without one.")
    ]
    is_deleted: bool
    created_at: Instant


class CalendarPage(Struct):
    """A page of calendars; `next` is the value of `after`, or of `before`, for the page that follows."""

    items: list[CalendarView]
    next: str | None


class CalendarWritten(Struct, kw_only=True):
    """What a write of a calendar did."""

    name: str
    version: int
    followers: Annotated[
        list[str], Meta(description="Calendars that name this one, and so have a new version, too.")
    ]
    jobs: Annotated[int, Meta(description="Jobs whose clocks go by new versions now.")]
    moved: Annotated[int, Meta(description="Those of them whose next fire is another one.")]


class CalendarImported(CalendarWritten, kw_only=True):
    """What an import of a calendar did."""

    tz: Annotated[str, Meta(description="The calendar's zone.")]
    rules: Annotated[int, Meta(description="Rules that the events make.")]
    events: Annotated[int, Meta(description="Events of the file.")]
    left_out: Annotated[
        int,
        Meta(
            description="Those of them that hold no time: cancelled, replaced, without a length, before 1970."
        ),
    ]
    expanded_to: Annotated[
        str | None,
        Meta(
            description="The last date up to which events recur that go on; null if none does. Import again by then."
        ),
    ]


class CalendarDayView(Struct, kw_only=True):
    """A date that a calendar holds, wholly or in part."""

    date: str
    hours: Annotated[
        list[tuple[str, str]],
        Meta(description="From when to when, in the calendar's zone; empty for all day."),
    ]


class CalendarDays(Struct):
    """The dates of a range that a calendar holds at least in part."""

    items: list[CalendarDayView]


class FireView(Struct, kw_only=True):
    """A fire, and what calendars do with it."""

    fire_at: Instant
    local: LocalTime
    excluded_by: Annotated[
        str | None,
        Meta(description="`NAME@VERSION` of the calendar that keeps it out; null if it makes a run."),
    ]
    skipped_by: Annotated[
        str | None,
        Meta(
            description="`NAME@VERSION` of the calendar of a blackout that will skip it; null if none will."
        ),
    ] = None
    due_at: Annotated[
        Instant | None,
        Meta(
            description="When its run may start: later by the jitter. Null if it makes no run, or if the job has a "
            "jitter and does not exist yet."
        ),
    ] = None
    rolled_from: Annotated[
        Instant | None, Meta(description="The furthest fire time that moved here; null if none did.")
    ]
    dst: Annotated[
        str | None,
        Meta(description="`gap` right after clocks went ahead, `overlap` at a time shown twice; else null."),
    ]


class WaitedRun(Struct, kw_only=True):
    """A run from whose end the next fire of its job counts."""

    run_id: str
    status: str


class FireList(Struct):
    """The next fires of a job, as far as they are known."""

    items: list[FireView]
    waits_for: Annotated[
        WaitedRun | None,
        Meta(description="The run from whose end the next fire counts, with `after_end`; else null."),
    ] = None


class TriggerPreview(Struct, kw_only=True):
    """What a body would make, and when that would fire."""

    explanation: Annotated[str | None, Meta(description="When it fires, in words.")]
    warnings: Annotated[list[str], Meta(description="What may surprise about it.")]
    trigger: Annotated[
        dict[str, Any] | None, Meta(description="The trigger that was understood, in full form.")
    ] = None
    definition: Annotated[
        dict[str, Any] | None,
        Meta(description="The definition in full form, if the body is that of a whole job."),
    ] = None
    job_id: Annotated[str | None, Meta(description="The job of that name, if there is one.")] = None
    fires: list[FireView]


def view_calendar(version: CalendarVersion) -> CalendarView:
    """Show a version of a calendar."""
    return CalendarView(
        name=version.name,
        version=version.version,
        **version.spec.plain(),
        resolved=dict(version.resolved),
        is_deleted=version.is_deleted,
        created_at=version.created_at,
    )


def view_days(days: Iterable[CalendarDay]) -> CalendarDays:
    """Show the days of a calendar."""
    return CalendarDays([CalendarDayView(date=one.day.isoformat(), hours=list(one.hours)) for one in days])


def view_waited(run: FiredRun | None) -> WaitedRun | None:
    """Show the run from whose end the next fire counts."""
    return None if run is None else WaitedRun(run_id=format_run_id(run.run_id), status=run.state)


def view_fires(fires: Iterable[Preview]) -> list[FireView]:
    """Show the next fires of a job."""
    return [
        FireView(
            fire_at=one.fire_at,
            local=one.local,
            excluded_by=one.excluded_by,
            skipped_by=one.skipped_by,
            due_at=one.due_at,
            rolled_from=one.rolled_from,
            dst=one.dst,
        )
        for one in fires
    ]
