"""An attempt that is stopped before its first step: its task must run all the same, or its slot is lost for good."""

import asyncio
from collections.abc import Callable

import pytest

from mainspring.engine.attempt import AttemptTask
from mainspring.ports.executor import AttemptContext, Outcome, Success
from mainspring.ports.gateway import Ending, HandedBack, Stopped
from tests.unit.engine.test_worker import make_lease


class Never:
    """An executor that must not be asked."""

    type = "test"

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def execute(self, context: AttemptContext) -> Outcome:
        raise AssertionError("begun")


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (AttemptTask.cancel, Stopped(error="stopped because a cancel was asked for")),
        (AttemptTask.hand_back, HandedBack(was_started=False)),
        (AttemptTask.drop, HandedBack(was_started=False)),
    ],
)
async def test_attempt_that_is_stopped_at_once_says_so(
    stop: Callable[[AttemptTask], None], expected: Ending
) -> None:
    attempt = AttemptTask(make_lease(1))
    attempt.task = asyncio.create_task(attempt.run({"test": Never()}))
    stop(attempt)
    await attempt.task
    assert attempt.ending == expected


async def test_attempt_that_has_ended_is_not_stopped() -> None:
    class Once(Never):
        async def execute(self, context: AttemptContext) -> Outcome:
            return Success(result=b"1")

    attempt = AttemptTask(make_lease(1))
    attempt.task = asyncio.create_task(attempt.run({"test": Once()}))
    await attempt.task
    attempt.cancel()
    assert attempt.ending == Success(result=b"1")
