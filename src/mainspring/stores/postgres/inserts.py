"""Inserts runs with their lanes, for submissions, fires and fire ranges."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.admission import OVERLAP
from mainspring.core.applying import CancelVerdict
from mainspring.core.ids import LaneId, RunId, job_shard, make_run_id
from mainspring.core.model import LaneKey
from mainspring.core.overlap import OverlapVerdict, judge_overlap
from mainspring.ports.store.runs import NewRun
from mainspring.ports.store.schedule import FireResult, FireStatus
from mainspring.stores.postgres.connection import Transaction
from mainspring.stores.postgres.keys import hold_keys
from mainspring.stores.postgres.overlap import PlannedRuns, cancel_runs, read_live
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
        ids = await _find_lanes(transaction, wanted)
        while len(ids) < len(wanted):  # some are new, or were pruned between the statements
            await transaction.execute("intern_lanes", **columns_of_lanes(wanted))
            ids = await _find_lanes(transaction, wanted)
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


async def _find_lanes(transaction: Transaction, wanted: Sequence[LaneKey]) -> dict[LaneKey, LaneId]:
    rows = await transaction.fetch("find_lanes", **columns_of_lanes(wanted))
    return {wanted[row["position"] - 1]: LaneId(row["id"]) for row in rows}


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


async def insert_steps(
    transaction: Transaction, lane_ids: LaneIds, runs: Sequence[NewRun], *, now: datetime
) -> None:
    """Insert runs of steps."""
    if not runs:
        return
    lanes = await lane_ids.hold(transaction, [run.lane for run in runs])
    columns = columns_of_runs(runs)
    columns["run_lanes"] = [lanes[run.lane] for run in runs]
    columns |= await hold_keys(transaction, runs)
    places = [run.place for run in runs if run.place is not None]
    await transaction.execute(
        "insert_steps",
        now=now,
        flow_ids=[place.flow_id for place in places],
        steps=[place.step for place in places],
        items=[place.item for place in places],
        **columns,
    )


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
        traces=[run.trace for run, _, _ in runs],
        now=now,
        **columns_of_lanes([run.lane for run, _, _ in runs]),
    )


async def insert_planned(
    transaction: Transaction,
    lane_ids: LaneIds,
    plans: Sequence[PlannedRuns],
    *,
    now: datetime,
) -> list[FireResult]:
    """Insert the runs of fires or of fire ranges' steps, in order, and cancel what has to make way for them."""
    live = await read_live(transaction, plans, now=now)
    decided: list[tuple[NewRun, str | None]] = []
    verdicts: list[OverlapVerdict] = []
    for plan in plans:
        verdict = OverlapVerdict(tuple(run.skip_reason for run in plan.runs))
        if plan.job_id in live and plan.runs:
            fires = [(run.fire_at, run.skip_reason) for run in plan.runs]
            verdict = judge_overlap(plan.overlap, fires, live[plan.job_id])
            if None in verdict.reasons:
                live[plan.job_id] = live[plan.job_id].with_another()
        verdicts.append(verdict)
        decided += zip(plan.runs, verdict.reasons, strict=True)
    in_way = [run_id for verdict in verdicts for run_id in verdict.cancels]
    answers = await cancel_runs(transaction, in_way, reason=OVERLAP, now=now) if in_way else []
    # Some may have ended since they were read.
    ended = {
        one for one, (verdict, _) in zip(in_way, answers, strict=True) if verdict is CancelVerdict.FINISHED
    }
    ids = iter(await insert_decided(transaction, lane_ids, decided, now=now))
    return [
        FireResult(
            FireStatus.FIRED,
            tuple(run_id for reason, run_id in zip(verdict.reasons, ids, strict=False) if reason is None),
            tuple(run_id for run_id in verdict.cancels if run_id not in ended),
        )
        for verdict in verdicts
    ]


async def reserve_ids(transaction: Transaction, runs: Sequence[NewRun]) -> list[RunId]:
    """Reserve ids for runs, in order."""
    rows = await transaction.fetch("reserve_run_ids", count=len(runs))
    return [make_run_id(row["number"], run.shard) for run, row in zip(runs, rows, strict=True)]


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
