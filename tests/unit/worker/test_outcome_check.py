"""Executors of packages: what they return is checked before it is reported, and what they raise ends no worker."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.fields import MAX_DEPTH
from mainspring.core.ids import SessionId
from mainspring.core.model import INLINE_LIMIT
from mainspring.core.outcomes import Failure
from mainspring.core.results import read_mark
from mainspring.ports.executor import AttemptContext, Snooze, Success
from mainspring.ports.gateway import Ending
from mainspring.worker.attempt import AttemptTask
from mainspring.worker.outcome_check import TEXT_LIMIT
from tests.unit.worker.test_worker import make_lease


class Toy:
    type = "test"

    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def execute(self, context: AttemptContext) -> Any:
        await asyncio.sleep(0)
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


async def ending_of(outcome: object) -> Ending | None:
    attempt = AttemptTask(make_lease(1), SessionId(1))
    attempt.task = asyncio.create_task(attempt.run({"test": Toy(outcome)}))
    await attempt.task
    return attempt.ending


@pytest.mark.parametrize(
    "outcome",
    [
        Success(),
        Success(result=b'{"a": [1, null]}', output="said"),
        Success(result=b'"' + b"1" * (INLINE_LIMIT - 2) + b'"'),
        Success(result=b"[" * MAX_DEPTH + b"]" * MAX_DEPTH),
        Failure(error="no", is_retryable=False, retry_after=timedelta(1), result=b"2"),
        Snooze(timedelta(seconds=3)),
    ],
    ids=lambda outcome: str(outcome)[:60],
)
async def test_outcome_that_is_right_is_reported_as_it_is(outcome: object) -> None:
    assert await ending_of(outcome) == outcome


@pytest.mark.parametrize(
    ("outcome", "note"),
    [
        (Success(result=b"{not json"), "the result is not JSON"),
        (Success(result=b'"\xff"'), "the result is not JSON"),
        (Success(result=b""), "the result is not JSON"),
        (Failure(error="no", result=b"{not json"), "the result is not JSON"),
        (Success(result="1"), "the executor's result must be JSON text in bytes, or None, not str"),  # type: ignore[arg-type]
        (
            Success(result=b"1" * (INLINE_LIMIT + 1)),
            "the result is 65,537 bytes of JSON; at most 65,536 can be kept",
        ),
        (
            Success(result=b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1)),
            f"the result is nested deeper than {MAX_DEPTH} levels",
        ),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
async def test_result_that_no_one_could_read_is_left_out(outcome: Any, note: str) -> None:
    ending = await ending_of(outcome)
    assert isinstance(ending, type(outcome))
    mark = read_mark(ending.result)
    assert mark is not None
    assert mark.note.startswith(note)


async def test_what_is_no_outcome_is_a_failure() -> None:
    error = "the executor must return Success, Failure or Snooze, not NoneType"
    assert await ending_of(None) == Failure(error=error, is_retryable=False)


async def test_result_cannot_look_like_a_mark() -> None:
    assert await ending_of(Success(result=b' {"a": 1}')) == Success(result=b'{"a": 1}')


async def test_texts_are_cut_and_can_be_stored() -> None:
    assert await ending_of(Success(output="x" * 10_000_000)) == Success(output="x" * TEXT_LIMIT)
    ending = await ending_of(Failure(error="x" * 10_000_000, output="\0\ud800"))
    assert isinstance(ending, Failure)
    assert (ending.error, len(ending.output or "")) == ("x" * TEXT_LIMIT, 2)
    assert not {"\0", "\ud800"} & set(ending.output or "")


@pytest.mark.parametrize("error", [SystemExit(3), ZeroDivisionError("by zero")], ids=repr)
async def test_what_it_raises_fails_the_attempt_alone(error: BaseException) -> None:
    ending = await ending_of(error)
    assert ending == Failure(error=f"the executor failed: {type(error).__name__}: {error}")
