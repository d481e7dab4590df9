"""Writes of jobs' clocks that edits, pauses, resumes and new versions of calendars have in common."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import apsw

from mainspring.core.clocks import ClockMove
from mainspring.core.ids import JobId
from mainspring.ports.store.calendars import Replan
from mainspring.ports.store.jobs import ClockChange, JobEdit
from mainspring.stores.sqlite.inserts import insert_fire_ranges
from mainspring.stores.sqlite.rows import values_of_next_fire
from mainspring.stores.sqlite.statements import execute

_UNEDITED: Mapping[str, int | str | None] = MappingProxyType({"priority": None, "run_outline": None})


def set_paused(db: apsw.Connection, job_id: JobId, *, is_paused: bool, note: str | None, now: int) -> None:
    """Note that a job is paused, and why, or that it is not."""
    values = {"job_id": job_id.bytes, "is_paused": is_paused, "note": note, "now": now}
    execute(db, "set_paused", values)


def move_clock(
    db: apsw.Connection,
    change: JobEdit | ClockChange | Replan,
    move: ClockMove,
    now: int,
    edited: Mapping[str, int | str | None] = _UNEDITED,
) -> None:
    """Set a clock, raise its revision, end its gap, and insert the change's records.

    Args:
        edited: of a new version, the priority and the outline of runs.
    """
    job_id = change.job_id.bytes
    count = {
        "is_counted": not isinstance(change, ClockChange),
        "fires_left": None if isinstance(change, ClockChange) else change.fires_left,
    }
    execute(db, "move_clock", {"job_id": job_id, **edited, **count, **values_of_next_fire(move.next_fire)})
    if move.ends_gap:
        execute(db, "drop_empty_gap", {"job_id": job_id, "now": now})
        execute(db, "close_gap", {"job_id": job_id, "now": now})
    insert_fire_ranges(db, change.fire_ranges, now)
