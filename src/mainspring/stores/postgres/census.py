"""How many runs there are: live ones counted, ended ones by the tally and what ended since."""

from __future__ import annotations

from datetime import datetime

from mainspring.core.census import Census, DeadLine, EndedLine, LiveLine, add_up
from mainspring.core.states import RunState
from mainspring.ports.store.census import MOST_OVERDUE, Counted
from mainspring.ports.store.nodes import Epochs
from mainspring.stores._sql.census import decode_census, encode_census
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.nodes import holds_shard_0


class PostgresCensusStore:
    """`CensusStore` on PostgreSQL."""

    _connections: Connections

    async def count_runs(self, tenant: str) -> dict[RunState, int]:
        counted = await self.count_lines(tenant)
        return add_up([*counted.live, *counted.ended])

    async def count_lines(self, tenant: str) -> Counted:
        return await self._count(Role.BROWSE, tenant)

    async def count_all_runs(self, *, overdue_before: datetime) -> Counted:
        return await self._count(Role.UPKEEP, None, overdue_before)

    async def _count(self, role: Role, tenant: str | None, overdue_before: datetime | None = None) -> Counted:
        """Count the runs of a tenant, or of all, in one snapshot, and on request the clocks that are overdue."""

        async def work(transaction: Transaction) -> Counted:
            await transaction.execute("keep_snapshot")
            [mark] = await transaction.fetch("read_settled")
            live = await transaction.fetch("count_live", tenant=tenant)
            ended = await transaction.fetch("count_ended", tenant=tenant, since=mark["settled_before"])
            dead = await transaction.fetch("count_open_dead", tenant=tenant)
            overdue = 0
            if overdue_before is not None:
                [late] = await transaction.fetch("count_overdue", before=overdue_before, limit=MOST_OVERDUE)
                overdue = late["fires"]
            return Counted(
                [
                    LiveLine(
                        row["tenant"],
                        row["queue"],
                        RunState(row["state"]),
                        row["runs"],
                        row["earliest_ready_at"],
                    )
                    for row in live
                ],
                [EndedLine(row["tenant"], RunState(row["state"]), row["runs"]) for row in ended],
                [DeadLine(row["tenant"], row["queue"], row["letters"]) for row in dead],
                overdue,
            )

        return await self._connections.transact(role, work, is_repeatable=True)

    async def settle_ends(self, *, before: datetime, epochs: Epochs) -> bool:
        """See `CensusStore`. One transaction adds everything."""

        async def work(transaction: Transaction) -> None:
            if not await holds_shard_0(transaction, epochs):
                return
            # The lock comes first, so that the next statement sees what a janitor removed just before.
            [mark] = await transaction.fetch("lock_settled")
            if mark["settled_before"] < before:
                values = {"since": mark["settled_before"], "until": before}
                await transaction.execute("settle_ends", **values)
                await transaction.execute("move_settled", until=before)

        await self._connections.transact(Role.UPKEEP, work, is_repeatable=True)
        return False

    async def put_census(self, census: Census, *, epochs: Epochs) -> bool:
        async def work(transaction: Transaction) -> bool:
            if not await holds_shard_0(transaction, epochs):
                return False
            await transaction.execute("put_census", body=encode_census(census))
            return True

        return await self._connections.transact(Role.UPKEEP, work, is_repeatable=True)

    async def read_census(self) -> Census | None:
        [row] = await self._connections.fetch(Role.BROWSE, "read_census", is_repeatable=True)
        return None if row["body"] is None else decode_census(row["body"])
