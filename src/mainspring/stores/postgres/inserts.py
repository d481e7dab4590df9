"""Inserts runs with their lanes, for submissions, fires and fire ranges."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.admission import skip_overlaps
from mainspring.core.ids import LaneId, RunId, job_shard, make_run_id
from mainspring.core.model import LaneKey
from mainspring.ports.store.runs import NewRun
from mainspring.stores.postgres.connection import Transaction
from mainspring.stores.postgres.keys import hold_keys
from mainspring.stores.postgres.rows import columns_of_lanes, columns_of_runs

_REMEMBERED = 100_000
"""The most lanes whose ids are kept in memory."""


class LaneIds:
    """The ids of interned lanes, as last seen. `hold` verifies them."""

    def __init__(self) -> None:
        self._ids: dict[LaneKey, LaneId] = {}

    def recall(self, keys: Sequence[LaneKey]) -> list[LaneId] | None:
        """Return the lanes' ids, or None unless all are known. The lanes may have been pruned since."""
        ids = [self._ids.get(key) for key in keys]
        found = [lane_id for lane_id in ids if lane_id is not None]
        return found if len(found) == len(ids) else None

    async def hold(self, transaction: Transaction, keys: Sequence[LaneKey]) -> dict[LaneKey, LaneId]:
        """Intern lanes, and keep them from being pruned until the transaction ends."""
        wanted = sorted(set(keys), key=_order)
        known = self.recall(wanted)
        if known is not None:
            held = await transaction.fetch("hold_lanes", lane_ids=sorted(known))
            if len(held) == len(wanted):
                return dict(zip(wanted, known, strict=True))
        while True:
            await transaction.execute("intern_lanes", **columns_of_lanes(wanted))
            rows = await transaction.fetch("find_lanes", **columns_of_lanes(wanted))
            if len(rows) == len(wanted):  # otherwise one was pruned between the two statements
                break
        ids = {wanted[row["position"] - 1]: LaneId(row["id"]) for row in rows}
        self.remember(ids)
        return ids

    def remember(self, ids: dict[LaneKey, LaneId]) -> None:
        """Remember what a transaction found.

        If it is rolled back, `hold` notices that the ids are gone, and looks again.
        """
        if len(self._ids) > _REMEMBERED:
            self._ids.clear()
        self._ids.update(ids)

    def clear(self) -> None:
        """Forget all lanes."""
        self._ids.clear()


def _order(key: LaneKey) -> tuple[str, str, str, int]:
    return key.queue, key.route, key.tenant, key.priority


async def _insert_runs(
    transaction: Transaction,
    lane_ids: LaneIds,
    runs: Sequence[NewRun],
    *,
    now: datetime,
    run_ids: Sequence[RunId] | None = None,
) -> list[RunId]:
    """Insert live runs, with reserved ids or new ones from the sequence. Return their ids in order."""
    if not runs:
        return []
    lanes = await lane_ids.hold(transaction, [run.lane for run in runs])
    columns = columns_of_runs(runs)
    columns["run_ids"] = [] if run_ids is None else run_ids
    columns["run_lanes"] = [lanes[run.lane] for run in runs]
    if any(run.keys for run in runs):
        columns |= await hold_keys(transaction, runs)
        rows = await transaction.fetch("insert_lined_up", now=now, **columns)
    else:
        rows = await transaction.fetch("insert_runs", now=now, **columns)
    return [RunId(row["id"]) for row in rows]


async def _insert_skipped(
    transaction: Transaction, runs: Sequence[tuple[NewRun, str, RunId]], *, now: datetime
) -> None:
    if not runs:
        return
    await transaction.execute(
        "insert_skipped",
        run_ids=[run_id for _, _, run_id in runs],
        shards=[job_shard(run.job_id) for run, _, _ in runs],
        job_ids=[run.job_id for run, _, _ in runs],
        versions=[run.version for run, _, _ in runs],
        kinds=[run.kind for run, _, _ in runs],
        reasons=[reason for _, reason, _ in runs],
        fires_at=[run.fire_at for run, _, _ in runs],
        dues_at=[run.due_at for run, _, _ in runs],
        payloads=[run.payload for run, _, _ in runs],
        target_keys=[run.target_key for run, _, _ in runs],
        fire_range_ids=[run.fire_range_id for run, _, _ in runs],
        now=now,
        **columns_of_lanes([run.lane for run, _, _ in runs]),
    )


async def insert_planned(
    transaction: Transaction,
    lane_ids: LaneIds,
    plans: Sequence[tuple[Sequence[NewRun], bool]],
    *,
    now: datetime,
) -> list[tuple[RunId, ...]]:
    """Insert the runs of fires or of fire ranges' steps, in order.

    Args:
        plans: for each fire or step its runs, and whether they are skipped while the job has a live run. If so, all
            runs are of one job.

    Returns:
        For each plan the ids of the runs that went live.
    """
    asking = sorted({run.job_id for runs, skip_if_live in plans if skip_if_live for run in runs})
    busy = (
        {row["id"] for row in await transaction.fetch("find_busy_jobs", job_ids=asking)} if asking else set()
    )
    decided: list[tuple[NewRun, str | None]] = []
    for runs, skip_if_live in plans:
        reasons = [run.skip_reason for run in runs]
        if skip_if_live:
            reasons = skip_overlaps(reasons, is_live=bool(runs) and runs[0].job_id in busy)
        busy.update(run.job_id for run, reason in zip(runs, reasons, strict=True) if reason is None)
        decided += zip(runs, reasons, strict=True)
    ids = iter(await insert_decided(transaction, lane_ids, decided, now=now))
    kept = iter(reason for _, reason in decided)
    return [
        tuple(run_id for _, run_id, reason in zip(runs, ids, kept, strict=False) if reason is None)
        for runs, _ in plans
    ]


async def reserve_ids(transaction: Transaction, runs: Sequence[NewRun]) -> list[RunId]:
    """Reserve ids for runs, in order."""
    rows = await transaction.fetch("reserve_run_ids", count=len(runs))
    return [make_run_id(row["number"], job_shard(run.job_id)) for run, row in zip(runs, rows, strict=True)]


async def insert_decided(
    transaction: Transaction,
    lane_ids: LaneIds,
    runs: Sequence[tuple[NewRun, str | None]],
    *,
    now: datetime,
    run_ids: Sequence[RunId] | None = None,
) -> list[RunId]:
    """Insert runs, those with a reason as SKIPPED records. Return their ids in order."""
    if run_ids is None:
        if all(reason is None for _, reason in runs):
            return await _insert_runs(transaction, lane_ids, [run for run, _ in runs], now=now)
        run_ids = await reserve_ids(transaction, [run for run, _ in runs])
    live = [(run, run_id) for (run, reason), run_id in zip(runs, run_ids, strict=True) if reason is None]
    await _insert_runs(
        transaction, lane_ids, [run for run, _ in live], now=now, run_ids=[run_id for _, run_id in live]
    )
    skipped = [
        (run, reason, run_id)
        for (run, reason), run_id in zip(runs, run_ids, strict=True)
        if reason is not None
    ]
    await _insert_skipped(transaction, skipped, now=now)
    return list(run_ids)
