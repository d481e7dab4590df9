"""The calls that answer steps of workflows that wait."""

from __future__ import annotations

from typing import Any

from mainspring.sdk.transport import Transport
from mainspring.wire import operations
from mainspring.wire.answers import AnswerView


class AnswerCalls(Transport):
    """A part of `AsyncClient`. Each call may be repeated: an answer that is there already changes nothing."""

    async def send_signal(self, run_id: str, name: str, data: Any = None) -> AnswerView:
        """Give a signal to the steps of a workflow's run that wait for it, or will.

        Args:
            name: that of the signal.
            data: any JSON, which the steps return.
        """
        body = {"name": name} if data is None else {"name": name, "data": data}
        return await self.call(operations.SEND_SIGNAL, run_id, body=body, may_repeat=True)

    async def approve_step(self, run_id: str, step: str, *, comment: str | None = None) -> AnswerView:
        """Approve of a step that waits for that, or will.

        Args:
            step: its name.
            comment: why. The run shows it.
        """
        body = {"step": step, "comment": comment}
        return await self.call(operations.APPROVE_RUN_STEP, run_id, body=body, may_repeat=True)

    async def reject_step(self, run_id: str, step: str, *, comment: str | None = None) -> AnswerView:
        """Reject what a step asks for, so that it fails.

        Args:
            step: its name.
            comment: why. The run shows it.
        """
        body = {"step": step, "comment": comment}
        return await self.call(operations.REJECT_RUN_STEP, run_id, body=body, may_repeat=True)

    async def complete_step(
        self, run_id: str, step: str, data: Any = None, *, comment: str | None = None
    ) -> AnswerView:
        """End the wait of a step by hand, as if what it waits for had come.

        Args:
            step: its name.
            data: any JSON, which the step returns.
            comment: why. The run shows it.
        """
        body = {"step": step, "comment": comment} | ({} if data is None else {"data": data})
        return await self.call(operations.COMPLETE_RUN_STEP, run_id, body=body, may_repeat=True)
