"""One call of a registered function for many runs: a list of calls in, an outcome for each out."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Sequence
from typing import Any

import msgspec

from mainspring.core.outcomes import Failure
from mainspring.errors import InvalidInput
from mainspring.executors._calls import BadArguments, FunctionCall, add_output, failed, succeeded
from mainspring.executors._text import ERROR_LIMIT, OUTPUT_LIMIT, clean
from mainspring.executors.output import Kept, enter_batch
from mainspring.ports.executor import AttemptContext, NotBegun, OnEnd, Outcome, Snooze, Success
from mainspring.registry import RegisteredFunction
from mainspring.signals import Call, Done, Failed

_LEAST_OUTPUT = 1024
"""Characters of the output of a call that each of its runs gets at least, however many they are."""


class BatchCall(FunctionCall):
    """A call for the attempts of a batch. To runners it is a call like any other, which returns nothing.

    The time limits are those of the first attempt: all are of one version of a job.
    """

    def __init__(
        self, function: RegisteredFunction, contexts: Sequence[AttemptContext], on_end: OnEnd
    ) -> None:
        super().__init__(function, contexts[0], on_end)
        self._contexts = contexts
        self._outcomes: list[Outcome] = []
        self._kept: Kept | None = None
        self._unread: dict[int, Outcome] = {}

    def begin(self) -> Any:
        """Call the function with the list of calls. What it returns is judged within the call."""
        self._kept = enter_batch()
        calls = self._calls()
        if self._unread and not calls:
            self._keep([])
            return _nothing() if self.function.is_async else None
        if self.function.signature is not None:
            try:
                self.function.signature.bind(calls)
            except TypeError as error:
                message = (
                    f"the function {self.function.name!r} cannot be called with one list of calls: {error}"
                )
                raise BadArguments(message) from None
        result = self.function.call(calls)
        if self.function.is_async:
            return self._finish(result)
        if inspect.isawaitable(result):
            return result
        self._keep(judge(result, len(calls)))
        return None

    def _calls(self) -> list[Call[Any]]:
        """Return the calls whose payload can be read."""
        codec = None if self.function.types is None else self.function.types.item
        calls = []
        for place, context in enumerate(self._contexts):
            payload = _decode(context)
            if codec is not None and not codec.is_plain:
                try:
                    payload = codec.decode(payload, "payload")
                except InvalidInput as error:
                    message = f"does not fit the function {self.function.name!r}: {error.message}"
                    self._unread[place] = failed(BadArguments(f"the payload {message}"))
                    continue
            calls.append(Call(payload, context))
        return calls

    async def _finish(self, result: Awaitable[Any]) -> None:
        self._keep(judge(await result, len(self._contexts) - len(self._unread)))

    def _keep(self, outcomes: list[Outcome]) -> None:
        """Keep the outcomes of the calls that were made, and between them those of payloads that cannot be read."""
        for place in sorted(self._unread):
            outcomes.insert(place, self._unread[place])
        self._outcomes = outcomes

    def split(self, outcome: Outcome) -> Sequence[Outcome]:
        """Return the outcome of each attempt: its own if the call came to its end, else that of all.

        What the call has printed stands with each of its runs, in as much room as its part of the limit.
        """
        outcomes = self._split(outcome)
        if self._kept is None or not self._kept.read():
            return outcomes
        room = max(OUTPUT_LIMIT // len(outcomes), _LEAST_OUTPUT)
        return [
            one if isinstance(one, Snooze | NotBegun) else add_output(one, self._kept, room)
            for one in outcomes
        ]

    def _split(self, outcome: Outcome) -> Sequence[Outcome]:
        if isinstance(outcome, Success) and self._outcomes:
            return self._outcomes
        return [self._unread.get(place, outcome) for place in range(len(self._contexts))]


async def _nothing() -> None:
    """Stand for a call that is not made, because no payload of the batch can be read."""


def judge(result: object, count: int) -> list[Outcome]:
    """Return the outcomes that a function has returned for its calls.

    None stands for success of all. If the function returns anything else than an outcome for each, nobody knows what
    has been done, so there is no retry.
    """
    if result is None:
        return [Success()] * count
    if not isinstance(result, list | tuple):
        return _refuse(f"must return a list of outcomes, or None, not {type(result).__name__}", count)
    if len(result) != count:
        return _refuse(f"returned {len(result)} outcomes for {count} calls", count)
    return [_outcome_of(one, place) for place, one in enumerate(result)]


def _outcome_of(one: object, place: int) -> Outcome:
    if isinstance(one, Done):
        return succeeded(one.result)
    if isinstance(one, Failed):
        text = clean(str(one.error), ERROR_LIMIT)
        return Failure(error=text, is_retryable=one.retry, retry_after=one.after)
    if isinstance(one, BaseException):
        return failed(one)
    [refused] = _refuse(f"returned {type(one).__name__} as outcome {place}; return Done or Failed", 1)
    return refused


def _refuse(message: str, count: int) -> list[Outcome]:
    return [Failure(error=f"the function {message}", is_retryable=False)] * count


def _decode(context: AttemptContext) -> Any:
    try:
        return None if context.payload is None else msgspec.json.decode(context.payload)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadArguments(f"a payload cannot be read as JSON: {error}") from None
