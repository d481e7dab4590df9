"""Claims leases for free slots, one claim at a time, and repeats a claim whose answer may be lost."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import structlog

from mainspring.core.ids import SessionId
from mainspring.ports.clock import RandomSource
from mainspring.ports.gateway import ClaimCall, ClaimReply, Lease, WorkerGateway
from mainspring.worker.execution import Execution
from mainspring.worker.leases import HeldLeases
from mainspring.worker.outages import log_failure, pause_after
from mainspring.worker.prefetch import Prefetch
from mainspring.worker.session import WorkerSession
from mainspring.worker.settings import WorkerCounters, WorkerWaiters

_log = structlog.get_logger(__name__)
_RECOVERY_SECONDS = 3.0
"""Seconds to wait for an answer. Directly on a store that is gone, a claim would wait for ever."""
_RECOVERIES = 8
"""How often a stopping worker repeats the claim that was cut off: for about ten seconds, if it is refused at once."""


class Claimer:
    """The claim loop. It remembers the claim that is not answered yet.

    Args:
        long_poll: how long one claim may wait for work.
        prefetch: says how many runs to claim ahead of the free slots.
    """

    def __init__(
        self,
        gateway: WorkerGateway,
        session: WorkerSession,
        leases: HeldLeases,
        execution: Execution,
        *,
        long_poll: timedelta,
        prefetch: Prefetch,
        waiters: WorkerWaiters,
        counters: WorkerCounters,
        random: RandomSource,
    ) -> None:
        self._gateway = gateway
        self._session = session
        self._leases = leases
        self._execution = execution
        self._long_poll = long_poll
        self._prefetch = prefetch
        self._waiters = waiters
        self._counters = counters
        self._random = random
        self._open_call: ClaimCall | None = None
        self._is_drain_asked = False  # a quarantined run waits for an idle worker

    async def run(self) -> None:
        """Claim until the task is cancelled."""
        failures = 0
        while True:
            if self._execution.hand_back_waiting(patience=self._prefetch.patience):
                self._prefetch.note_hand_back(self._session.now())
                self._leases.ahead = 0
            session_id = self._session.id
            call = self._make_call(session_id) if session_id is not None and self._may_claim() else None
            if call is None:
                await self._wait_for_room()
                continue
            self._open_call, asked_at = call, self._session.now()
            try:
                reply = await self._ask(call)
            except Exception as error:  # noqa: BLE001 - a worker survives whatever the answer is
                # The answer may be lost, but not the claim: the same number gets the same leases again. Its limit is
                # 0, so another server recognizes it as a repeat.
                log_failure("claim_failed", error)
                await self._waiters.claim.wait(pause_after(failures, self._random))
                failures += 1
                continue
            failures = 0
            if reply is not None:
                self._open_call = None
                self._take(reply, call, asked_at)

    async def _ask(self, call: ClaimCall) -> ClaimReply | None:
        """Send a claim. Return None if it was cut off because there is room now for what it does not ask for.

        A claim that leaves out functions may wait long for other work. It must not hold up a function for which a
        thread is free again. Leases that it got in the meantime are not lost, because its number is asked again.
        """
        bound = call.function_limit
        if bound is None or bound.limit:
            return await self._gateway.claim(call)
        asking = asyncio.ensure_future(self._gateway.claim(call))
        self._execution.on_room = asking.cancel
        try:
            await asyncio.wait((asking,))
        finally:
            self._execution.on_room = None
            asking.cancel()
        return None if asking.cancelled() else asking.result()

    async def recover(self) -> None:
        """Repeat the claim that was cut off, so that its leases are handed back and not lost.

        A server that stops at the same time refuses. A moment later another server answers, or the same one after its
        restart.
        """
        call = self._open_call
        if call is None or call.session_id != self._session.id:
            return
        repeated = _as_repeat(call)
        for failures in range(_RECOVERIES):
            try:
                async with asyncio.timeout(_RECOVERY_SECONDS):
                    reply = await self._gateway.claim(repeated)
            except Exception as error:  # noqa: BLE001 - a worker ends whatever the answer is
                log_failure("claim_failed", error)
                await self._waiters.claim.wait(pause_after(failures, self._random))
            else:
                self._execution.hand_back(reply.leases, call.session_id)
                return

    async def _wait_for_room(self) -> None:
        leases, longest = self._leases, self._session.beat_period
        leases.is_room_wanted = True
        try:
            await self._waiters.claim.wait(
                min(longest, self._prefetch.patience) if leases.waiting else longest
            )
        finally:
            leases.is_room_wanted = False

    def _make_call(self, session_id: SessionId) -> ClaimCall | None:
        """Return the next claim; None if the worker has no room."""
        leases = self._leases
        bound = self._execution.function_limit()  # what would wait for a thread is left to others
        limit = leases.room()
        if limit <= 0:
            return None
        call = ClaimCall(
            session_id=session_id,
            number=self._session.answered + 1,
            limit=limit,
            # What waits here for a slot may have to be handed back meanwhile.
            wait=timedelta(0) if leases.waiting else self._long_poll,
            is_idle=not leases,
            function_limit=bound,
        )
        known = self._open_call
        if known is not None and (known.session_id, known.number) == (call.session_id, call.number):
            return _as_repeat(call)
        return call

    def _may_claim(self) -> bool:
        if self._session.may_be_lost():  # leases would be handed back; the next heartbeat will show
            return False
        if any(attempt.lease.is_quarantined for attempt in self._leases.active.values()):
            return False
        if self._is_drain_asked and self._leases:
            return False
        self._is_drain_asked = False
        return True

    def _take(self, reply: ClaimReply, call: ClaimCall, asked_at: float) -> None:
        session = self._session
        if call.session_id != session.id:
            return  # a new session is open, and the leases of the old one are lost with it
        session.answered = call.number
        if not reply.is_session_live:
            self._waiters.beat.signal()  # the heartbeat opens a new session
            session.close()
            return
        self._is_drain_asked = reply.is_quarantined_waiting
        self._leases.ahead = self._prefetch.adapt(
            reply.leases, asked=call.limit, ended=self._counters.ended, now=session.now()
        )
        if reply.leases and session.may_be_lost():
            _log.warning("leases_not_begun", runs=len(reply.leases))
            self._execution.hand_back(reply.leases, call.session_id)
            self._waiters.beat.signal()
            return
        # The answer was under way for that long at least.
        late = session.now() - asked_at - call.wait.total_seconds()
        self._execution.begin(self._hand_back_over(reply.leases, call.session_id, late), call.session_id)

    def _hand_back_over(
        self, leases: tuple[Lease, ...], session_id: SessionId, late: float
    ) -> tuple[Lease, ...]:
        """Hand back leases whose time is over, for it runs from their claim. Return the others."""
        over = [lease for lease in leases if lease.spec.timeout.total_seconds() <= late] if late > 0 else []
        if not over:
            return leases
        _log.warning("leases_not_begun", runs=len(over), late=round(late, 3))
        self._execution.hand_back(over, session_id)
        return tuple(lease for lease in leases if lease not in over)


def _as_repeat(call: ClaimCall) -> ClaimCall:
    return replace(call, limit=0, wait=timedelta(0), is_idle=False, function_limit=None)
