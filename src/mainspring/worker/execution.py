"""Starts the attempts of claimed leases as slots become free, stops them, and keeps their endings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import structlog

from mainspring.core.ids import SessionId, format_run_id
from mainspring.core.slot_times import NOT_SAMPLED
from mainspring.ports.executor import BoundedExecutor, CallbackExecutor, DeferringExecutor, Executor
from mainspring.ports.gateway import FunctionLimit, Lease, Report
from mainspring.ports.logs import LEVEL
from mainspring.worker.attempt import AttemptTask
from mainspring.worker.batches import BatchMember, BatchTask
from mainspring.worker.leases import HeldLeases, LeaseKey
from mainspring.worker.live_logs import LogShipper
from mainspring.worker.session import WorkerSession
from mainspring.worker.settings import WorkerCounters, WorkerWaiters
from mainspring.worker.tracing import AttemptTraces

_log = structlog.get_logger(__name__)


class Execution:
    """Runs attempts with the executors of their target types.

    Attributes:
        on_room: called when there is room again for a bounded function; None if nobody waits for that.
    """

    def __init__(
        self,
        executors: Mapping[str, Executor],
        session: WorkerSession,
        leases: HeldLeases,
        *,
        waiters: WorkerWaiters,
        counters: WorkerCounters,
        traces: AttemptTraces,
        logs: LogShipper | None = None,
    ) -> None:
        self._traces = traces
        self._logs = logs
        self._executors = executors
        self._callbacks = {
            kind: executor for kind, executor in executors.items() if isinstance(executor, CallbackExecutor)
        }
        for executor in executors.values():
            if isinstance(executor, DeferringExecutor):
                executor.ask_before_work(session.is_surely_live)
        bounded = [executor for executor in executors.values() if isinstance(executor, BoundedExecutor)]
        self._bounded = bounded[0] if bounded else None  # only functions have their own limit
        self._bounded_names: frozenset[str] = frozenset()
        self.on_room: Callable[[], object] | None = None
        self._session = session
        self._leases = leases
        self._waiters = waiters
        self._counters = counters
        self._all_ended = asyncio.Event()
        self._is_filling = False

    async def start(self) -> None:
        """Start the executors."""
        if self._bounded is not None:
            self._bounded.listen_for_room(self._tell_room)
        for executor in self._executors.values():
            await executor.start()

    async def stop(self) -> None:
        """Stop the executors. No attempt may be under way."""
        for executor in self._executors.values():
            await executor.stop()

    def function_limit(self) -> FunctionLimit | None:
        """Return the limit on functions if some might find no thread when a slot is free for them; otherwise None.

        What waits for a slot counts, too: a function that waits for a thread as well would hold up all behind it.
        """
        held = self._leases
        room = self._bounded.room() if self._bounded is not None else None
        if self._bounded is None or room is None:
            return None
        self._bounded_names = self._bounded.bounded_functions
        if held.ahead:
            used = sum(self._needs_thread(attempt.lease) for attempt in held.active.values())
            is_enough = room + used >= held.slots  # so whenever a slot is free, a thread is
        else:
            is_enough = room >= held.free_slots()
        if is_enough or not self._bounded_names:
            return None
        room -= sum(self._needs_thread(lease) for lease, _, _ in held.waiting.values())
        return FunctionLimit(functions=self._bounded_names, limit=max(room, 0))

    def begin(self, leases: Sequence[Lease], session_id: SessionId) -> None:
        """Take leases that this session has claimed. Start their attempts as soon as slots are free.

        Repeated leases are left out.
        """
        held, now = self._leases, self._session.now()
        if self._bounded is not None:
            self._bounded_names = self._bounded.bounded_functions
        has_batches = False
        for lease in leases:
            key = (lease.run_id, lease.token)
            if key in held:
                continue  # a repeated answer
            if lease.batch is not None:
                has_batches = True
                held.waiting[key] = lease, session_id, now  # until all of its call are there
            elif held.waiting or not held.has_free_slot() or not self._can_begin(lease):
                held.waiting[key] = lease, session_id, now
            else:
                self._begin(key, lease, session_id)
        if has_batches:
            self.fill()

    def fill(self) -> None:
        """Start attempts while slots are free, the longest waiting first."""
        held = self._leases
        if self._is_filling:  # an attempt ended at once
            return
        self._is_filling = True
        try:
            while held.waiting and held.has_free_slot():
                key, (lease, session_id, since) = held.waiting.popitem(last=False)
                if not self._can_begin(lease):
                    held.waiting[key] = lease, session_id, since
                    held.waiting.move_to_end(key, last=False)
                    return
                if lease.batch is None:
                    self._begin(key, lease, session_id)
                else:
                    self._begin_batch(lease, session_id)
        finally:
            self._is_filling = False

    def _can_begin(self, lease: Lease) -> bool:
        """Return whether a function that needs a thread would get one."""
        if self._bounded is None or not self._needs_thread(lease):
            return True
        room = self._bounded.room()
        return room is None or room > 0

    def _needs_thread(self, lease: Lease) -> bool:
        target = lease.spec.target
        return (
            self._bounded is not None
            and target.params.get("function") in self._bounded_names
            and target.type == self._bounded.type
            and "isolation" not in target.params  # it waits for a process, not for a thread
        )

    def _begin(
        self, key: LeaseKey, lease: Lease, session_id: SessionId, *, is_cancelled: bool = False
    ) -> None:
        attempt = AttemptTask(lease, session_id, self._end)
        attempt.room = self._logs
        if lease.trace is not None:
            attempt.trace = self._traces.begin(lease)
        if is_cancelled or lease.is_cancel_requested:
            attempt.cancel()
        held = self._leases
        # Of many, some tell enough, and the others do not pay for it.
        if not (lease.run_id & NOT_SAMPLED and (held.ahead or held.waiting)):
            attempt.begun_at = self._session.now()
        held.active[key] = attempt
        if LEVEL.is_debug:
            _tell_begin(lease)
        executor = self._callbacks.get(lease.spec.target.type)
        if self._session.may_be_lost():
            self._refuse(attempt)
        elif executor is None or not attempt.begin(executor):
            attempt.task = asyncio.create_task(self._carry_out(attempt))

    def _begin_batch(self, first: Lease, session_id: SessionId) -> None:
        """Begin one call for a lease and those that wait with the same text."""
        held = self._leases
        others = [
            key
            for key, (lease, owner, _) in held.waiting.items()
            if lease.batch == first.batch and owner == session_id
        ]
        leases = [first, *(held.waiting.pop(key)[0] for key in others)]
        batch = BatchTask(leases, session_id, self._end)
        batch.members[0].begun_at = self._session.now()  # the slot's time counts once
        held.shared += len(leases) - 1
        for member in batch.members:
            member.room = self._logs
            held.active[member.lease.run_id, member.lease.token] = member
            if member.lease.trace is not None:
                member.trace = self._traces.begin(member.lease)
            if LEVEL.is_debug:
                _tell_begin(member.lease)
            if member.lease.is_cancel_requested:
                member.cancel()
        if self._session.may_be_lost():
            for member in batch.members:
                self._refuse(member)
        else:
            batch.begin(self._callbacks.get(first.spec.target.type))

    async def _carry_out(self, attempt: AttemptTask) -> None:
        if self._session.may_be_lost():
            self._refuse(attempt)
        else:
            await attempt.run(self._executors)

    def _refuse(self, attempt: AttemptTask) -> None:
        """Do not start an attempt, because the process was paused since it took the lease."""
        _log.warning("leases_not_begun", runs=1)
        attempt.refuse()
        self._waiters.beat.signal()

    def hand_back(self, leases: Sequence[Lease], session_id: SessionId) -> None:
        """Hand back leases whose attempts were not started."""
        for lease in leases:
            self._leases.hand_back((lease.run_id, lease.token), session_id)
        self._waiters.report.signal()

    def hand_back_waiting(self, *, patience: float = 0.0) -> bool:
        """Hand back the leases that have waited for a slot this many seconds. Return whether there were any."""
        until = self._session.now() - patience
        waiting, has_any = self._leases.waiting, False
        while waiting and next(iter(waiting.values()))[2] <= until:
            key, (_, session_id, _) = waiting.popitem(last=False)
            self._leases.hand_back(key, session_id)
            has_any = True
        if has_any:
            self._waiters.report.signal()
            self.fill()  # the first may have waited for a thread
        return has_any

    def hand_back_active(self) -> None:
        """Stop all attempts under way, so that other workers can run them."""
        for attempt in self._leases.active.values():
            attempt.hand_back()

    def cancel(self, key: LeaseKey) -> None:
        """Stop an attempt, or do not start it, because the cancel of its run was requested."""
        found = self._leases.waiting.pop(key, None)
        if found is not None:
            self._begin(key, found[0], found[1], is_cancelled=True)
            return
        attempt = self._leases.active.get(key)
        if attempt is not None:
            attempt.cancel()

    def preempt(self, key: LeaseKey) -> None:
        """Stop an attempt, or do not start it, to make room for more urgent work, and hand it back."""
        found = self._leases.waiting.pop(key, None)
        if found is not None:
            self._leases.hand_back(key, found[1], is_preempted=True)
            self._waiters.report.signal()
            return
        attempt = self._leases.active.get(key)
        if attempt is not None:
            attempt.preempt()

    def lose(self, key: LeaseKey) -> None:
        """Stop an attempt whose lease is lost, or do not start it.

        An ending that waits for its report stays. Its report is under way, or will be answered as stale and counted.
        """
        if self._leases.waiting.pop(key, None) is not None:
            self._counters.dropped += 1
            return
        attempt = self._leases.active.get(key)
        if attempt is not None:
            attempt.drop()

    async def wait_for_end(self, seconds: float) -> None:
        """Wait until no attempt is under way, for at most this many seconds."""
        if self._leases.active:
            self._all_ended.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_ended.wait(), seconds)

    def _end(self, attempt: AttemptTask) -> None:
        """Keep the ending of an attempt until it is reported."""
        leases = self._leases
        key = (attempt.lease.run_id, attempt.lease.token)
        leases.active.pop(key, None)
        if leases.shared and isinstance(attempt, BatchMember):
            attempt.batch.open -= 1
            leases.shared -= attempt.batch.open > 0  # the last one frees the slot
        self._counters.ended += 1
        if attempt.trace is not None:
            self._traces.end(attempt.trace, attempt.lease, None if attempt.is_dropped else attempt.ending)
        if LEVEL.is_debug:
            _tell_end(attempt)
        if self._logs is not None and self._logs.open_logs:
            self._end_log(key, attempt)
        if attempt.is_dropped or attempt.ending is None:
            self._counters.dropped += 1
        else:
            took = None if attempt.begun_at is None else self._session.now() - attempt.begun_at
            leases.ended[key] = attempt.session_id, Report(*key, attempt.ending, took)
            if len(leases.ended) in {1, leases.report_goal}:
                self._waiters.report.signal()
        if leases.waiting:
            self.fill()
        if not leases.active:
            self._all_ended.set()
            self._waiters.report.signal()
        if leases.is_room_wanted and (leases.room() > 0 or not leases.active or attempt.lease.is_quarantined):
            self._waiters.claim.signal()
        if self.on_room is not None:
            self._tell_room()

    def _end_log(self, key: LeaseKey, attempt: AttemptTask) -> None:
        assert self._logs is not None
        if attempt.is_dropped or attempt.ending is None:
            self._logs.forget(key)
        else:
            self._logs.end(key)

    def _tell_room(self) -> None:
        if self._leases.waiting:
            self.fill()
        if self.on_room is not None and self._bounded is not None and self._bounded.room():
            self.on_room()


def _tell_begin(lease: Lease) -> None:
    _log.debug("attempt_begins", job=lease.spec.name, run=format_run_id(lease.run_id), attempt=lease.attempt)


def _tell_end(attempt: AttemptTask) -> None:
    lease = attempt.lease
    ending = "lost" if attempt.is_dropped or attempt.ending is None else type(attempt.ending).__name__.lower()
    _log.debug(
        "attempt_ends",
        job=lease.spec.name,
        run=format_run_id(lease.run_id),
        attempt=lease.attempt,
        ending=ending,
    )
