"""What the archive has."""

from __future__ import annotations

import re
from datetime import date

from mainspring.api.call import Call, Endpoint, handles
from mainspring.errors import InvalidInput
from mainspring.wire import operations
from mainspring.wire.archive import ArchivePage, view_archive_day

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


@handles(operations.LIST_ARCHIVE_DAYS)
async def list_archive_days(call: Call) -> ArchivePage:
    limit: int = call.query["limit"]
    before = _read_day(call.query["before"]) if "before" in call.query else None
    days = await call.engine.archive.list_page(before=before, limit=limit)
    following = days[-1].day.isoformat() if len(days) == limit else None
    return ArchivePage([view_archive_day(day) for day in days], following)


def _read_day(text: str) -> date:
    try:
        if _DAY.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise InvalidInput("before", f"{text[:60]!r} is no day like 2026-01-31")


ROUTES: list[Endpoint] = [list_archive_days]
