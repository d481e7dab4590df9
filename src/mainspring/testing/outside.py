"""What a job under test would do outside this process: HTTP callbacks and commands. A test answers for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from mainspring.core.causes import Cause
from mainspring.core.ids import format_run_id
from mainspring.core.outcomes import Failure
from mainspring.core.values import value
from mainspring.ports.executor import AttemptContext, Outcome, Snooze, Success

_GONE = 410
_HINTS = {
    "http": "app.testing(http=lambda call: 200)",
    "shell": "app.testing(shell=lambda call: 0)",
}


@value()
class OutsideCall:
    """An HTTP callback or a command that a job under test asked for.

    Attributes:
        type: `http` or `shell`.
        job: the job's name.
        run_id: the run, `run_…`.
        attempt: from 1.
        params: the target's fields: `url`, `method`, `headers`; or `command`, `env` and so on.
        payload: the run's payload, decoded.
    """

    type: str
    job: str
    run_id: str
    attempt: int
    params: dict[str, Any]
    payload: Any


Answer = int | tuple[int, str] | Success | Failure | Snooze
"""A status or an exit code, alone or with the text that comes with it, or an outcome as executors give it."""
Handler = Callable[[OutsideCall], Answer]


class Outside:
    """Records calls, and has a test's handlers answer them.

    Attributes:
        calls: all calls so far.
    """

    def __init__(self, handlers: dict[str, Handler | None]) -> None:
        self._handlers = handlers
        self.calls: list[OutsideCall] = []

    def execute(self, context: AttemptContext, kind: str) -> Outcome:
        """Answer an attempt. What the handler raises is for the caller."""
        call = OutsideCall(
            type=kind,
            job=context.job_name,
            run_id=format_run_id(context.run_id),
            attempt=context.attempt,
            params=dict(context.params),
            payload=None if context.payload is None else msgspec.json.decode(context.payload),
        )
        self.calls.append(call)
        handler = self._handlers.get(kind)
        if handler is None:
            hint = _HINTS.get(kind, "a function job")
            text = f"a test carries out no {kind} job by itself; give an answer: {hint}"
            return Failure(error=text, is_retryable=False)
        answer = handler(call)
        if isinstance(answer, Success | Failure | Snooze):
            return answer
        judge = _judge_status if kind == "http" else _judge_exit
        return judge(*answer) if isinstance(answer, tuple) else judge(answer)


def _judge_status(status: int, text: str | None = None) -> Outcome:
    result = b'{"status":%d}' % status
    if 200 <= status < 300:
        return Success(result=result, output=text)
    error = f"response status {status}"
    cause = Cause(status=status)
    return Failure(error=error, output=text, result=result, is_retryable=status != _GONE, cause=cause)


def _judge_exit(code: int, text: str | None = None) -> Outcome:
    result = b'{"exit_code":%d}' % code
    if code == 0:
        return Success(result=result, output=text)
    return Failure(error=f"exit status {code}", output=text, result=result, cause=Cause(exit_code=code))
