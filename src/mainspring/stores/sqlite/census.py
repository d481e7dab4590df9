"""How many runs there are: live ones counted, ended ones by the tally and what ended since."""

from __future__ import annotations

from datetime import datetime

import apsw

from mainspring.core.census import Census, DeadLine, EndedLine, LiveLine, add_up
from mainspring.core.states import RunState
from mainspring.ports.store.census import MOST_OVERDUE, Counted
from mainspring.ports.store.nodes import Epochs
from mainspring.stores._sql.census import decode_census, encode_census
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.nodes import owns_shard_0
from mainspring.stores.sqlite.rows import to_instant, to_micros
from mainspring.stores.sqlite.statements import execute, fetch_rows, fetch_value

SETTLED_TOGETHER = 5_000
"""How many ends one transaction adds to the tally, about: it holds up other writes for some milliseconds."""


class SqliteCensusStore:
    """Implements `CensusStore`."""

    _browser: Database
    _reader: Database
    _writer: Database

    async def count_runs(self, tenant: str) -> dict[RunState, int]:
        """See `CensusStore`."""
        counted = await self.count_lines(tenant)
        return add_up([*counted.live, *counted.ended])

    async def count_lines(self, tenant: str) -> Counted:
        """See `CensusStore`."""
        return await self._browser.call(lambda db: _count(db, tenant))

    async def count_all_runs(self, *, overdue_before: datetime) -> Counted:
        """See `CensusStore`."""
        return await self._browser.call(lambda db: _count(db, None, to_micros(overdue_before)))

    async def settle_ends(self, *, before: datetime, epochs: Epochs) -> bool:
        """See `CensusStore`."""

        def work(db: apsw.Connection) -> bool:
            if not owns_shard_0(db, epochs):
                return False
            since: int = fetch_value(db, "read_settled")
            until = to_micros(before)
            # Whole instants at a time: more than these share the last one only after a bulk of ends.
            values = {"since": since, "until": until, "skipped": SETTLED_TOGETHER}
            end: int | None = fetch_value(db, "find_settling_end", values)
            is_more = end is not None and since < end
            upto = end if end is not None and is_more else until
            if upto <= since:
                return False
            execute(db, "settle_ends", {"since": since, "until": upto})
            execute(db, "settle_dead_ends", {"since": since, "until": upto})
            execute(db, "move_settled", {"until": upto})
            return is_more

        return await self._writer.call(work)

    async def put_census(self, census: Census, *, epochs: Epochs) -> bool:
        """See `CensusStore`."""

        def work(db: apsw.Connection) -> bool:
            if not owns_shard_0(db, epochs):
                return False
            execute(db, "put_census", {"body": encode_census(census)})
            return True

        return await self._writer.call(work)

    async def read_census(self) -> Census | None:
        """See `CensusStore`."""
        body: str | None = await self._reader.call(lambda db: fetch_value(db, "read_census"))
        return None if body is None else decode_census(body)


def _count(db: apsw.Connection, tenant: str | None, overdue_before: int | None = None) -> Counted:
    """Count the runs of a tenant, or of all, in one snapshot, and on request the clocks that are overdue."""
    overdue = 0
    with db:
        since: int = fetch_value(db, "read_settled")
        live = fetch_rows(db, "count_live", {"tenant": tenant})
        ended = fetch_rows(db, "count_ended", {"tenant": tenant, "since": since})
        dead = fetch_rows(db, "count_open_dead", {"tenant": tenant})
        if overdue_before is not None:
            [late] = fetch_rows(db, "count_overdue", {"before": overdue_before, "limit": MOST_OVERDUE})
            overdue = late.fires
    return Counted(
        [
            LiveLine(row.tenant, row.queue, RunState(row.state), row.runs, to_instant(row.earliest_ready_at))
            for row in live
        ],
        [EndedLine(row.tenant, RunState(row.state), row.runs) for row in ended],
        [DeadLine(row.tenant, row.queue, row.letters) for row in dead],
        overdue,
    )
