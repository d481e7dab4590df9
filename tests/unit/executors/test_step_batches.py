"""Steps that end while others are being kept go to the engine in one call, and each attempt hears of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from mainspring.core.checkpoints import CheckpointVerdict, NewCheckpoint
from mainspring.core.ids import RunId, SessionId
from mainspring.engine.usecases.checkpoints import Checkpoints
from mainspring.errors import InvalidInput, StoreUnavailable
from mainspring.executors._step_batches import MOST_TOGETHER, StepBatches
from mainspring.ports.checkpoints import KeptStepPage, KeptSteps
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.conformance.checkpoints import step_of
from mainspring.testing.factories import START, add_job, running_run

KEPT, STALE = CheckpointVerdict.KEPT, CheckpointVerdict.STALE


class Counter:
    """The engine's own keeper of steps behind a gate, with a note of what each call had."""

    def __init__(self, store: MemoryStore) -> None:
        self._keeper = Checkpoints(store, clock=FakeClock(START))
        self.gate = asyncio.Event()
        self.is_asked = asyncio.Event()
        self.calls: list[int] = []
        self.error: Exception | None = None

    async def keep_checkpoints(self, session_id: SessionId, items: Sequence[NewCheckpoint]) -> KeptSteps:
        assert {item.session_id for item in items} == {session_id}
        self.calls.append(len(items))
        self.is_asked.set()
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return await self._keeper.keep(items)

    async def list_checkpoints(
        self, session_id: SessionId, run_id: RunId, token: int, *, after: tuple[str, int] | None = None
    ) -> KeptStepPage:
        return await self._keeper.list_held(session_id, run_id, token, after=after)


async def keep_all(engine: Counter, steps: Sequence[NewCheckpoint]) -> list[KeptSteps | BaseException]:
    """Keep steps at once, while the first one is under way."""
    batches = StepBatches(engine)
    tasks = [asyncio.create_task(batches.keep(step)) for step in steps]
    await engine.is_asked.wait()
    engine.gate.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_steps_go_together_and_each_hears_of_its_own() -> None:
    store = MemoryStore(time=lambda: START)
    held = await running_run(store)
    steps = [step_of(held, f"s{number}") for number in range(6)]
    steps[3] = replace(steps[3], token=held.token + 1)
    engine = Counter(store)
    answers = await keep_all(engine, steps)
    verdicts = [one.verdicts for one in answers if isinstance(one, KeptSteps)]
    assert verdicts == [(KEPT,), (KEPT,), (KEPT,), (STALE,), (KEPT,), (KEPT,)]
    assert engine.calls == [6]


async def test_what_comes_later_waits_for_the_call_under_way() -> None:
    store = MemoryStore(time=lambda: START)
    held = await running_run(store)
    engine = Counter(store)
    batches = StepBatches(engine)
    first = asyncio.create_task(batches.keep(step_of(held, "first")))
    await engine.is_asked.wait()
    rest = [
        asyncio.create_task(batches.keep(step_of(held, "more", number)))
        for number in range(MOST_TOGETHER + 1)
    ]
    gone = asyncio.create_task(batches.keep(step_of(held, "gone")))
    await asyncio.sleep(0)  # so that it has asked before it is gone
    gone.cancel()
    await asyncio.wait({gone})
    engine.gate.set()
    await asyncio.gather(first, *rest)
    assert engine.calls == [1, MOST_TOGETHER, 1], "whoever gave up is left out"
    assert all(step.name != "gone" for step in await store.list_checkpoints(held.run_id, limit=1000))


async def test_one_that_cannot_be_kept_leaves_the_others_alone() -> None:
    store = MemoryStore(time=lambda: START)
    held = await running_run(store)
    engine = Counter(store)
    answers = await keep_all(engine, [step_of(held, "a"), step_of(held, "b", 10_000), step_of(held, "c")])
    assert isinstance(answers[1], InvalidInput)
    assert [one.verdicts for one in (answers[0], answers[2]) if isinstance(one, KeptSteps)] == [(KEPT,)] * 2
    assert engine.calls == [3, 1, 1, 1]


async def test_all_hear_that_the_engine_is_away() -> None:
    store = MemoryStore(time=lambda: START)
    held = await running_run(store)
    engine = Counter(store)
    engine.error = StoreUnavailable("away")
    answers = await keep_all(engine, [step_of(held, "a"), step_of(held, "b")])
    assert all(isinstance(one, StoreUnavailable) for one in answers)
    assert engine.calls == [2]


async def test_each_session_has_calls_of_its_own() -> None:
    store = MemoryStore(time=lambda: START)
    job = await add_job(store)
    one, other = await running_run(store, job), await running_run(store, job)
    assert one.session_id != other.session_id
    engine = Counter(store)
    answers = await keep_all(engine, [step_of(one, "a"), step_of(other, "a"), step_of(one, "b")])
    assert [answer.verdicts for answer in answers if isinstance(answer, KeptSteps)] == [(KEPT,)] * 3
    assert engine.calls == [2, 1]
