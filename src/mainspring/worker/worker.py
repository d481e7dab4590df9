"""The worker: starts its loops, and stops them in order (design 4, 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from mainspring.ports.clock import RandomSource
from mainspring.ports.executor import Executor
from mainspring.ports.gateway import WorkerGateway
from mainspring.ports.tracing import Tracer
from mainspring.worker.claiming import Claimer
from mainspring.worker.execution import Execution
from mainspring.worker.heartbeat import Heartbeat
from mainspring.worker.leases import HeldLeases, LeaseKey
from mainspring.worker.live_logs import LogShipper
from mainspring.worker.outages import log_failure
from mainspring.worker.prefetch import Prefetch
from mainspring.worker.reporting import Reporter
from mainspring.worker.session import WorkerSession
from mainspring.worker.settings import WorkerCounters, WorkerSettings, WorkerWaiters
from mainspring.worker.tracing import AttemptTraces

_LAST_SECONDS = 10.0
"""Seconds that attempts may take to end after they are asked to stop."""


class Worker:
    """Runs four loops over one session: claim, beat, log, report.

    Jobs run elsewhere (the function executor has its own event loop and threads), so a job that blocks does not hold
    up the heartbeat. The worker keeps endings that are not reported yet, and repeats their report until the gateway
    answers.

    Args:
        monotonic: this process's monotonic clock, in seconds. It shows how long the worker has been silent.
        tracer: takes the spans of attempts; None if they are not exported.
    """

    def __init__(
        self,
        gateway: WorkerGateway,
        executors: Mapping[str, Executor],
        *,
        settings: WorkerSettings,
        waiters: WorkerWaiters,
        random: RandomSource,
        monotonic: Callable[[], float],
        tracer: Tracer | None = None,
    ) -> None:
        self.counters: WorkerCounters = WorkerCounters()
        self._gateway = gateway
        self._waiters = waiters
        self._session = WorkerSession(monotonic)
        self._leases = HeldLeases(settings.registration.slots)
        self._logs: LogShipper | None = None
        if waiters.log is not None:
            self._logs = LogShipper(
                gateway,
                period=settings.log_flush.total_seconds(),
                limit=settings.log_limit,
                waiter=waiters.log,
                monotonic=monotonic,
            )
        self._execution = Execution(
            executors,
            self._session,
            self._leases,
            waiters=waiters,
            counters=self.counters,
            traces=AttemptTraces(tracer, split_after=settings.split_after, worker=settings.registration.name),
            logs=self._logs,
        )
        self._claimer = Claimer(
            gateway,
            self._session,
            self._leases,
            self._execution,
            long_poll=settings.long_poll,
            prefetch=Prefetch(settings.prefetch, slots=settings.registration.slots),
            waiters=waiters,
            counters=self.counters,
            random=random,
        )
        self._heartbeat = Heartbeat(
            gateway,
            settings.registration,
            self._session,
            self._leases,
            self._execution,
            waiters=waiters,
            random=random,
        )
        self._reporter = Reporter(
            gateway,
            self._session,
            self._leases,
            batch=settings.report_batch,
            patience=settings.prefetch.total_seconds() / 2,
            waiters=waiters,
            counters=self.counters,
            random=random,
            finish_logs=None if self._logs is None else self._logs.finish,
        )
        self._loops: list[asyncio.Task[None]] = []
        self._claiming: asyncio.Task[None] | None = None

    @property
    def held(self) -> tuple[LeaseKey, ...]:
        """The leases that this worker holds: under way, waiting for a slot, or ended and not yet reported."""
        return self._leases.keys

    @property
    def waiting(self) -> int:
        """How many leases wait for a slot."""
        return len(self._leases.waiting)

    @property
    def active(self) -> int:
        """How many attempts are under way."""
        return len(self._leases.active)

    @property
    def unreported(self) -> int:
        """How many attempts have ended and are not reported yet."""
        return len(self._leases.ended)

    @property
    def used_slots(self) -> int:
        """How many slots the attempts under way take."""
        return self._leases.used_slots

    async def start(self) -> None:
        """Start the executors, open a session, and start to work."""
        await self._execution.start()
        await self._heartbeat.register(is_first=True)
        self._claiming = asyncio.create_task(self._claimer.run(), name="worker-claim")
        self._loops = [
            asyncio.create_task(self._heartbeat.run(), name="worker-beat"),
            asyncio.create_task(self._reporter.run(), name="worker-report"),
        ]
        if self._logs is not None:
            self._loops.append(asyncio.create_task(self._logs.run(), name="worker-log"))

    async def stop(self, *, grace: float = 30.0) -> None:
        """Drain: stop claiming, let attempts end within `grace` seconds, hand back the rest, and leave."""
        self._execution.hand_back_waiting()
        if self._claiming is not None:
            self._claiming.cancel()
            await asyncio.gather(self._claiming, return_exceptions=True)
            self._claiming = None
        self._execution.hand_back_waiting()  # what the last answer brought
        await asyncio.gather(self._claimer.recover(), self._execution.wait_for_end(grace))
        self._execution.hand_back_active()
        await self._execution.wait_for_end(_LAST_SECONDS)
        self._reporter.stop()
        self._heartbeat.stop()
        if self._logs is not None:
            self._logs.stop()
        await asyncio.gather(*self._loops)
        await self._leave()
        await self._execution.stop()

    async def _leave(self) -> None:
        if self._session.id is None:
            return
        try:
            await self._gateway.leave(self._session.id)
        except Exception as error:  # noqa: BLE001 - a worker ends whatever the answer is
            log_failure("leave_failed", error)
        self._session.close()

    def beat_now(self) -> None:
        """Beat at once, to learn about a cancel before the period ends."""
        self._waiters.beat.signal()
