"""One attempt, from its lease to its ending."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog

from mainspring.core.ids import SessionId, format_run_id
from mainspring.core.outcomes import Failure
from mainspring.core.targets import BUILT_IN
from mainspring.ports.executor import (
    GENTLY,
    AttemptContext,
    CallbackExecutor,
    Executor,
    LogRoom,
    NotBegun,
    Outcome,
)
from mainspring.ports.gateway import Ending, HandedBack, Lease, Stopped
from mainspring.worker.outcome_check import check_outcome
from mainspring.worker.tracing import AttemptTrace

_log = structlog.get_logger(__name__)


class AttemptTask:
    """An attempt under way in this worker, with its own task or, if the executor needs none, without.

    Args:
        session_id: the session that claimed the lease.
        on_end: called when the attempt has ended; `ending` says how.

    Attributes:
        begun_at: when it got its slot, in monotonic seconds, if that is measured.
        ending: how the attempt ended; None while it runs.
        room: where its output goes while it runs; None if it goes there only at its end.
        is_dropped: whether the lease is lost, so that the ending is not reported.
        task: the task that runs or stops the attempt; None if the executor alone does so.
        trace: its trace; None if its run is not traced.
    """

    __slots__ = (
        "_executor",
        "_handle",
        "_has_begun",
        "_is_cancel_wanted",
        "_is_hand_back_wanted",
        "_is_preempt_wanted",
        "_message",
        "_on_end",
        "begun_at",
        "ending",
        "is_dropped",
        "lease",
        "room",
        "session_id",
        "task",
        "trace",
    )

    def __init__(
        self, lease: Lease, session_id: SessionId, on_end: Callable[[AttemptTask], None] | None = None
    ) -> None:
        self.lease: Lease = lease
        self.session_id: SessionId = session_id
        self.task: asyncio.Task[None] | None = None
        self.begun_at: float | None = None
        self.ending: Ending | None = None
        self.is_dropped: bool = False
        self.trace: AttemptTrace | None = None
        self.room: LogRoom | None = None
        self._on_end = on_end
        self._executor: CallbackExecutor | None = None
        self._handle: object | None = None
        self._has_begun = False
        self._is_cancel_wanted = False
        self._is_hand_back_wanted = False
        self._is_preempt_wanted = False
        self._message: str | None = None

    def begin(self, executor: CallbackExecutor) -> bool:
        """Start the attempt without a task. Return False if that is not possible; then nothing has happened."""
        if self._is_stop_wanted():
            return False
        try:
            self._handle = executor.begin(self.context(), self._end)
        except Exception as error:  # noqa: BLE001 - see _fail
            self._fail(error)
            return True
        if self._handle is None:
            return False
        if self.ending is not None:  # it ended at once
            self._handle = None
        self._executor = executor
        self._has_begun = True
        return True

    async def run(self, executors: Mapping[str, Executor]) -> None:
        """Run the attempt to its end, and keep the ending. Never raises."""
        if self._is_stop_wanted():
            self._end(self._ending_when_stopped(was_started=False))
            return
        self._has_begun = True
        executor = executors.get(self.lease.spec.target.type)
        if executor is None:
            self._end(HandedBack(was_started=False))  # claimed by mistake: another worker can do it
        else:
            outcome = executor.execute(self.context())
            await self._await_end(outcome if self.lease.spec.target.type in BUILT_IN else _checked(outcome))

    def context(self) -> AttemptContext:
        """Return what the executor may know about the attempt."""
        trace = self.trace
        return make_context(self.lease, self.session_id, None if trace is None else trace.context, self.room)

    def refuse(self) -> None:
        """Hand the attempt back without starting it."""
        self._end(HandedBack(was_started=False))

    async def _await_end(self, outcome: Awaitable[Outcome]) -> None:
        try:
            ending: Ending | NotBegun = await outcome
        except asyncio.CancelledError:
            ending = self._ending_when_stopped(was_started=True)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - see _fail
            self._fail(error)
            return
        self._end(ending)

    def _fail(self, error: BaseException) -> None:
        """Fail the attempt. A bug in an executor must not stop the worker."""
        _log.error("executor_failed", run=format_run_id(self.lease.run_id), exc_info=error)
        self._end(Failure(error=f"the executor failed: {type(error).__name__}: {error}"))

    def _end(self, ending: Ending | NotBegun) -> None:
        if isinstance(ending, NotBegun):
            _log.warning("leases_not_begun", runs=1)
            ending = self._ending_when_stopped(was_started=False)
        if self._is_cancel_wanted and isinstance(ending, Failure):
            # The stop shows as a failure of the work (a command's exit status), but the cancel caused it.
            ending = Stopped(error=ending.error, output=ending.output)
        elif self._is_preempt_wanted and isinstance(ending, Failure) and not ending.is_timeout:
            ending = HandedBack(was_started=True, is_preempted=True)  # likewise
        self.ending = ending
        self._handle = None  # it refers to this attempt: break the cycle, or both wait for the collector
        if self._on_end is not None:
            self._on_end(self)

    def _is_stop_wanted(self) -> bool:
        return (
            self._is_cancel_wanted or self._is_hand_back_wanted or self._is_preempt_wanted or self.is_dropped
        )

    def _ending_when_stopped(self, *, was_started: bool) -> Ending:
        if self._is_cancel_wanted:
            return Stopped(error="stopped because a cancel was asked for")
        return HandedBack(was_started=was_started, is_preempted=self._is_preempt_wanted)

    def cancel(self) -> None:
        """Stop the work because the cancel of its run was requested. If it cannot be stopped, its own ending counts."""
        if not self._is_cancel_wanted:
            self._is_cancel_wanted = True
            if not self._is_preempt_wanted:  # else it is being stopped, and a second stop would be for good
                self._stop(GENTLY)

    def preempt(self) -> None:
        """Stop the work to make room for more urgent work, and hand it back.

        A success counts, and so does the ending of work that cannot be stopped, unless it fails.
        """
        if not self._is_stop_wanted():
            self._is_preempt_wanted = True
            self._stop(GENTLY)

    def hand_back(self) -> None:
        """Stop the work so that another worker can do it. If it cannot be stopped, it is left behind."""
        if not self._is_hand_back_wanted:
            self._is_hand_back_wanted = True
            self._stop()

    def drop(self) -> None:
        """Stop the work because the lease is lost. Nothing is reported. If it cannot be stopped, it keeps its slot."""
        if not self.is_dropped:
            self.is_dropped = True
            self._stop(GENTLY)

    def _stop(self, message: str | None = None) -> None:
        # A task that is cancelled before its first step never runs, and so could not report its ending.
        if not self._has_begun or self.ending is not None:
            return
        if self._executor is None:
            if self.task is not None:
                self.task.cancel(message)
        elif self.task is None:
            self._message = message
            self.task = asyncio.create_task(self._halt(self._executor))
        elif self._handle is None:
            self.task.cancel(message)
        elif self._message is not None:  # a stop that does not wait stays one
            self._message = message

    async def _halt(self, executor: CallbackExecutor) -> None:
        handle, self._handle = self._handle, None
        if self.ending is None:
            await self._await_end(executor.halt(handle, self._message))


async def _checked(outcome: Awaitable[object]) -> Outcome:
    return check_outcome(await outcome)


def make_context(
    lease: Lease, session_id: SessionId, trace: bytes | None = None, room: LogRoom | None = None
) -> AttemptContext:
    """Return what the executor may know about an attempt.

    Args:
        trace: the trace context that it passes on.
        room: where its output goes while it runs.
    """
    spec = lease.spec
    return AttemptContext(
        lease.run_id,
        lease.job_id,
        spec.name,
        lease.tenant,
        lease.attempt,
        lease.token,
        lease.fire_at,
        lease.due_at,
        lease.target_key,
        lease.payload,
        spec.target.params,
        spec.timeout,
        spec.soft_timeout,
        session_id,
        trace,
        room,
    )
