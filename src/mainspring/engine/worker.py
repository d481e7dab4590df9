"""The worker: takes leases, carries them out in slots, beats, reports, drains (design 4, 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog

from mainspring.core.ids import RunId, SessionId, format_run_id
from mainspring.core.liveness import PERIODS_OF_SILENCE
from mainspring.core.text import storable
from mainspring.core.transitions import Failure
from mainspring.engine.attempt import AttemptTask
from mainspring.errors import StoreUnavailable, Unreachable
from mainspring.ports.clock import RandomSource, Waiter
from mainspring.ports.executor import CallbackExecutor, Executor
from mainspring.ports.gateway import (
    ClaimCall,
    ClaimReply,
    Ending,
    HandedBack,
    Lease,
    Registration,
    Report,
    ReportResult,
    WorkerGateway,
)

_log = structlog.get_logger(__name__)
_OUTAGES = (Unreachable, StoreUnavailable)
_REFUSALS = 3
"""So often a report by itself is refused before it is given up."""
_LONGEST_RECOVERY = 3.0
"""Seconds for an answer: straight on a store that has gone, a claim would wait for it for ever."""
_RECOVERIES = 8
"""So often a worker that stops asks for the claim that was cut off: for some ten seconds."""
_FIRST_BACKOFF = 0.1
_LAST_BACKOFF = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """How a worker behaves.

    Attributes:
        registration: what it offers.
        long_poll: how long one claim may wait for work.
        report_batch: at most so many endings in one report.
    """

    registration: Registration
    long_poll: timedelta = timedelta(seconds=20)
    report_batch: int = 1000


@dataclass(slots=True)
class WorkerCounters:
    """What a worker has done since it started."""

    succeeded_or_failed: int = 0
    stale: int = 0
    dropped: int = 0
    handed_back: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerWaiters:
    """One waiter for each of the worker's loops."""

    claim: Waiter
    beat: Waiter
    report: Waiter


class Worker:
    """Three loops over one session: claim, beat, report.

    Jobs run elsewhere (the function executor has its own event loop and threads), so a job that blocks does not
    hold up the heartbeat. What has ended but is not yet reported is kept and repeated until the gateway answers.

    Args:
        monotonic: this process's monotonic clock, seconds; tells how long it has been silent.
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
    ) -> None:
        self._gateway = gateway
        self._executors = executors
        self._callbacks = {
            kind: executor for kind, executor in executors.items() if isinstance(executor, CallbackExecutor)
        }
        self._settings = settings
        self._waiters = waiters
        self._random = random
        self._session_id: SessionId | None = None
        self._beat_period = 10.0
        self._monotonic = monotonic
        self._confirmed_at = 0.0
        self._open_call: ClaimCall | None = None
        self._answered = 0
        self._active: dict[tuple[RunId, int], AttemptTask] = {}
        self._all_ended = asyncio.Event()
        self._ended: dict[tuple[RunId, int], Ending] = {}
        self._refusals: dict[tuple[RunId, int], int] = {}
        self._is_draining = False
        self._is_stopping = False
        self._is_yielding_to_quarantined = False
        self._loops: list[asyncio.Task[None]] = []
        self._claiming: asyncio.Task[None] | None = None
        self.counters = WorkerCounters()

    @property
    def held(self) -> tuple[tuple[RunId, int], ...]:
        """The leases that this worker answers for: under way, or ended and not yet reported."""
        return (*self._active, *self._ended)

    async def start(self) -> None:
        """Start the executors, open a session and begin to work."""
        for executor in self._executors.values():
            await executor.start()
        await self._register(is_first=True)
        self._claiming = asyncio.create_task(self._claim_loop(), name="worker-claim")
        self._loops = [
            asyncio.create_task(self._beat_loop(), name="worker-beat"),
            asyncio.create_task(self._report_loop(), name="worker-report"),
        ]

    async def stop(self, *, grace: float = 30.0) -> None:
        """Drain: claim no more, let attempts end within `grace` seconds, hand the rest back, leave."""
        self._is_draining = True
        if self._claiming is not None:
            self._claiming.cancel()
            await asyncio.gather(self._claiming, return_exceptions=True)
            self._claiming = None
        await asyncio.gather(self._recover_open_claim(), self._await_attempts(grace))
        for attempt in self._active.values():
            attempt.hand_back()
        await self._await_attempts(10.0)
        self._is_stopping = True
        self._waiters.report.signal()
        self._waiters.beat.signal()
        await asyncio.gather(*self._loops)
        if self._session_id is not None:
            try:
                await self._gateway.leave(self._session_id)
            except Exception as error:  # noqa: BLE001 - a worker ends whatever it is answered
                _say("leave_failed", error)
            self._session_id = None
        for executor in self._executors.values():
            await executor.stop()

    async def _recover_open_claim(self) -> None:
        """Ask once more for the claim that was cut off: leases it got are handed back, not lost.

        A server that stops at the same time refuses, and another one, or its own next life, answers a moment later.
        """
        call = self._open_call
        if call is None or call.session_id != self._session_id:
            return
        repeated = _ask_again(call)
        for failures in range(_RECOVERIES):
            try:
                async with asyncio.timeout(_LONGEST_RECOVERY):
                    reply = await self._gateway.claim(repeated)
            except Exception as error:  # noqa: BLE001 - a worker ends whatever it is answered
                _say("claim_failed", error)
                await self._waiters.claim.wait(self._backoff(failures))
            else:
                self._hand_back(reply.leases)
                return

    async def _await_attempts(self, seconds: float) -> None:
        if self._active:
            self._all_ended.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_ended.wait(), seconds)

    def beat_now(self) -> None:
        """Beat at once, to learn of a cancel without waiting for the period."""
        self._waiters.beat.signal()

    async def _register(self, *, is_first: bool = False) -> None:
        failures = 0
        while True:
            asked_at = self._monotonic()
            try:
                session = await self._gateway.register(self._settings.registration)
            except Exception as error:
                if is_first and not isinstance(error, _OUTAGES):
                    raise  # what is refused at the start is for whoever starts the worker to put right
                _say("register_failed", error)
                await self._waiters.beat.wait(self._backoff(failures))
                failures += 1
                if self._is_stopping:
                    return
            else:
                self._session_id = session.id
                self._answered = 0
                self._confirmed_at = asked_at
                self._beat_period = session.beat_period.total_seconds()
                return

    # -- claiming ----------------------------------------------------------------------------------------------

    async def _claim_loop(self) -> None:
        failures = 0
        while True:
            free = self._free_slots()
            session_id = self._session_id
            if free <= 0 or session_id is None or not self._may_claim():
                await self._waiters.claim.wait(self._beat_period)
                continue
            call = ClaimCall(
                session_id=session_id,
                number=self._answered + 1,
                limit=free,
                wait=self._settings.long_poll,
                is_idle=not self.held,
            )
            if self._is_open(call):
                call = _ask_again(call)
            self._open_call = call
            try:
                reply = await self._gateway.claim(call)
            except Exception as error:  # noqa: BLE001 - a worker outlives whatever it is answered
                # The answer may be lost, not the claim: the same number is asked again and gets the same leases. It
                # asks for nothing more, by which another server knows it for a repeat.
                _say("claim_failed", error)
                await self._waiters.claim.wait(self._backoff(failures))
                failures += 1
                continue
            self._open_call = None
            failures = 0
            self._take(reply, call)

    def _is_open(self, call: ClaimCall) -> bool:
        known = self._open_call
        return known is not None and (known.session_id, known.number) == (call.session_id, call.number)

    def _free_slots(self) -> int:
        slots = self._settings.registration.slots
        # What has ended but is unreported does not hold a slot, up to as many again: reporting overlaps with work.
        return min(slots - len(self._active), 2 * slots - len(self._active) - len(self._ended))

    def _may_claim(self) -> bool:
        if self._may_be_lost():  # what came would be handed back; the next heartbeat tells
            return False
        if any(attempt.lease.is_quarantined for attempt in self._active.values()):
            return False
        if self._is_yielding_to_quarantined and self.held:
            return False
        self._is_yielding_to_quarantined = False
        return True

    def _take(self, reply: ClaimReply, call: ClaimCall) -> None:
        if call.session_id != self._session_id:
            return  # a new session was opened meanwhile; the old one's leases are lost with it
        self._answered = call.number
        if not reply.is_session_live:
            self._waiters.beat.signal()  # the beat finds it out and opens a new session
            self._session_id = None
            return
        self._is_yielding_to_quarantined = reply.is_quarantined_waiting
        if reply.leases and self._may_be_lost():
            _log.warning("leases_not_begun", runs=len(reply.leases))
            self._hand_back(reply.leases)
            self._waiters.beat.signal()
            return
        for lease in reply.leases:
            self._start(lease)

    def _may_be_lost(self) -> bool:
        """Say whether this process was silent for so long that it may have been declared dead meanwhile.

        After a pause of the whole process (a suspended host, SIGSTOP) an answer that lay waiting must not start work
        that somebody else has been given since. Nobody judges sooner: the silence is counted from a beat's sending.
        """
        return self._monotonic() - self._confirmed_at >= PERIODS_OF_SILENCE * self._beat_period

    def _hand_back(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            self._ended[lease.run_id, lease.token] = HandedBack(was_started=False)
        self._waiters.report.signal()

    def _start(self, lease: Lease) -> None:
        key = (lease.run_id, lease.token)
        if key in self._active or key in self._ended:
            return  # a repeated answer
        attempt = AttemptTask(lease, self._end)
        if lease.is_cancel_requested:
            attempt.cancel()
        self._active[key] = attempt
        executor = self._callbacks.get(lease.spec.target.type)
        if self._may_be_lost():
            self._refuse(attempt)
        elif executor is None or not attempt.begin(executor):
            attempt.task = asyncio.create_task(self._carry_out(attempt))

    async def _carry_out(self, attempt: AttemptTask) -> None:
        if self._may_be_lost():
            self._refuse(attempt)
        else:
            await attempt.run(self._executors)

    def _refuse(self, attempt: AttemptTask) -> None:
        """Do not begin: the process was stopped since the lease was taken."""
        _log.warning("leases_not_begun", runs=1)
        attempt.refuse()
        self._waiters.beat.signal()

    def _end(self, attempt: AttemptTask) -> None:
        """Keep how an attempt ended until it is reported."""
        key = (attempt.lease.run_id, attempt.lease.token)
        was_full = self._free_slots() <= 0
        self._active.pop(key, None)
        if attempt.is_dropped or attempt.ending is None:
            self.counters.dropped += 1
        else:
            self._ended[key] = attempt.ending
            if len(self._ended) == 1:
                self._waiters.report.signal()
        if not self._active:
            self._all_ended.set()
        if was_full or not self._active or attempt.lease.is_quarantined:
            self._waiters.claim.signal()

    # -- beating -----------------------------------------------------------------------------------------------

    async def _beat_loop(self) -> None:
        while not self._is_stopping:
            await self._waiters.beat.wait(self._beat_period)
            if self._is_stopping:
                return
            if self._session_id is None:
                await self._renew_session()
                continue
            asked_at = self._monotonic()
            # A call that hangs (a connection that broke without a word) must not use up the whole lease.
            limit = asyncio.timeout(self._beat_period)
            try:
                async with limit:
                    reply = await self._gateway.beat(self._session_id, self.held, answered=self._answered)
            except Exception as error:  # noqa: BLE001 - a worker outlives whatever it is answered
                # Nobody is declared dead by an outage of the store; go on working and try again.
                if limit.expired():  # a period has passed already
                    _say("beat_failed", Unreachable("no answer within a period"))
                    self._waiters.beat.signal()
                else:
                    _say("beat_failed", error)
                continue
            if not reply.is_session_live:
                await self._renew_session()
                continue
            if self._may_be_lost():
                self._waiters.claim.signal()
            self._confirmed_at = asked_at
            for key in reply.lost:
                self._lose(key)
            for key in reply.cancel:
                attempt = self._active.get(key)
                if attempt is not None:
                    attempt.cancel()

    async def _renew_session(self) -> None:
        _log.warning("session_lost", held=len(self.held))
        self._session_id = None
        for key in self.held:
            self._lose(key)
        await self._register()
        self._waiters.claim.signal()

    def _lose(self, key: tuple[RunId, int]) -> None:
        attempt = self._active.get(key)
        if attempt is not None:
            attempt.drop()
        # An ending stays in `_ended`: the report is under way or will be answered as stale, and counted.

    # -- reporting ---------------------------------------------------------------------------------------------

    async def _report_loop(self) -> None:
        failures = 0
        while True:
            if not self._ended:
                if self._is_stopping:
                    return
                await self._waiters.report.wait(self._beat_period)
                continue
            keys = list(self._ended)[: self._settings.report_batch]
            try:
                await self._report(keys)
            except Exception as error:  # noqa: BLE001 - a worker outlives whatever it is answered
                _say("report_failed", error, kept=len(self._ended))
                if not isinstance(error, _OUTAGES) and await self._report_each(keys):
                    failures = 0
                    continue
                if self._is_stopping and failures >= 5 and self._may_be_lost():
                    return  # others may have been given the runs by now; nobody waits for this any more
                await self._waiters.report.wait(self._backoff(failures))
                failures += 1
                continue
            failures = 0

    async def _report(self, keys: Sequence[tuple[RunId, int]]) -> None:
        reports = tuple(Report(run_id=key[0], token=key[1], ending=self._ended[key]) for key in keys)
        results = await self._gateway.report(self._session_id or SessionId(0), reports)
        if len(results) != len(reports):
            raise RuntimeError(f"{len(reports)} reports brought {len(results)} results")
        self._settle(keys, results)

    async def _report_each(self, keys: Sequence[tuple[RunId, int]]) -> bool:
        """Send reports one by one, so that a bad one stops no other; return whether none of them is left.

        One that is refused time and again becomes a failure that says so, where that is taken: a gateway that takes
        nothing at all is only out of order, and what is kept for it stays as it is.
        """
        for key in keys:
            error = await self._try_report(key)
            if isinstance(error, _OUTAGES):
                return False
            if error is None:
                continue
            _say("report_refused", error, run=format_run_id(key[0]))
            self._refusals[key] = self._refusals.get(key, 0) + 1
            if self._refusals[key] >= _REFUSALS:
                ending, self._ended[key] = self._ended[key], Failure(error=_refusal(error))
                if await self._try_report(key) is not None:
                    self._ended[key] = ending
        return not any(key in self._ended for key in keys)

    async def _try_report(self, key: tuple[RunId, int]) -> Exception | None:
        try:
            await self._report([key])
        except Exception as error:  # noqa: BLE001 - a worker outlives whatever it is answered
            return error
        return None

    def _settle(self, keys: Sequence[tuple[RunId, int]], results: tuple[ReportResult, ...]) -> None:
        was_full = self._free_slots() <= 0
        for key, result in zip(keys, results, strict=True):
            ending = self._ended.pop(key)
            self._refusals.pop(key, None)
            if isinstance(ending, HandedBack):
                self.counters.handed_back += 1
            elif result is ReportResult.APPLIED:
                self.counters.succeeded_or_failed += 1
            else:
                self.counters.stale += 1
        if was_full or not self.held:
            self._waiters.claim.signal()

    def _backoff(self, failures: int) -> float:
        pause: float = min(_FIRST_BACKOFF * 2.0 ** min(failures, 10), _LAST_BACKOFF)
        return pause * (0.5 + self._random.random() / 2)


def _ask_again(call: ClaimCall) -> ClaimCall:
    return replace(call, limit=0, wait=timedelta(0), is_idle=False)


def _say(event: str, error: Exception, **facts: object) -> None:
    """Log an outage in a line, and what nobody expected with its trace."""
    if isinstance(error, _OUTAGES):
        _log.warning(event, error=str(error), **facts)
    else:
        _log.error(event, error=str(error), exc_info=error, **facts)


def _refusal(error: Exception) -> str:
    return storable(f"the report of this attempt was refused: {type(error).__name__}: {error}"[:2000])
