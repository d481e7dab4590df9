"""A worker calls a function with what its annotations say."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import date
from decimal import Decimal
from typing import Any

import msgspec
import pydantic
import pytest

from mainspring.core.outcomes import Failure
from mainspring.executors import FunctionExecutor
from mainspring.ports.executor import Outcome, Success
from mainspring.registry import FunctionRegistry
from mainspring.signals import Call, Done
from tests.unit.executors.attempts import make_attempt


@dataclasses.dataclass
class Order:
    id: int
    price: Decimal


class Customer(pydantic.BaseModel):
    born: date


async def _run(function: Any, payload: object) -> Outcome:
    registry = FunctionRegistry()
    registry.add("f", function)
    executor = FunctionExecutor(registry)
    await executor.start()
    try:
        return await executor.execute(make_attempt({"function": "f"}, payload=msgspec.json.encode(payload)))
    finally:
        await executor.stop()


async def _run_batch(function: Any, payloads: list[object]) -> list[Outcome]:
    registry = FunctionRegistry()
    registry.add("f", function)
    executor = FunctionExecutor(registry)
    await executor.start()
    ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    contexts = [make_attempt({"function": "f"}, payload=msgspec.json.encode(one)) for one in payloads]
    try:
        handle = executor.begin_batch(contexts, ended.set_result)
        return list(executor.split(handle, await ended))
    finally:
        await executor.stop()


async def test_arguments_are_read_by_their_annotations() -> None:
    seen: list[object] = []

    def work(order: Order, *days: date, **customers: Customer) -> None:
        seen.extend([order, days, customers])

    assert await _run(work, [{"id": 1, "price": "2.5"}, "2026-01-02"]) == Success()
    assert seen == [Order(1, Decimal("2.5")), (date(2026, 1, 2),), {}]
    seen.clear()
    assert await _run(work, {"order": {"id": 1, "price": 2}, "ada": {"born": "1815-12-10"}}) == Success()
    assert seen == [Order(1, Decimal(2)), (), {"ada": Customer(born=date(1815, 12, 10))}]


async def test_plain_annotations_take_what_is_stored() -> None:
    async def work(count: int, *, name: str = "", note: str | None = None) -> list[object]:
        return [count, name, note]

    outcome = await _run(work, {"count": "three", "name": 5, "note": [1]})
    assert outcome == Success(result=b'["three",5,[1]]')


async def test_a_payload_that_cannot_be_read_fails_at_once() -> None:
    async def work(order: Order) -> None:
        raise AssertionError("it must not be called")

    outcome = await _run(work, {"order": {"id": "x", "price": 1}})
    assert isinstance(outcome, Failure)
    assert not outcome.is_retryable
    assert outcome.error == (
        "the payload does not fit the function 'f': order: must be Order: expected int, got str, at id"
    )


async def test_a_result_of_pydantic_becomes_json() -> None:
    async def work() -> list[Customer]:
        return [Customer(born=date(2026, 1, 2))]

    assert await _run(work, None) == Success(result=b'[{"born":"2026-01-02"}]')


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_batch_leaves_out_what_cannot_be_read(is_async: bool) -> None:
    def gather(calls: list[Call[Order]]) -> list[Done]:
        return [Done(str(call.payload.price)) for call in calls]

    async def gather_async(calls: list[Call[Order]]) -> list[Done]:
        return gather(calls)

    payloads: list[object] = [{"id": 1, "price": "1"}, {"id": 2}, {"id": 3, "price": "3"}, 5]
    outcomes = await _run_batch(gather_async if is_async else gather, payloads)
    assert outcomes[0] == Success(result=b'"1"')
    assert outcomes[2] == Success(result=b'"3"')
    for refused, kind in (
        (outcomes[1], "Object missing required field price"),
        (outcomes[3], "not a number"),
    ):
        assert isinstance(refused, Failure)
        assert not refused.is_retryable
        assert "payload" in refused.error
        assert kind in refused.error
    only_bad = await _run_batch(gather_async if is_async else gather, [5, 6])
    assert all(isinstance(one, Failure) for one in only_bad)


async def test_a_failed_batch_keeps_what_could_not_be_read_from_a_retry() -> None:
    def gather(calls: list[Call[Order]]) -> None:
        raise OSError("later")

    good, bad = await _run_batch(gather, [{"id": 1, "price": "1"}, 5])
    assert isinstance(good, Failure)
    assert isinstance(bad, Failure)
    assert (good.is_retryable, bad.is_retryable) == (True, False)
