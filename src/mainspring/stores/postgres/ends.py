"""Jobs whose next fire waits for the end of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from mainspring.core.ends import FiredRun, after_end_of
from mainspring.core.ids import JobId, RunId, job_shard
from mainspring.core.model import JobSpec
from mainspring.core.states import RunState
from mainspring.ports.store.ends import FollowingFire, FollowVerdict
from mainspring.ports.store.nodes import Epochs
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.rows import columns_of_next_fires
from mainspring.stores.postgres.schedule import hold_shards


class PostgresEndStore:
    """`EndStore` on PostgreSQL."""

    _connections: Connections

    async def watches_ends(self, shards: Sequence[int]) -> bool:
        if not shards:
            return False
        found = await self._connections.fetch(
            Role.WATCH, "find_watched_end", is_repeatable=True, shards=shards
        )
        return bool(found)

    async def read_ended(self, shards: Sequence[int], *, limit: int) -> list[JobId]:
        if not shards:
            return []
        rows = await self._connections.fetch(
            Role.WATCH, "read_ended", is_repeatable=True, shards=shards, limit=limit
        )
        return [row["job_id"] for row in rows]

    async def find_fires(self, fires: Sequence[tuple[JobId, datetime]]) -> list[FiredRun | None]:
        if not fires:
            return []
        job_ids, fires_at = zip(*fires, strict=True)
        rows = await self._connections.fetch(
            Role.WATCH, "find_fires", is_repeatable=True, job_ids=job_ids, fires_at=fires_at
        )
        found = {
            (row["job_id"], row["fire_at"]): FiredRun(
                run_id=RunId(row["id"]), state=RunState(row["state"]), finished_at=row["finished_at"]
            )
            for row in rows
        }
        return [found.get(fire) for fire in fires]

    async def follow_ends(
        self, following: Sequence[FollowingFire], *, epochs: Epochs, now: datetime
    ) -> list[FollowVerdict]:
        del now
        if not following:
            return []

        async def work(transaction: Transaction) -> list[FollowVerdict]:
            owned = await hold_shards(transaction, (one.job_id for one in following), epochs)
            allowed = [one for one in following if job_shard(one.job_id) in owned]
            are_set = await _set_clocks(transaction, sorted(allowed, key=lambda one: one.job_id))
            return [
                FollowVerdict.FENCED
                if job_shard(one.job_id) not in owned
                else FollowVerdict.SET
                if one.job_id in are_set
                else FollowVerdict.MOVED
                for one in following
            ]

        return await self._connections.transact(Role.FIRE, work)


async def _set_clocks(transaction: Transaction, following: Sequence[FollowingFire]) -> set[JobId]:
    """Set the clocks that have not moved, and return their jobs. Those without a next fire are watched no more."""
    if not following:
        return set()
    job_ids = [one.job_id for one in following]
    await transaction.fetch("lock_clocks", job_ids=job_ids)
    rows = await transaction.fetch(
        "follow_ends",
        job_ids=job_ids,
        revisions=[one.revision for one in following],
        **columns_of_next_fires([one.next_fire for one in following]),
    )
    are_set = {row["job_id"] for row in rows}
    over = [one.job_id for one in following if one.next_fire is None and one.job_id in are_set]
    if over:
        await transaction.execute("unwatch_ends", job_ids=over)
    return are_set


async def watch_ends(transaction: Transaction, specs: Mapping[JobId, JobSpec], *, are_new: bool) -> None:
    """Note which jobs' fires wait for the ends of runs."""
    waiting = [job_id for job_id, spec in sorted(specs.items()) if after_end_of(spec.trigger) is not None]
    if waiting:
        shards = [job_shard(job_id) for job_id in waiting]
        await transaction.execute("watch_ends", job_ids=waiting, shards=shards)
    if not are_new and (others := sorted(specs.keys() - set(waiting))):
        await transaction.execute("unwatch_ends", job_ids=others)
