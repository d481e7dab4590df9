"""Drains catch-up and backfill spans at a bounded rate, so that old work never delays on-time fires (design 5)."""

from __future__ import annotations

from datetime import datetime
from itertools import islice

from mainspring.core.ids import job_shard
from mainspring.core.model import JobSpec, Overlap, RunKind, Span, SpanKind
from mainspring.core.planning import walk_stretch
from mainspring.engine.common.definitions import Definitions
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.engine.scheduling.run_factory import make_caught_up_run
from mainspring.ports.clock import Waiter
from mainspring.ports.store import Store
from mainspring.ports.store.schedule import FireStatus, SpanStep

PERIOD = 0.5
SPANS_PER_TICK = 50
RUNS_PER_TICK = 500
"""With `PERIOD`: at most a thousand caught-up runs a second for each node."""


class SpanDrain:
    """Turns the fires of open spans into runs, a bounded step at a time, fairly among spans."""

    name = "spans"

    def __init__(
        self,
        store: Store,
        *,
        ownership: Ownership,
        wakeups: Wakeups,
        waiter: Waiter,
        definitions: Definitions | None = None,
    ) -> None:
        self._store = store
        self._ownership = ownership
        self._wakeups = wakeups
        self._definitions = definitions or Definitions(store)
        self.waiter = waiter

    async def tick(self, now: datetime) -> float:
        """Advance every open span by its share."""
        epochs = self._ownership.epochs
        if not epochs:
            return PERIOD
        spans = await self._store.read_spans(sorted(epochs), limit=SPANS_PER_TICK)
        if not spans:
            return PERIOD
        specs = await self._definitions.load((span.job_id, span.version) for span in spans)
        share = max(RUNS_PER_TICK // len(spans), 1)
        steps = [
            make_step(span, specs[span.job_id, span.version], share, now)
            for span in spans
            if (span.job_id, span.version) in specs
        ]
        results = await self._store.advance_spans(steps, epochs=epochs, now=now)
        fenced = {
            job_shard(step.job_id)
            for step, result in zip(steps, results, strict=True)
            if result.status is FireStatus.FENCED
        }
        if fenced:
            self._ownership.fence(fenced, used=epochs)
        if any(result.run_ids for result in results):
            self._wakeups.runs_ready()
        return PERIOD


def make_step(span: Span, spec: JobSpec, share: int, now: datetime) -> SpanStep:
    """Plan the next step of a span: at most `share` runs.

    With overlap policy skip one fire is made at a time, and judged against what is live then.
    """
    skip_if_live = spec.overlap is Overlap.SKIP
    to_at = span.to_at if span.to_at is not None else now
    wanted = 1 if skip_if_live else share
    fires: list[datetime] = []
    if spec.trigger is not None:
        fires = list(islice(walk_stretch(spec.trigger, span.from_at, to_at, span.cursor_at), wanted + 1))
    is_done = len(fires) <= wanted
    fires = fires[:wanted]
    kind = RunKind.BACKFILL if span.kind is SpanKind.BACKFILL else RunKind.SCHEDULED
    return SpanStep(
        span_id=span.id,
        job_id=span.job_id,
        cursor_from=span.cursor_at,
        cursor_to=fires[-1] if fires and not is_done else to_at,
        runs=tuple(
            make_caught_up_run(
                spec,
                job_id=span.job_id,
                version=span.version,
                tenant=span.tenant,
                fire_at=fire_at,
                kind=kind,
                span_id=span.id,
                now=now,
            )
            for fire_at in fires
        ),
        is_done=is_done,
        skip_if_live=skip_if_live,
    )
