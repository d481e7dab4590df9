"""Reports say how long attempts held their slots: of all while there is no backlog, and of a part while there is."""

from __future__ import annotations

from mainspring.core.ids import RunId, SessionId, make_run_id
from mainspring.core.slot_times import NOT_SAMPLED
from mainspring.ports.gateway import Report, ReportResult
from tests.unit.worker.test_prefetch import SLOTS, Calm, Gated, working
from tests.unit.worker.test_worker import make_lease, until


class Timed(Calm):
    """A server that notes how long attempts took."""

    def __init__(self) -> None:
        super().__init__()
        self.took: dict[RunId, float | None] = {}

    async def report(self, session_id: SessionId, reports: tuple[Report, ...]) -> tuple[ReportResult, ...]:
        self.took |= {report.run_id: report.took for report in reports}
        return await super().report(session_id, reports)


async def test_time_is_that_from_the_slot_to_the_end() -> None:
    server, executor = Timed(), Gated(stop_at=1)
    server.leases = [make_lease(1)]
    async with working(server, executor, prefetch=0):
        await until(lambda: executor.under_way == 1)
        begun_at = server.now
        server.now += 7.0
        executor.gate.set()
        await until(lambda: bool(server.took))
        took = server.took[RunId(1)]
        assert took is not None
        assert 7.0 <= took <= server.now - begun_at + 0.1


async def test_while_there_is_a_backlog_a_part_is_measured() -> None:
    server, executor = Timed(), Gated()
    runs = [make_run_id(number, 0) for number in range(1, 1001)]
    server.leases = [make_lease(run_id) for run_id in runs]
    async with working(server, executor):
        await until(lambda: len(server.took) == len(runs))
        measured = {run_id for run_id, took in server.took.items() if took is not None}
        first = set(runs[: 2 * SLOTS])  # before the worker knows of the backlog
        assert {run_id for run_id in runs if not run_id & NOT_SAMPLED} <= measured
        assert len(measured - first) < len(runs) / 2
