"""Fires and fire ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from mainspring.core.ids import JobId, RunId, SpanId
from mainspring.core.model import Span, SpanKind
from mainspring.core.values import value
from mainspring.ports.store.nodes import Epochs
from mainspring.ports.store.runs import NewRun


class ScheduleStore(Protocol):
    """Fires and spans."""

    async def read_due(
        self, shards: Sequence[int], *, until: datetime, limit: int, since: datetime | None = None
    ) -> list[DueClock]:
        """Return clocks of these shards with `since <= next_fire_at <= until`, the earliest first.

        Args:
            since: None is from the beginning on, past all entries of clocks that have moved on.
        """
        ...

    async def record_fires(self, fires: Sequence[Fire], *, epochs: Epochs, now: datetime) -> list[FireResult]:
        """Win fires and insert what they bring about (law 2): runs, skipped runs, spans.

        A fire takes effect only where the clock row matches id, revision and `fire_at` and lies before it in
        `fired_through`; else it is `LOST`. `FENCED` where the shard's epoch is not the given one (law 3; the shard
        rows are held FOR SHARE). With `skip_if_live`, runs of a job that has a live run become SKIPPED records with
        reason `overlap`. At most one fire per job in a call.
        """
        ...

    async def add_spans(self, spans: Sequence[NewSpan], *, now: datetime) -> None:
        """Insert spans (backfill)."""
        ...

    async def read_spans(self, shards: Sequence[int], *, limit: int) -> list[Span]:
        """Return open catch-up and backfill spans of existing jobs that are not paused, the oldest first."""
        ...

    async def advance_spans(
        self, steps: Sequence[SpanStep], *, epochs: Epochs, now: datetime
    ) -> list[FireResult]:
        """Move a span's cursor and insert the runs it passed; `LOST` unless the cursor is still where it was.

        Locks the job's clock row first, so that overlap is judged once. Fenced like `record_fires`.
        """
        ...

    async def list_spans(self, job_id: JobId, *, limit: int = 100) -> list[Span]:
        """Return a job's spans, the newest first."""
        ...


@value(kw_only=True)
class DueClock:
    """A clock row whose instant is near or past."""

    job_id: JobId
    tenant: str
    version: int
    revision: int
    fire_at: datetime
    fired_through: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSpan:
    """A span to insert; `to_at` None is open-ended (a pause that lasts)."""

    job_id: JobId
    version: int
    kind: SpanKind
    from_at: datetime
    to_at: datetime | None
    reason: str


@value(kw_only=True)
class Fire:
    """A planned fire of one job.

    Attributes:
        fire_at: the `next_fire_at` that the plan was made from.
        next_fire_at: the following one; None when the trigger is exhausted.
        fired_through: the newest instant that this fire accounts for.
        runs: runs to insert, those with a `skip_reason` as SKIPPED records.
        spans: stretches that this fire accounts for otherwise.
        skip_if_live: overlap policy skip.
    """

    job_id: JobId
    revision: int
    fire_at: datetime
    next_fire_at: datetime | None
    fired_through: datetime
    runs: tuple[NewRun, ...] = ()
    spans: tuple[NewSpan, ...] = ()
    skip_if_live: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanStep:
    """One step of draining a span; `cursor_from` is the cursor that was read (None: at the start)."""

    span_id: SpanId
    job_id: JobId
    cursor_from: datetime | None
    cursor_to: datetime
    runs: tuple[NewRun, ...]
    is_done: bool
    skip_if_live: bool = False


class FireStatus(StrEnum):
    """What became of a fire or a span's step."""

    FIRED = "fired"
    LOST = "lost"
    FENCED = "fenced"


@value()
class FireResult:
    """What became of a fire, and the ids of the runs that went live (not of skipped ones)."""

    status: FireStatus
    run_ids: tuple[RunId, ...] = ()
