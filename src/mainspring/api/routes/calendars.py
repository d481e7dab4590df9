"""Calendars: write, show, delete; and previews of fires."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

from msgspec import Raw

from mainspring.api.call import Answer, Call, Endpoint, handles
from mainspring.api.reading import path_job_id, query_moment
from mainspring.core.definition import plain_from_spec
from mainspring.core.ids import format_job_id
from mainspring.core.triggers import store_trigger
from mainspring.core.triggers.words import explain_trigger, tell_count
from mainspring.engine.usecases.calendars import Written
from mainspring.errors import InvalidInput
from mainspring.wire import operations
from mainspring.wire.calendars import (
    CalendarDays,
    CalendarImported,
    CalendarPage,
    CalendarView,
    CalendarWritten,
    FireList,
    TriggerPreview,
    view_calendar,
    view_days,
    view_fires,
    view_waited,
)
from mainspring.wire.views import Deleted

_TICK = timedelta(microseconds=1)


@handles(operations.LIST_CALENDARS)
async def list_calendars(call: Call) -> CalendarPage:
    limit: int = call.query["limit"]
    page = await call.engine.calendars.list_page(call.tenant, after=call.query.get("after"), limit=limit)
    following = page[-1].name if len(page) == limit else None
    return CalendarPage([view_calendar(one) for one in page], following)


@handles(operations.GET_CALENDAR)
async def get_calendar(call: Call) -> CalendarView:
    return view_calendar(await call.engine.calendars.get(call.tenant, call.key, call.query.get("version")))


@handles(operations.UPSERT_CALENDAR)
async def upsert_calendar(call: Call, body: dict[str, Any]) -> Answer[CalendarWritten]:
    return _answer(await call.engine.calendars.put(call.tenant, call.key, body, by=call.actor))


@handles(operations.IMPORT_CALENDAR)
async def import_calendar(call: Call, body: bytes) -> Answer[CalendarImported]:
    found = await call.services.ics.read(body, tz=call.query.get("tz"), now=call.engine.now())
    answer = _answer(await call.engine.calendars.put(call.tenant, call.key, found.body, by=call.actor))
    written, status = answer.content, answer.status
    content = CalendarImported(
        **{name: getattr(written, name) for name in written.__struct_fields__},
        tz=found.body["tz"],
        rules=len(found.body["rules"]),
        events=found.events,
        left_out=found.left_out,
        expanded_to=None if found.expanded_to is None else found.expanded_to.isoformat(),
    )
    return Answer(content, status=status)


@handles(operations.DELETE_CALENDAR)
async def delete_calendar(call: Call) -> Deleted:
    await call.engine.calendars.delete(call.tenant, call.key, by=call.actor)
    return Deleted()


@handles(operations.LIST_CALENDAR_VERSIONS)
async def list_calendar_versions(call: Call) -> CalendarPage:
    limit: int = call.query["limit"]
    page = await call.engine.calendars.versions(
        call.tenant, call.key, before=call.query.get("before"), limit=limit
    )
    following = str(page[-1].version) if len(page) == limit else None
    return CalendarPage([view_calendar(one) for one in page], following)


@handles(operations.LIST_CALENDAR_DAYS)
async def list_calendar_days(call: Call) -> CalendarDays:
    query = call.query
    days = await call.engine.calendars.days(
        call.tenant, call.key, _date(query, "from"), _date(query, "to"), query.get("version")
    )
    return view_days(days)


@handles(operations.LIST_JOB_FIRES)
async def list_job_fires(call: Call) -> FireList:
    found = await call.engine.jobs.fires(
        call.tenant, path_job_id(call.key), after=_from(call), count=call.query["count"]
    )
    return FireList(view_fires(found.fires), view_waited(found.waits_for))


@handles(operations.PREVIEW_TRIGGER)
async def preview_trigger(call: Call, body: dict[str, Any]) -> TriggerPreview:
    found = await call.engine.jobs.preview(call.tenant, body, after=_from(call), count=call.query["count"])
    return TriggerPreview(
        explanation=f"{explain_trigger(found.spec.trigger)}{tell_count(found.spec.max_fires)}",
        warnings=found.warnings,
        trigger=store_trigger(found.spec.trigger),
        definition=plain_from_spec(found.spec, Raw) if found.is_whole else None,
        job_id=None if found.job_id is None else format_job_id(found.job_id),
        fires=view_fires(found.fires),
    )


def _answer(written: Written) -> Answer[CalendarWritten]:
    content = CalendarWritten(
        name=written.version.name,
        version=written.version.version,
        followers=list(written.followers),
        jobs=written.replanned.jobs,
        moved=written.replanned.moved,
    )
    return Answer(content, status=201 if written.is_new else 200)


def _from(call: Call) -> datetime | None:
    """Return the instant after which fires are wanted, which itself counts."""
    if "from" not in call.query:
        return None
    return query_moment(call.query["from"], "from", now=call.engine.now()) - _TICK


def _date(query: Any, field: str) -> date | None:
    text = query.get(field)
    if text is None:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise InvalidInput(field, f"must be a date like 2026-12-24, not {text[:60]!r}") from None
    if not 1970 <= day.year <= 9000:
        raise InvalidInput(field, "must lie in the years 1970 to 9000")
    return day


ROUTES: list[Endpoint] = [
    list_calendars,
    get_calendar,
    upsert_calendar,
    import_calendar,
    delete_calendar,
    list_calendar_versions,
    list_calendar_days,
    list_job_fires,
    preview_trigger,
]
