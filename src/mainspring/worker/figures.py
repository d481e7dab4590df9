"""What a worker counts."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.ports.telemetry import Measure
from mainspring.worker.worker import Worker


class WorkerFigures:
    """Offers a worker's counters to the process's telemetry."""

    def __init__(self, worker: Worker, *, slots: int) -> None:
        self._worker = worker
        self._slots = slots

    def measures(self) -> Iterator[Measure]:
        """Yield the worker's counters, its slots, and the leases that it holds."""
        counters = self._worker.counters
        yield Measure("worker_reports_total", counters.succeeded_or_failed, ("applied",))
        yield Measure("worker_reports_total", counters.stale, ("stale",))
        yield Measure("worker_reports_total", counters.handed_back, ("handed_back",))
        yield Measure("worker_attempts_dropped_total", counters.dropped)
        yield Measure("worker_held", len(self._worker.held))
        yield Measure("worker_prefetched", self._worker.waiting)
        yield Measure("worker_active", self._worker.active)
        yield Measure("worker_unreported", self._worker.unreported)
        yield Measure("worker_slots", self._slots)
        yield Measure("worker_slots_used", self._worker.used_slots)
