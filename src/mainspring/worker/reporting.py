"""Reports how attempts ended, and repeats each report until the gateway answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace

from mainspring.core.ids import SessionId, format_run_id
from mainspring.core.outcomes import Failure
from mainspring.core.text import storable
from mainspring.ports.clock import RandomSource
from mainspring.ports.gateway import HandedBack, ReportResult, WorkerGateway
from mainspring.worker.leases import HeldLeases, LeaseKey
from mainspring.worker.outages import OUTAGES, log_failure, pause_after
from mainspring.worker.session import WorkerSession
from mainspring.worker.settings import WorkerCounters, WorkerWaiters

_REFUSALS = 3
"""How often a report that is sent by itself may be refused before it is replaced by a failure."""
_LAST_TRIES = 5
"""How often a stopping worker repeats its last report if it may have been declared dead."""


class Reporter:
    """The report loop. It counts how often each report is refused.

    Args:
        batch: the most endings in one report.
        finish_logs: sends the last output of attempts before they are reported; None if none is sent.
        patience: how long endings may wait for more, in seconds, while the worker claims ahead.
    """

    def __init__(
        self,
        gateway: WorkerGateway,
        session: WorkerSession,
        leases: HeldLeases,
        *,
        batch: int,
        patience: float,
        waiters: WorkerWaiters,
        counters: WorkerCounters,
        random: RandomSource,
        finish_logs: Callable[[Iterable[LeaseKey]], Awaitable[None]] | None = None,
    ) -> None:
        self._gateway = gateway
        self._session = session
        self._leases = leases
        self._batch = batch
        self._patience = patience
        self._waiters = waiters
        self._counters = counters
        self._random = random
        self._finish_logs = finish_logs
        self._refusals: dict[LeaseKey, int] = {}
        self._is_stopping = False

    def stop(self) -> None:
        """Make the loop end when everything is reported."""
        self._is_stopping = True
        self._waiters.report.signal()

    async def run(self) -> None:
        """Report until `stop`."""
        failures = 0
        has_waited = False
        while True:
            found = self._leases.next_report(self._batch)
            if found is None:
                if self._is_stopping:
                    return
                await self._waiters.report.wait(self._session.beat_period)
                continue
            if self._is_worth_waiting() and not has_waited:
                await self._waiters.report.wait(self._patience)
                has_waited = True
                continue
            has_waited = False
            session_id, keys = found
            try:
                await self._report(session_id, keys)
            except Exception as error:  # noqa: BLE001 - a worker survives whatever the answer is
                log_failure("report_failed", error, kept=len(self._leases.ended))
                if not isinstance(error, OUTAGES) and await self._report_each(session_id, keys):
                    failures = 0
                    continue
                if self._is_stopping and failures >= _LAST_TRIES and self._session.may_be_lost():
                    return  # other workers may have the runs by now, so nobody waits for this report
                await self._waiters.report.wait(pause_after(failures, self._random))
                failures += 1
                continue
            failures = 0

    def _is_worth_waiting(self) -> bool:
        """Return whether a moment later, a report will carry many more endings.

        A report of few takes much more time for each, and while there is a backlog, others wait for it.
        """
        leases = self._leases
        return bool(leases.active) and len(leases.ended) < leases.report_goal and not self._is_stopping

    async def _report(self, session_id: SessionId, keys: Sequence[LeaseKey]) -> None:
        if self._finish_logs is not None:
            await self._finish_logs(keys)  # while the leases are held: afterwards nobody takes their output
        ended = self._leases.ended
        reports = tuple([ended[key][1] for key in keys])
        results = await self._gateway.report(session_id, reports)
        if len(results) != len(reports):
            raise RuntimeError(f"{len(reports)} reports gave {len(results)} results")
        self._settle(keys, results)

    async def _report_each(self, session_id: SessionId, keys: Sequence[LeaseKey]) -> bool:
        """Send reports one by one, so that a bad one does not stop the others. Return whether none of them is left.

        A report that is refused again and again is replaced by a failure that says so. If the gateway refuses that as
        well, the fault is the gateway's, and the report stays as it was.
        """
        ended = self._leases.ended
        for key in keys:
            error = await self._try_report(session_id, key)
            if isinstance(error, OUTAGES):
                return False
            if error is None:
                continue
            log_failure("report_refused", error, run=format_run_id(key[0]))
            self._refusals[key] = self._refusals.get(key, 0) + 1
            if self._refusals[key] >= _REFUSALS:
                kept = ended[key]
                ended[key] = session_id, replace(kept[1], ending=Failure(error=_describe_refusal(error)))
                if await self._try_report(session_id, key) is not None:
                    ended[key] = kept
        return not any(key in ended for key in keys)

    async def _try_report(self, session_id: SessionId, key: LeaseKey) -> Exception | None:
        try:
            await self._report(session_id, [key])
        except Exception as error:  # noqa: BLE001 - a worker survives whatever the answer is
            return error
        return None

    def _settle(self, keys: Sequence[LeaseKey], results: tuple[ReportResult, ...]) -> None:
        leases, counters = self._leases, self._counters
        for key, result in zip(keys, results, strict=True):
            _, report = leases.ended.pop(key)
            if isinstance(report.ending, HandedBack):
                counters.handed_back += 1
            elif result is ReportResult.APPLIED:
                counters.succeeded_or_failed += 1
            else:
                counters.stale += 1
        if self._refusals:
            for key in keys:
                self._refusals.pop(key, None)
        if leases.is_room_wanted and (leases.room() > 0 or not leases):
            self._waiters.claim.signal()


def _describe_refusal(error: Exception) -> str:
    return storable(f"the report of this attempt was refused: {type(error).__name__}: {error}"[:2000])
