"""Durable functions: a step that is kept never runs again, a sleep gives up the slot, and names tell steps apart."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import App, DurableContext, InvalidInput, StepFailed
from mainspring.core.checkpoints import Checkpoint
from mainspring.core.outcomes import Failure
from mainspring.errors import Conflict
from mainspring.executors import FunctionExecutor
from mainspring.ports.executor import AttemptContext, Outcome, Snooze, Success
from tests.unit.executors.attempts import make_attempt

START = datetime(2026, 3, 2, tzinfo=UTC)


class Shelf:
    """Keeps steps of one run in memory, from attempt to attempt.

    Attributes:
        is_lost: the lease is another one's.
    """

    def __init__(self) -> None:
        self.kept: list[Checkpoint] = []
        self.now = START
        self.is_lost = False

    async def keep(
        self, context: AttemptContext, name: str, number: int, value: bytes | None, *, is_error: bool
    ) -> datetime:
        if self.is_lost:
            raise Conflict("lease", "is lost")
        self.kept.append(Checkpoint(name, number, context.token, is_error, value, self.now))
        return self.now

    async def read(self, context: AttemptContext) -> tuple[list[Checkpoint], datetime]:
        assert context.token > 1, "before the first lease, nothing can be kept"
        return list(self.kept), self.now


class Bench:
    """Runs the attempts of an app's job one after the other."""

    def __init__(self) -> None:
        self.app, self.shelf, self.ran, self.token = App(), Shelf(), Counter[str](), 1

    def step(self, name: str, result: Any = None) -> Any:
        """Return an async body that counts its calls. An exception is raised."""

        async def body() -> Any:
            self.ran[name] += 1
            if isinstance(result, BaseException):
                raise result
            return result

        return body

    async def attempt(self, payload: bytes | None = None) -> Outcome:
        """Run the next attempt."""
        [name] = self.app.registry.names()
        executor = FunctionExecutor(self.app.registry, steps=self.shelf)
        await executor.start()
        try:
            context = replace(make_attempt({"function": name}, payload=payload), token=self.token)
            return await executor.execute(context)
        finally:
            self.token += 2
            await executor.stop()


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_a_kept_step_never_runs_again(bench: Bench) -> None:
    @bench.app.durable("order")
    async def order(ctx: DurableContext, order_id: str) -> list[Any]:
        first = await ctx.step("charge", bench.step("charge", {"paid": order_id}))
        second = await ctx.step("pack", bench.step("pack", 5))
        if bench.token == 1:
            raise RuntimeError("the end of the first attempt")
        return [first, second, await ctx.step("send", bench.step("send"))]

    assert isinstance(await bench.attempt(b'{"order_id": "o1"}'), Failure)
    assert await bench.attempt(b'{"order_id": "o1"}') == Success(result=b'[{"paid":"o1"},5,null]')
    assert bench.ran == {"charge": 1, "pack": 1, "send": 1}


async def test_a_step_that_fails_is_not_kept_and_runs_again(bench: Bench) -> None:
    outcomes: list[Any] = [ValueError("down"), 7]

    @bench.app.durable()
    async def order(ctx: DurableContext) -> int:
        return int(await ctx.step("charge", bench.step("charge", outcomes.pop(0))))

    failed = await bench.attempt()
    assert isinstance(failed, Failure)
    assert failed.error == "ValueError: down"
    assert bench.shelf.kept == []
    assert await bench.attempt() == Success(result=b"7")


async def test_an_error_that_is_an_answer_is_kept_and_raised_the_same_way_each_time(bench: Bench) -> None:
    caught: list[StepFailed] = []

    @bench.app.durable()
    async def order(ctx: DurableContext) -> str:
        try:
            await ctx.step("charge", bench.step("charge", KeyError("no money")), keep_errors=KeyError)
        except StepFailed as error:
            caught.append(error)
        if bench.token == 1:
            raise RuntimeError("again")
        return "refunded"

    await bench.attempt()
    assert await bench.attempt() == Success(result=b'"refunded"')
    assert bench.ran == {"charge": 1}
    assert [(one.step, one.kind, one.message) for one in caught] == [("charge", "KeyError", "'no money'")] * 2


async def test_a_step_is_tried_again_here_as_often_as_it_says_and_tells_why(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes: list[Any] = [ValueError("1"), ValueError("2"), 3]

    @bench.app.durable()
    async def order(ctx: DurableContext) -> Any:
        async def charge() -> Any:
            return await bench.step("charge", outcomes.pop(0))()

        return await ctx.step("charge", charge, retries=2, backoff=0)

    assert await bench.attempt() == Success(result=b"3")
    assert bench.ran == {"charge": 3}
    told = "a step failed, and is tried again: ValueError: "
    assert [record.getMessage() for record in caplog.records] == [f"{told}1", f"{told}2"]


@dataclass
class Receipt:
    paid: int
    at: datetime


def charge(amount: int) -> Receipt:
    return Receipt(amount, START)


async def test_a_result_is_read_by_the_annotation_now_and_later(bench: Bench) -> None:
    found: list[Receipt] = []

    @bench.app.durable()
    async def order(ctx: DurableContext) -> None:
        found.append(await ctx.step("charge", charge, amount=5))
        if bench.token == 1:
            raise RuntimeError("again")

    await bench.attempt()
    await bench.attempt()
    assert found == [Receipt(5, START)] * 2


async def test_a_result_that_cannot_be_kept_fails_the_run_for_good(bench: Bench) -> None:
    @bench.app.durable()
    async def order(ctx: DurableContext) -> None:
        await ctx.step("charge", bench.step("charge", "x" * 70_000))

    failed = await bench.attempt()
    assert isinstance(failed, Failure)
    assert not failed.is_retryable
    assert failed.error.startswith(
        "step 'charge' is done, but what it returned is 70,002 bytes of JSON; at most 65,536"
    )


async def test_a_sleep_gives_up_the_slot_and_goes_on_when_its_time_has_come(bench: Bench) -> None:
    @bench.app.durable()
    async def order(ctx: DurableContext) -> str:
        await ctx.step("charge", bench.step("charge"))
        await ctx.sleep("3d")
        await ctx.sleep("1h")
        return "slept"

    day = timedelta(days=1)
    first = await bench.attempt()
    assert isinstance(first, Snooze)
    assert 3 * day - timedelta(seconds=5) < first.delay <= 3 * day
    bench.shelf.now += 2 * day
    early = await bench.attempt()  # as after a hand-back: it sleeps for the rest
    assert isinstance(early, Snooze)
    assert day - timedelta(seconds=5) < early.delay <= day
    bench.shelf.now += day
    second = await bench.attempt()
    assert isinstance(second, Snooze)
    assert second.delay <= timedelta(hours=1)
    bench.shelf.now += timedelta(hours=1)
    assert await bench.attempt() == Success(result=b'"slept"')
    assert bench.ran == {"charge": 1}


async def test_a_step_under_way_is_finished_before_the_function_sleeps(bench: Bench) -> None:
    async def slow() -> None:
        release = asyncio.Event()
        # Later than a function that only sleeps is suspended.
        asyncio.get_running_loop().call_later(0.2, release.set)
        await release.wait()
        bench.ran["slow"] += 1

    @bench.app.durable()
    async def order(ctx: DurableContext) -> None:
        await asyncio.gather(ctx.sleep("1h"), ctx.step("slow", slow))

    assert isinstance(await bench.attempt(), Snooze)
    assert bench.ran == {"slow": 1}
    assert [step.name for step in bench.shelf.kept] == ["$sleep", "slow"]


async def test_a_lost_lease_stops_the_body_and_nothing_is_kept(bench: Bench) -> None:
    @bench.app.durable()
    async def order(ctx: DurableContext) -> None:
        bench.shelf.is_lost = True
        try:
            await ctx.step("charge", bench.step("charge"))
        finally:
            bench.ran["clean-up"] += 1
        bench.ran["after"] += 1

    assert isinstance(await bench.attempt(), Failure)
    assert bench.ran == {"charge": 1, "clean-up": 1}
    assert bench.shelf.kept == []


async def test_a_direct_call_keeps_nothing_and_does_not_sleep(bench: Bench) -> None:
    @bench.app.durable()
    async def order(ctx: DurableContext, order_id: str) -> str:
        await ctx.sleep("3d")
        return str(await ctx.step("charge", bench.step("charge", order_id)))

    assert await order("o1") == "o1"


def test_the_version_of_the_code_stands_in_the_functions_name(bench: Bench) -> None:
    @bench.app.durable("order", code_version="2")
    async def order(ctx: DurableContext) -> None: ...

    assert bench.app.registry.names() == ("order@2",)
    assert bench.app.definitions()[0]["function"] == "order@2"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"batch": {"max_size": 5}}, "batch"),
        ({"isolation": "process"}, "isolation"),
        ({"code_version": 2}, "code_version"),
        ({"code_version": "a+b"}, "code_version"),
    ],
)
def test_what_does_not_go_together_is_refused(bench: Bench, options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:

        @bench.app.durable("order", **options)
        async def order(ctx: DurableContext) -> None: ...

    assert caught.value.field == field


def test_only_an_async_function_with_a_context_is_durable(bench: Bench) -> None:
    def sync(ctx: DurableContext) -> None: ...

    async def bare() -> None: ...

    for call, text in ((sync, "must be an async function"), (bare, "must take its context first")):
        with pytest.raises(InvalidInput, match=text):
            bench.app.durable("order")(call)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("", charge), "name"),
        (("x" * 201, charge), "name"),
        (("$sleep", charge), "name"),
        ((5, charge), "name"),
        (("charge", charge(1)), "call"),
    ],
)
async def test_a_wrong_step_is_refused(bench: Bench, arguments: tuple[Any, Any], field: str) -> None:
    context = DurableContext(make_attempt({"function": "it"}), None)
    with pytest.raises(InvalidInput) as caught:
        await context.step(*arguments)
    assert caught.value.field == field


async def test_steps_of_one_name_are_told_apart_by_the_order_in_which_they_begin(bench: Bench) -> None:
    @bench.app.durable()
    async def order(ctx: DurableContext) -> list[int]:
        slow, fast = ctx.step("pack", bench.step("slow", 1)), ctx.step("pack", bench.step("fast", 2))
        second = await fast
        if bench.token == 1:
            slow.close()
            raise RuntimeError("the first one has not begun")
        return [await slow, second]

    await bench.attempt()
    assert [(step.name, step.number, step.value) for step in bench.shelf.kept] == [("pack", 1, b"2")]
    assert await bench.attempt() == Success(result=b"[1,2]")
    assert bench.ran == {"slow": 1, "fast": 1}


async def test_steps_gathered_under_names_recover_whatever_order_they_end_in(bench: Bench) -> None:
    async def fail() -> None:
        if bench.token == 1:
            raise RuntimeError("one of them fails")

    @bench.app.durable()
    async def order(ctx: DurableContext) -> list[Any]:
        steps = [("b", bench.step("b", 2)), ("c", fail), ("a", bench.step("a", 1))]
        ordered = steps if bench.token == 1 else steps[::-1]
        return await asyncio.gather(*(ctx.step(name, body) for name, body in ordered))

    await bench.attempt()
    assert await bench.attempt() == Success(result=b"[1,null,2]")
    assert bench.ran == {"a": 1, "b": 1}
