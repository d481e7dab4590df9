"""Jobs whose next fire waits for the end of a run, on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import apsw

from mainspring.core.ends import FiredRun, after_end_of
from mainspring.core.ids import JobId, RunId, job_shard
from mainspring.core.model import JobSpec
from mainspring.core.states import RunState
from mainspring.ports.store.ends import FollowingFire, FollowVerdict
from mainspring.ports.store.nodes import Epochs
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.rows import (
    make_job_id,
    to_json,
    to_micros,
    to_optional_instant,
    values_of_next_fire,
)
from mainspring.stores.sqlite.schedule import find_fenced_shards
from mainspring.stores.sqlite.statements import execute, fetch_row, fetch_value, fetch_values


class SqliteEndStore:
    """Implements `EndStore`."""

    _reader: Database
    _writer: Database

    async def watches_ends(self, shards: Sequence[int]) -> bool:
        """See `EndStore`."""
        values = {"shards": to_json(list(shards))}
        return await self._reader.call(lambda db: fetch_value(db, "find_watched_end", values)) is not None

    async def read_ended(self, shards: Sequence[int], *, limit: int) -> list[JobId]:
        """See `EndStore`."""
        values = {"shards": to_json(list(shards)), "limit": limit}
        found = await self._reader.call(lambda db: fetch_values(db, "read_ended", values))
        return [make_job_id(job_id) for job_id in found]

    async def find_fires(self, fires: Sequence[tuple[JobId, datetime]]) -> list[FiredRun | None]:
        """See `EndStore`."""
        if not fires:
            return []
        return await self._reader.call(
            lambda db: [_find_fire(db, job_id, fire_at) for job_id, fire_at in fires]
        )

    async def follow_ends(
        self, following: Sequence[FollowingFire], *, epochs: Epochs, now: datetime
    ) -> list[FollowVerdict]:
        """See `EndStore`."""
        del now
        if not following:
            return []

        def work(db: apsw.Connection) -> list[FollowVerdict]:
            fenced = find_fenced_shards(db, [one.job_id for one in following], epochs)
            return [
                FollowVerdict.FENCED if job_shard(one.job_id) in fenced else _follow(db, one)
                for one in following
            ]

        return await self._writer.call(work)


def _find_fire(db: apsw.Connection, job_id: JobId, fire_at: datetime) -> FiredRun | None:
    row = fetch_row(db, "find_fire", {"job_id": job_id.bytes, "fire_at": to_micros(fire_at)})
    if row is None:
        return None
    return FiredRun(
        run_id=RunId(row.id), state=RunState(row.state), finished_at=to_optional_instant(row.finished_at)
    )


def _follow(db: apsw.Connection, following: FollowingFire) -> FollowVerdict:
    key = {"job_id": following.job_id.bytes}
    values = {**key, "revision": following.revision, **values_of_next_fire(following.next_fire)}
    if fetch_value(db, "follow_end", values) is None:
        return FollowVerdict.MOVED
    if following.next_fire is None:
        execute(db, "unwatch_ends", key)
    return FollowVerdict.SET


def watch_ends(db: apsw.Connection, job_id: JobId, spec: JobSpec, *, is_new: bool) -> None:
    """Note whether a job's fires wait for the ends of runs."""
    if after_end_of(spec.trigger) is not None:
        execute(db, "watch_ends", {"job_id": job_id.bytes, "shard": job_shard(job_id)})
    elif not is_new:
        execute(db, "unwatch_ends", {"job_id": job_id.bytes})
