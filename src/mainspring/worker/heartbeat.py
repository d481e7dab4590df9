"""Opens the worker's session and keeps it alive: registers, sends heartbeats, learns about losses and cancels."""

from __future__ import annotations

import asyncio

import structlog

from mainspring.errors import Unreachable
from mainspring.ports.clock import RandomSource
from mainspring.ports.gateway import Registration, WorkerGateway
from mainspring.worker.execution import Execution
from mainspring.worker.leases import HeldLeases
from mainspring.worker.outages import OUTAGES, log_failure, pause_after
from mainspring.worker.session import WorkerSession
from mainspring.worker.settings import WorkerWaiters

_log = structlog.get_logger(__name__)


class Heartbeat:
    """The heartbeat loop. It opens, confirms and closes the session."""

    def __init__(
        self,
        gateway: WorkerGateway,
        registration: Registration,
        session: WorkerSession,
        leases: HeldLeases,
        execution: Execution,
        *,
        waiters: WorkerWaiters,
        random: RandomSource,
    ) -> None:
        self._gateway = gateway
        self._registration = registration
        self._session = session
        self._leases = leases
        self._execution = execution
        self._waiters = waiters
        self._random = random
        self._is_stopping = False

    def stop(self) -> None:
        """Make the loop end."""
        self._is_stopping = True
        self._waiters.beat.signal()

    async def register(self, *, is_first: bool = False) -> None:
        """Open a session. Try until that succeeds or the worker stops.

        Args:
            is_first: whether this is the worker's start, so that only outages are worth another try.

        Raises:
            Exception: at the worker's start, any error that is not an outage. The person who starts the worker has to
                fix it.
        """
        failures = 0
        while True:
            asked_at = self._session.now()
            try:
                session = await self._gateway.register(self._registration)
            except Exception as error:
                if is_first and not isinstance(error, OUTAGES):
                    raise
                log_failure("register_failed", error)
                await self._waiters.beat.wait(pause_after(failures, self._random))
                failures += 1
                if self._is_stopping:
                    return
            else:
                self._session.open(session, asked_at=asked_at)
                is_cut = bool(session.queues) and set(session.queues) != set(self._registration.queues)
                if session.tenant is not None or is_cut:
                    _log.info("session_bound", tenant=session.tenant, queues=list(session.queues))
                return

    async def run(self) -> None:
        """Send heartbeats until `stop`."""
        while not self._is_stopping:
            await self._waiters.beat.wait(self._session.beat_period)
            if not self._is_stopping:
                await self._beat()

    async def _beat(self) -> None:
        session = self._session
        if session.id is None:
            await self._renew_session()
            return
        asked_at = session.now()
        # A call that hangs (on a connection that broke silently) must not use up the whole lease.
        limit = asyncio.timeout(session.beat_period)
        try:
            async with limit:
                reply = await self._gateway.beat(session.id, self._leases.keys, answered=session.answered)
        except Exception as error:  # noqa: BLE001 - a worker survives whatever the answer is
            # While the store is away, no worker is declared dead: continue to work, and try again.
            if limit.expired():  # a period has passed already
                log_failure("beat_failed", Unreachable("no answer within a period"))
                self._waiters.beat.signal()
            else:
                log_failure("beat_failed", error)
            return
        if not reply.is_session_live:
            await self._renew_session()
            return
        if session.may_be_lost():
            self._waiters.claim.signal()
        session.confirm(asked_at=asked_at)
        for key in reply.lost:
            self._execution.lose(key)
        for key in reply.cancel:
            self._execution.cancel(key)
        for key in reply.preempt:
            self._execution.preempt(key)
        self._execution.fill()  # what was lost may have waited for a thread, and others behind it

    async def _renew_session(self) -> None:
        held = self._leases.keys
        _log.warning("session_lost", held=len(held))
        self._session.close()
        for key in held:
            self._execution.lose(key)
        await self.register()
        self._waiters.claim.signal()
