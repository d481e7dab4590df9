"""Reads calendars as files in iCalendar (RFC 5545), as Outlook, Google and Apple export them. Needs the extra `ics`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from mainspring.core.values import value
from mainspring.errors import MissingExtra

_NEEDED = frozenset({"dateutil", "icalendar"})


@value()
class IcsCalendar:
    """What a file holds.

    Attributes:
        body: the calendar's definition, as `PUT /api/v1/calendars/{calendar}` takes it.
        events: the events that were read.
        left_out: how many of them hold no time: cancelled ones, and those without a length or before 1970.
        expanded_to: the last date up to which events recur; None if no event goes on after that.
    """

    body: Mapping[str, Any]
    events: int
    left_out: int
    expanded_to: date | None


def read_ics(data: bytes, *, tz: str | None = None, now: datetime, most_days: int) -> IcsCalendar:
    """Read a file. What comes out depends on its events, not on their order.

    Args:
        data: the file, in UTF-8.
        tz: the calendar's zone; None is the one that the file names, or else UTC.
        now: the instant of the import; events recur for some years from there.
        most_days: the most dates that its events may have in all.

    Raises:
        InvalidInput: a line is wrong, or says what a calendar cannot hold. The field is `line N: PROPERTY`.
        MissingExtra: the extra `ics` is not installed here.
    """
    try:
        from mainspring.importers.ics.reading import read
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        raise MissingExtra("ICS files cannot be read", "ics") from None
    return read(data, tz=tz, now=now, most_days=most_days)
