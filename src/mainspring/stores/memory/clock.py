"""Fires and spans."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice

from mainspring.core.ids import JobId, job_shard
from mainspring.core.model import Span, SpanKind
from mainspring.ports.store.nodes import Epochs
from mainspring.ports.store.schedule import DueClock, Fire, FireResult, FireStatus, NewSpan, SpanStep
from mainspring.stores.memory.tables import Tables

_LOST = FireResult(FireStatus.LOST)
_FENCED = FireResult(FireStatus.FENCED)


class ClockVerbs:
    """`ScheduleStore` in memory."""

    _tables: Tables

    async def read_due(
        self, shards: Sequence[int], *, until: datetime, limit: int, since: datetime | None = None
    ) -> list[DueClock]:
        tables = self._tables
        wanted = frozenset(shards)
        found: list[DueClock] = []
        for fire_at, uuid in tables.due:
            if fire_at > until or len(found) >= limit:
                break
            job = tables.jobs[JobId(uuid)]
            if job_shard(job.id) in wanted and (since is None or fire_at >= since):
                due = DueClock(
                    job_id=job.id,
                    tenant=job.tenant,
                    version=job.version,
                    revision=job.revision,
                    fire_at=fire_at,
                    fired_through=job.fired_through,
                )
                found.append(due)
        return found

    async def record_fires(self, fires: Sequence[Fire], *, epochs: Epochs, now: datetime) -> list[FireResult]:
        return [self._record_fire(fire, epochs, now) for fire in fires]

    def _record_fire(self, fire: Fire, epochs: Epochs, now: datetime) -> FireResult:
        tables = self._tables
        if tables.is_fenced(fire.job_id, epochs):
            return _FENCED
        job = tables.jobs.get(fire.job_id)
        if job is None or job.revision != fire.revision or job.next_fire_at != fire.fire_at:
            return _LOST
        if job.fired_through is not None and job.fired_through >= fire.fire_at:
            return _LOST
        tables.set_next_fire(job, fire.next_fire_at)
        job.fired_through = fire.fired_through
        for span in fire.spans:
            tables.add_span(span, now=now)
        run_ids = tables.insert_planned(fire.runs, skip_if_live=fire.skip_if_live, now=now)
        return FireResult(FireStatus.FIRED, run_ids)

    async def add_spans(self, spans: Sequence[NewSpan], *, now: datetime) -> None:
        for span in spans:
            self._tables.add_span(span, now=now)

    async def read_spans(self, shards: Sequence[int], *, limit: int) -> list[Span]:
        wanted = frozenset(shards)
        jobs = self._tables.jobs
        found = (
            span.view()
            for span in self._tables.open_spans.values()
            if span.kind is not SpanKind.GAP
            and span.shard in wanted
            and span.job_id in jobs
            and not jobs[span.job_id].is_paused
        )
        return list(islice(found, limit))

    async def advance_spans(
        self, steps: Sequence[SpanStep], *, epochs: Epochs, now: datetime
    ) -> list[FireResult]:
        return [self._advance_span(step, epochs, now) for step in steps]

    def _advance_span(self, step: SpanStep, epochs: Epochs, now: datetime) -> FireResult:
        tables = self._tables
        if tables.is_fenced(step.job_id, epochs):
            return _FENCED
        job = tables.jobs.get(step.job_id)
        span = tables.open_spans.get(step.span_id)
        if job is None or job.is_paused or span is None or span.cursor_at != step.cursor_from:
            return _LOST
        span.cursor_at = step.cursor_to
        if step.is_done:
            tables.close_span(span, now=now)
        return FireResult(
            FireStatus.FIRED, tables.insert_planned(step.runs, skip_if_live=step.skip_if_live, now=now)
        )

    async def list_spans(self, job_id: JobId, *, limit: int = 100) -> list[Span]:
        spans = self._tables.spans_of_job.get(job_id, [])
        return [span.view() for span in islice(reversed(spans), limit)]
