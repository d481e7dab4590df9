"""One attempt, from its lease to how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from mainspring.core.ids import format_run_id
from mainspring.core.transitions import Failure
from mainspring.ports.executor import GENTLY, AttemptContext, Executor
from mainspring.ports.gateway import Ending, HandedBack, Lease, Stopped

_log = structlog.get_logger(__name__)


class AttemptTask:
    """An attempt under way in this worker.

    Attributes:
        ending: how it ended; None while it runs, and for good when the lease was lost.
    """

    __slots__ = (
        "_has_begun",
        "_is_cancel_wanted",
        "_is_hand_back_wanted",
        "ending",
        "is_dropped",
        "lease",
        "task",
    )

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.task: asyncio.Task[None] | None = None
        self.ending: Ending | None = None
        self.is_dropped = False
        self._has_begun = False
        self._is_cancel_wanted = False
        self._is_hand_back_wanted = False

    async def run(self, executors: Mapping[str, Executor]) -> None:
        """Carry out the attempt and keep how it ended; never raises."""
        if self._is_cancel_wanted or self._is_hand_back_wanted or self.is_dropped:
            self.ending = self._ending_when_stopped(was_started=False)
            return
        self._has_begun = True
        executor = executors.get(self.lease.spec.target.type)
        try:
            if executor is None:
                self.ending = HandedBack(was_started=False)  # claimed by mistake: another worker can do it
            else:
                self.ending = await executor.execute(_context(self.lease))
        except asyncio.CancelledError:
            self.ending = self._ending_when_stopped(was_started=True)
        except Exception as error:  # noqa: BLE001 - an executor's own bug fails the attempt, not the worker
            _log.exception("executor_failed", run=format_run_id(self.lease.run_id))
            self.ending = Failure(error=f"the executor failed: {type(error).__name__}: {error}")
        if self._is_cancel_wanted and isinstance(self.ending, Failure):
            # The stop surfaced as a failure of the work (a command's exit status): it ended because of the cancel.
            self.ending = Stopped(error=self.ending.error, output=self.ending.output)

    def _ending_when_stopped(self, *, was_started: bool) -> Ending:
        if self._is_cancel_wanted:
            return Stopped(error="stopped because a cancel was asked for")
        return HandedBack(was_started=was_started)

    def cancel(self) -> None:
        """Stop the work because the run's cancel was asked for; what cannot be stopped goes on, and its end counts."""
        if not self._is_cancel_wanted:
            self._is_cancel_wanted = True
            self._stop(GENTLY)

    def hand_back(self) -> None:
        """Stop the work so that another worker can do it; what cannot be stopped is left behind."""
        if not self._is_hand_back_wanted:
            self._is_hand_back_wanted = True
            self._stop()

    def drop(self) -> None:
        """Stop the work because the lease is lost; nothing will be reported. What cannot be stopped keeps its slot."""
        if not self.is_dropped:
            self.is_dropped = True
            self._stop(GENTLY)

    def _stop(self, message: str | None = None) -> None:
        # A task that is cancelled before its first step never runs, not even to say that it has ended.
        if self.task is not None and self._has_begun:
            self.task.cancel(message)


def _context(lease: Lease) -> AttemptContext:
    spec = lease.spec
    return AttemptContext(
        run_id=lease.run_id,
        job_id=lease.job_id,
        job_name=spec.name,
        tenant=lease.tenant,
        attempt=lease.attempt,
        token=lease.token,
        fire_at=lease.fire_at,
        due_at=lease.due_at,
        idempotency_key=lease.idempotency_key,
        payload=lease.payload,
        params=spec.target.params,
        timeout=spec.timeout,
        soft_timeout=spec.soft_timeout,
    )
