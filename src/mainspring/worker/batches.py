"""One call for the attempts of a batch, each of which ends for itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from mainspring.core.ids import SessionId, format_run_id
from mainspring.ports.executor import GENTLY, BatchExecutor, Outcome
from mainspring.ports.gateway import Lease
from mainspring.worker.attempt import AttemptTask

_log = structlog.get_logger(__name__)


class BatchMember(AttemptTask):
    """An attempt that shares its call with others.

    It cannot be stopped alone: the call is stopped once all of its attempts are to be stopped. A run whose cancel was
    requested, and whose lease is not lost, ends with what the call says of it: a success stays one.

    Attributes:
        batch: the call.
    """

    __slots__ = ("batch",)

    def __init__(
        self,
        lease: Lease,
        session_id: SessionId,
        on_end: Callable[[AttemptTask], None],
        batch: BatchTask,
    ) -> None:
        super().__init__(lease, session_id, on_end)
        self.batch: BatchTask = batch

    @property
    def is_hand_back_wanted(self) -> bool:
        """Whether another worker is to do the work."""
        return self._is_hand_back_wanted

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for how it ends: it has ended, or is to be stopped."""
        return self.ending is not None or self._is_stop_wanted()

    def end_unstarted(self) -> None:
        """End the attempt because it is to be stopped before its call begins."""
        self._end(self._ending_when_stopped(was_started=False))

    def end(self, outcome: Outcome) -> None:
        """End the attempt as its call says."""
        self._end(outcome)

    def end_stopped(self) -> None:
        """End the attempt because its call was stopped."""
        self._end(self._ending_when_stopped(was_started=True))

    def _stop(self, message: str | None = None) -> None:
        del message
        self.batch.stop_if_over()


class BatchTask:
    """The call of a batch.

    Attributes:
        members: its attempts.
        open: how many of them have not ended.
    """

    def __init__(
        self, leases: Sequence[Lease], session_id: SessionId, on_end: Callable[[AttemptTask], None]
    ) -> None:
        self.members: list[BatchMember] = [BatchMember(lease, session_id, on_end, self) for lease in leases]
        self.open: int = len(leases)
        self.task: asyncio.Task[None] | None = None
        self._called: list[BatchMember] = []
        self._executor: BatchExecutor | None = None
        self._handle: object | None = None
        self._message: str | None = GENTLY

    def begin(self, executor: object) -> None:
        """Call the function for those attempts that are not to be stopped already."""
        for member in self.members:
            if member.ending is None and member.is_over:
                member.end_unstarted()
        self._called = [member for member in self.members if member.ending is None]
        if not self._called:
            return
        if not isinstance(executor, BatchExecutor):
            self._hand_back()
            return
        try:
            contexts = [member.context() for member in self._called]
            self._handle = executor.begin_batch(contexts, self._end)
        except Exception as error:  # noqa: BLE001 - a bug in an executor must not stop the worker
            ids = [format_run_id(member.lease.run_id) for member in self._called]
            _log.error("executor_failed", runs=ids, exc_info=error)
            self._hand_back()
            return
        if self._handle is None:
            self._hand_back()  # claimed by mistake: another worker can do it
        else:
            self._executor = executor

    def _hand_back(self) -> None:
        for member in self._called:
            member.refuse()

    def stop_if_over(self) -> None:
        """Stop the call if all of its attempts are to be stopped. One that is to be done elsewhere leaves no time."""
        if self._executor is None or not all(member.is_over for member in self._called):
            return
        waiting = [member for member in self._called if member.ending is None]
        if not waiting:
            return
        if any(member.is_hand_back_wanted for member in waiting):
            self._message = None
        if self.task is None:
            self.task = asyncio.create_task(self._halt(self._executor))
        elif self._message is None:
            self.task.cancel()

    async def _halt(self, executor: BatchExecutor) -> None:
        if self._handle is None:
            return
        try:
            outcome = await executor.halt(self._handle, self._message)
        except asyncio.CancelledError:
            for member in self._called:
                if member.ending is None:
                    member.end_stopped()
        else:
            self._end(outcome)

    def _end(self, outcome: Outcome) -> None:
        executor, handle = self._executor, self._handle
        assert executor is not None
        assert handle is not None
        self._handle = None  # it refers to this call: break the cycle
        for member, own in zip(self._called, executor.split(handle, outcome), strict=True):
            if member.ending is None:
                member.end(own)
