"""An attempt that is stopped before its first step: its task must run all the same, or its slot is lost for good."""

import asyncio
import weakref
from collections.abc import Callable
from datetime import timedelta

import pytest

from mainspring.core.ids import SessionId
from mainspring.core.outcomes import Failure
from mainspring.ports.executor import GENTLY, AttemptContext, OnEnd, Outcome, Snooze, Success
from mainspring.ports.gateway import Ending, HandedBack, Stopped
from mainspring.worker.attempt import AttemptTask
from tests.unit.worker.test_worker import make_lease


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
        (AttemptTask.preempt, HandedBack(was_started=False, is_preempted=True)),
    ],
)
async def test_attempt_that_is_stopped_at_once_says_so(
    stop: Callable[[AttemptTask], None], expected: Ending
) -> None:
    attempt = AttemptTask(make_lease(1), SessionId(1))
    attempt.task = asyncio.create_task(attempt.run({"test": Never()}))
    stop(attempt)
    await attempt.task
    assert attempt.ending == expected


async def test_attempt_that_has_ended_is_not_stopped() -> None:
    class Once(Never):
        async def execute(self, context: AttemptContext) -> Outcome:
            return Success(result=b"1")

    attempt = AttemptTask(make_lease(1), SessionId(1))
    attempt.task = asyncio.create_task(attempt.run({"test": Once()}))
    await attempt.task
    attempt.cancel()
    assert attempt.ending == Success(result=b"1")


class Told(Never):
    """An executor that begins attempts without tasks, and ends them when the test says so."""

    def __init__(self) -> None:
        self.on_ends: list[OnEnd] = []
        self.messages: list[str | None] = []
        self.has_handle = True

    def begin(self, context: AttemptContext, on_end: OnEnd) -> object | None:
        self.on_ends.append(on_end)
        return object() if self.has_handle else None

    async def halt(self, handle: object, message: str | None) -> Outcome:
        self.messages.append(message)
        if message == GENTLY:
            return Success(result=b"2")
        raise asyncio.CancelledError


def begun(executor: Told) -> tuple[AttemptTask, list[AttemptTask]]:
    ended: list[AttemptTask] = []
    attempt = AttemptTask(make_lease(1), SessionId(1), ended.append)
    assert attempt.begin(executor)
    return attempt, ended


async def test_attempt_without_a_task_ends_when_its_executor_says_so() -> None:
    executor = Told()
    attempt, ended = begun(executor)
    assert (ended, attempt.task) == ([], None)
    executor.on_ends[0](Success(result=b"1"))
    assert ended == [attempt]
    assert attempt.ending == Success(result=b"1")
    attempt.cancel()
    assert attempt.task is None


class Handle:
    """What an executor keeps of an attempt under way."""

    def __init__(self, on_end: OnEnd) -> None:
        self.on_end = on_end


@pytest.mark.parametrize("is_at_once", [False, True])
async def test_ended_attempt_keeps_nothing_that_knows_it(is_at_once: bool) -> None:
    """Else the two would wait for the collector, which took a tenth of a busy worker's time."""
    handles: list[Handle] = []

    class Keeping(Told):
        def begin(self, context: AttemptContext, on_end: OnEnd) -> object | None:
            handles.append(Handle(on_end))
            if is_at_once:
                on_end(Success())
            return handles[0]

    attempt, _ = begun(Keeping())
    handle = handles.pop()
    if not is_at_once:
        handle.on_end(Success())
    left = weakref.ref(handle)
    del handle
    assert left() is None
    assert attempt.ending == Success()


@pytest.mark.parametrize("stop", [AttemptTask.cancel, AttemptTask.hand_back, AttemptTask.drop])
async def test_attempt_that_is_stopped_at_once_is_not_begun(stop: Callable[[AttemptTask], None]) -> None:
    executor = Told()
    attempt = AttemptTask(make_lease(1), SessionId(1))
    stop(attempt)
    assert not attempt.begin(executor)
    assert executor.on_ends == []


async def test_attempt_that_its_executor_does_not_begin_is_left_to_a_task() -> None:
    executor = Told()
    executor.has_handle = False
    attempt = AttemptTask(make_lease(1), SessionId(1))
    assert not attempt.begin(executor)
    assert attempt.ending is None


async def test_executor_that_cannot_begin_fails_the_attempt() -> None:
    class Broken(Told):
        def begin(self, context: AttemptContext, on_end: OnEnd) -> object | None:
            raise RuntimeError("no thread")

    attempt, ended = begun(Broken())
    assert ended == [attempt]
    assert attempt.ending == Failure(error="the executor failed: RuntimeError: no thread")


@pytest.mark.parametrize(
    ("stops", "messages", "ending"),
    [
        ([AttemptTask.cancel], [GENTLY], Success(result=b"2")),
        ([AttemptTask.drop], [GENTLY], Success(result=b"2")),
        ([AttemptTask.hand_back], [None], HandedBack(was_started=True)),
        (
            [AttemptTask.cancel, AttemptTask.hand_back],
            [None],
            Stopped(error="stopped because a cancel was asked for"),
        ),
        ([AttemptTask.hand_back, AttemptTask.drop], [None], HandedBack(was_started=True)),
        ([AttemptTask.preempt], [GENTLY], Success(result=b"2")),
        ([AttemptTask.preempt, AttemptTask.preempt], [GENTLY], Success(result=b"2")),
        ([AttemptTask.preempt, AttemptTask.cancel], [GENTLY], Success(result=b"2")),
        (
            [AttemptTask.preempt, AttemptTask.hand_back],
            [None],
            HandedBack(was_started=True, is_preempted=True),
        ),
        ([AttemptTask.hand_back, AttemptTask.preempt], [None], HandedBack(was_started=True)),
    ],
)
async def test_attempt_without_a_task_is_stopped_in_one(
    stops: list[Callable[[AttemptTask], None]], messages: list[str | None], ending: Ending
) -> None:
    """However many stops come before its first step: whoever would not wait is not made to."""
    executor = Told()
    attempt, ended = begun(executor)
    for stop in stops:
        stop(attempt)
    assert attempt.task is not None
    await attempt.task
    assert executor.messages == messages
    assert ended == [attempt]
    assert attempt.ending == ending


async def test_end_that_comes_before_the_stop_is_the_end() -> None:
    executor = Told()
    attempt, ended = begun(executor)
    attempt.hand_back()
    executor.on_ends[0](Success(result=b"1"))
    assert attempt.task is not None
    await attempt.task
    assert (ended, attempt.ending, executor.messages) == ([attempt], Success(result=b"1"), [])


@pytest.mark.parametrize(
    ("outcome", "ending"),
    [
        (Failure(error="exit status 143"), HandedBack(was_started=True, is_preempted=True)),
        (Failure(error="timed out", is_timeout=True), Failure(error="timed out", is_timeout=True)),
        (Success(result=b"1"), Success(result=b"1")),
        (Snooze(timedelta(seconds=1)), Snooze(timedelta(seconds=1))),
    ],
)
async def test_preempted_attempt_that_ends_by_itself_only_hides_the_failure(
    outcome: Outcome, ending: Ending
) -> None:
    """The stop shows as a failure of the work."""
    executor = Told()
    attempt, _ = begun(executor)
    attempt.preempt()
    executor.on_ends[0](outcome)
    assert attempt.task is not None
    await attempt.task
    assert attempt.ending == ending


async def test_preempted_attempt_that_is_cancelled_meanwhile_ends_as_cancelled() -> None:
    executor = Told()
    attempt, _ = begun(executor)
    attempt.preempt()
    attempt.cancel()
    executor.on_ends[0](Failure(error="exit status 143"))
    assert attempt.task is not None
    await attempt.task
    assert attempt.ending == Stopped(error="exit status 143")
