"""Reads ICS files beside the event loop, one at a time."""

from __future__ import annotations

import asyncio
from datetime import datetime

from mainspring.config.table import default
from mainspring.importers.ics import IcsCalendar, read_ics


class IcsReader:
    """Reads the ICS files of all requests.

    A file may take a second. It is read in a thread, so that other requests are answered meanwhile, and files wait for
    each other, so that many of them do not take all threads.

    Attributes:
        most_bytes: the most bytes of a file.

    Args:
        most_days: the most dates that the events of a file may have.
    """

    def __init__(self, *, most_bytes: int | None = None, most_days: int | None = None) -> None:
        self.most_bytes: int = default("ics.most_bytes") if most_bytes is None else most_bytes
        self._most_days: int = default("calendars.most_days") if most_days is None else most_days
        self._turn = asyncio.Lock()

    async def read(self, data: bytes, *, tz: str | None, now: datetime) -> IcsCalendar:
        """Read a file.

        Args:
            tz: the calendar's zone; None is the one that the file names.

        Raises:
            InvalidInput: a line is wrong. The field names its number and property.
            MissingExtra: the extra `ics` is not installed here.
        """
        async with self._turn:
            return await asyncio.to_thread(read_ics, data, tz=tz, now=now, most_days=self._most_days)
