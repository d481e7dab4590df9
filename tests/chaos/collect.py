"""From what the harness wrote down and what the product's own store says at the end to a `History` for the judge."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import apsw
import asyncpg

from mainspring.core.ids import DEFAULT_TENANT, JobId, RunId
from mainspring.core.model import Attempt, FireRange, JobSpec, Run
from mainspring.ports.store import Store
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.sqlite import SqliteStore
from tests.chaos.client import Log, Noted, Windows, host_now
from tools.judge import Change, Effect, History
from tools.judge.oracle import ClosedFires
from tools.simulator.faults import margin

SLACK = timedelta(milliseconds=50)
"""The product's clock is this host's, read to the millisecond and carried on by a monotonic one."""
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class FinalRead:
    """What the store holds when all is over."""

    runs: list[Run]
    attempts: dict[RunId, list[Attempt]]
    fire_ranges: list[FireRange]
    specs: dict[tuple[JobId, int], JobSpec]
    read_at: datetime


async def read_sqlite(path: Path, noted: Iterable[Noted]) -> FinalRead:
    """Open the file that the product has let go of with the product's own store, and read all of it."""
    store = SqliteStore(path)
    await store.open()
    try:
        return await _read_store(store, noted, attempted=None)
    finally:
        await store.close()


async def read_postgres(dsn: str, noted: Iterable[Noted]) -> FinalRead:
    """Read all of a database with the product's own store."""
    connection = await asyncpg.connect(dsn)
    try:
        attempted = {row["run_id"] for row in await connection.fetch("SELECT DISTINCT run_id FROM attempt")}
    finally:
        await connection.close()
    store = PostgresStore(dsn, random=Random(1))
    await store.open()
    try:
        return await _read_store(store, noted, attempted=attempted)
    finally:
        await store.close()


async def _read_store(
    store: Store, noted: Iterable[Noted], *, attempted: Collection[int] | None
) -> FinalRead:
    """Read all; attempts only of those runs that have any on record, where these are known."""
    read_at = host_now()
    runs: list[Run] = []
    while page := await store.list_runs(DEFAULT_TENANT, before=runs[-1].id if runs else None, limit=_PAGE):
        runs += page
    having = [run.id for run in runs if attempted is None or run.id in attempted]
    attempts = {run_id: await store.list_attempts(run_id) for run_id in having}
    keys = sorted({(change.job_id, change.version) for change in noted})
    specs = [
        spec
        for start in range(0, len(keys), _PAGE)
        for spec in await store.read_versions(keys[start : start + _PAGE])
    ]
    fire_ranges = [
        fire_range
        for job_id in sorted({job_id for job_id, _ in keys})
        for fire_range in await store.list_fire_ranges(job_id, limit=100_000)
    ]
    return FinalRead(
        runs=sorted(runs, key=lambda run: run.id),
        attempts=attempts,
        fire_ranges=fire_ranges,
        specs={key: spec for key, spec in zip(keys, specs, strict=True) if spec is not None},
        read_at=read_at,
    )


def make_history(
    log: Log, effects: Sequence[Effect], final: FinalRead, *, beat_period: float, slots: int
) -> History:
    """Put a history together; transitions and rights are not recorded, so rules about those are not judged."""
    return History(
        changes=make_changes(log.changes, final.specs),
        operations=log.operations,
        effects=list(effects),
        faults=sorted(log.faults, key=lambda fault: fault.at),
        runs=[with_token_as_result(run, final.specs) for run in final.runs],
        attempts=final.attempts,
        fire_ranges=final.fire_ranges,
        read_at=final.read_at,
        healed_at=max((fault.until for fault in log.faults), default=final.read_at),
        slack=SLACK,
        lease=margin(beat_period),
        slots=slots,
    )


def make_changes(noted: Iterable[Noted], specs: Mapping[tuple[JobId, int], JobSpec]) -> list[Change]:
    """Give every noted change the definition that the store kept, and when the job's calendar keeps fires out.

    Raises:
        KeyError: the store has lost a version that a client was told of.
    """
    windows: dict[JobId, Windows] = {}
    changes = []
    for item in noted:
        spec = specs[item.job_id, item.version]
        if item.windows is not None:
            windows[item.job_id] = item.windows
        if spec.trigger is not None and item.job_id in windows:
            spec = replace(spec, trigger=ClosedFires(spec.trigger, windows[item.job_id]))
        change = Change(
            job_id=item.job_id,
            kind=item.kind,
            at=item.at,
            until=item.until,
            version=item.version,
            spec=spec,
            is_by_itself=item.is_by_itself,
        )
        changes.append(change)
    return changes


def with_token_as_result(run: Run, specs: Mapping[tuple[JobId, int], JobSpec]) -> Run:
    """Return the run with the token that its attempt said as its result: commands and callbacks say it as output."""
    spec = specs.get((run.job_id, run.version))
    if spec is None or spec.target.type == "function":
        return run
    return replace(run, result=run.output.strip().encode() if run.output is not None else None)


def check_integrity(path: Path) -> str:
    """Return what SQLite says of the file.

    By the copy of SQLite that the product has: one that another copy closes loses the locks of this whole process.
    """
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.set_busy_timeout(5000)
        (answer,) = next(iter(connection.execute("PRAGMA integrity_check")))
    return str(answer)
