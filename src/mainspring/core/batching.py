"""Batches: many runs of one job that are given to one call of its function.

Runs of such a job wait in a line for each key. A line is ready when its first run has waited for as long as the job
says, or when as many runs stand there as one call takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from mainspring.core.ids import JobId
from mainspring.core.values import value

MOST_SIZE = 1000
"""Runs of one call, at most."""
LONGEST_WAIT = timedelta(hours=1)
TAKES_BATCHES = "*batch"
"""A label that the routes of such jobs require, and that workers offer which can give many runs to one call. Users
cannot require it of other jobs, and workers of older releases do not offer it."""


@value(kw_only=True)
class BatchRule:
    """How many runs one call takes.

    Attributes:
        size: the most runs of one call.
        wait: how long the first of them may wait for others.
        key: text, or a path into the payload: only runs with the same value share a call. None: all runs of the job.
    """

    size: int
    wait: timedelta = timedelta(seconds=1)
    key: str | None = None


class LineSize(NamedTuple):
    """What holds for a line. Runs of a job that is no longer batched are taken one by one, at once."""

    size: int = 1
    wait: timedelta = timedelta(0)

    def ready_at(self, head_at: datetime, full_at: datetime | None) -> datetime:
        """Return when a line has a batch, as far as is known.

        Args:
            head_at: since when its first run has been ready.
            full_at: the same of the run that fills a batch; None if there are not so many, or if it does not matter.
        """
        waited_at = head_at + self.wait
        return waited_at if full_at is None else min(waited_at, full_at)


def cut(instants: Sequence[datetime], line: LineSize, most: int, now: datetime) -> list[int]:
    """Cut the ready runs of a line into batches: full ones, and what is left if its first run has waited.

    Args:
        instants: since when each has been ready, the oldest first.
        most: the most batches.

    Returns:
        How many runs each of the batches has. They follow one another from the first run on.
    """
    full, left = divmod(len(instants), line.size)
    sizes = [line.size] * min(full, most)
    if left and full < most and instants[-left] + line.wait <= now:
        sizes.append(left)
    return sizes


def rule_name(job_id: JobId) -> str:
    """Return the name under which a job's batches are kept, as an own limit is."""
    return f"{job_id.hex}:batch"


def number_calls(number: int, groups: Iterable[tuple[object, int]]) -> list[str]:
    """Say which leases of one answer are one call: those with the same text.

    Args:
        number: the number of the claim, which makes the texts of a session differ.
        groups: for each lease what it must have in common with those of its call, and how many these may be.
    """
    calls: dict[object, tuple[int, int]] = {}
    texts, last = [], 0
    for group, size in groups:
        call, taken = calls.get(group, (0, size))
        if taken >= size:
            last += 1
            call, taken = last, 0
        calls[group] = call, taken + 1
        texts.append(f"{number}.{call}")
    return texts
