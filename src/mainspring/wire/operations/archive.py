"""The operation that says what the archive has."""

from __future__ import annotations

from mainspring.core.rights import Right
from mainspring.wire.archive import ArchivePage
from mainspring.wire.operation import Operation, Parameter
from mainspring.wire.operations.common import API, LIMIT

LIST_ARCHIVE_DAYS = Operation(
    id="list_archive_days",
    method="GET",
    path=f"{API}/archive/days",
    right=Right.ADMIN,
    summary="List the days in the archive",
    description="Return a page of the days of the history that were written into the archive, of all tenants, the"
    " newest first.",
    query=(LIMIT, Parameter("before", "Only days before this one: the `next` of the previous page.")),
    answer=ArchivePage,
)
