"""Decides when a job has failed so often in a row that it is paused."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

PAUSED = "paused"
"""The reason of the gap of a job that a user paused."""
FAILURES = "failures"
"""The reason of the gap of a job that was paused because its runs failed."""
PAUSES = (PAUSED, FAILURES)
MOST_FAILURES = 100
"""The most failed runs in a row that a job may wait for."""


def has_failed_in_a_row(
    threshold: int, failed_at: Sequence[datetime], *, has_succeeded: bool, since: datetime
) -> bool:
    """Say whether a job's newest ended runs have all failed.

    Runs that were skipped or cancelled do not count: they say nothing about the job.

    Args:
        threshold: how many failed runs it takes.
        failed_at: when the newest runs that FAILED did so, by the order in which they were made; at most `threshold`.
        has_succeeded: a run has SUCCEEDED that was made after the first of these.
        since: when the job was last edited, paused or resumed. What failed before does not count.
    """
    return len(failed_at) >= threshold and min(failed_at) > since and not has_succeeded


def pause_note(threshold: int) -> str:
    """Return why the job is paused, for its users."""
    return "its last run failed" if threshold == 1 else f"its last {threshold} runs failed"


def gap_reason(note: str | None) -> str:
    """Return the reason of the gap of a paused job."""
    return PAUSED if note is None else FAILURES
