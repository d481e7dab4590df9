"""Jobs with their clocks, locked within a transaction, and how the clocks are moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from mainspring.core.clocks import ClockMove
from mainspring.core.ids import JobId
from mainspring.ports.codec import encode_outline
from mainspring.ports.store.calendars import Replan
from mainspring.ports.store.jobs import ClockChange, JobEdit
from mainspring.ports.store.schedule import NewFireRange
from mainspring.stores.postgres.connection import Transaction
from mainspring.stores.postgres.rows import columns_of_fire_ranges, columns_of_next_fires


@dataclass(slots=True)
class LockedClock:
    """A job's row and its clock's row, locked. It is updated as the call's changes are decided."""

    tenant: str
    name: str
    version: int
    is_paused: bool
    revision: int
    next_fire_at: datetime | None
    is_deleted: bool = False

    def move(self, move: ClockMove) -> None:
        """Take over what was decided. A later change of this call then meets a revision that it cannot have read."""
        self.is_paused = move.is_paused
        self.next_fire_at = move.next_fire.fire_at if move.next_fire is not None else None
        self.revision = _CHANGED_IN_THIS_CALL


_CHANGED_IN_THIS_CALL = -1

Jobs = dict[JobId, LockedClock]


async def lock_jobs(transaction: Transaction, job_ids: Sequence[JobId]) -> Jobs:
    """Lock jobs and their clocks; what does not exist is left out."""
    rows = await transaction.fetch("lock_jobs", job_ids=sorted(set(job_ids)))
    return {
        row["id"]: LockedClock(
            row["tenant"],
            row["name"],
            row["version"],
            row["is_paused"],
            row["revision"],
            row["next_fire_at"],
        )
        for row in rows
    }


async def set_paused(
    transaction: Transaction,
    done: Sequence[tuple[ClockChange, ClockMove]],
    now: datetime,
    *,
    is_paused: bool,
    note: str | None = None,
) -> None:
    """Note that jobs are paused, and why, or that they are not, and move their clocks."""
    job_ids = [change.job_id for change, _ in done]
    await transaction.execute("set_paused", job_ids=job_ids, is_paused=is_paused, note=note, now=now)
    await move_clocks(transaction, done, now, {})


async def move_clocks(
    transaction: Transaction,
    done: Sequence[tuple[JobEdit | ClockChange | Replan, ClockMove]],
    now: datetime,
    versions: Mapping[JobId, int],
) -> None:
    """Set clocks, raise their revisions, end gaps, and insert the changes' records.

    Args:
        versions: the new versions of edited jobs.
    """
    edits = [change if isinstance(change, JobEdit) else None for change, _ in done]
    await transaction.execute(
        "move_clocks",
        job_ids=[change.job_id for change, _ in done],
        priorities=[None if edit is None else edit.spec.priority for edit in edits],
        run_outlines=[
            None if edit is None else encode_outline(edit.spec, versions[edit.job_id]) for edit in edits
        ],
        are_counted=[not isinstance(change, ClockChange) for change, _ in done],
        fires_left=[None if isinstance(change, ClockChange) else change.fires_left for change, _ in done],
        **columns_of_next_fires([move.next_fire for _, move in done]),
    )
    ending = [change.job_id for change, move in done if move.ends_gap]
    if ending:
        await transaction.execute("drop_empty_gaps", job_ids=ending, now=now)
        await transaction.execute("close_gaps", job_ids=ending, now=now)
    await add_fire_ranges(
        transaction, [fire_range for change, _ in done for fire_range in change.fire_ranges], now
    )


async def add_fire_ranges(
    transaction: Transaction, fire_ranges: Sequence[NewFireRange], now: datetime
) -> None:
    """Insert records of fire times."""
    if fire_ranges:
        await transaction.execute("add_fire_ranges", now=now, **columns_of_fire_ranges(fire_ranges))
