"""Checkpoints are kept under the lease of their run alone, stand, and go after the run is over."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from mainspring.core import outcomes
from mainspring.core.checkpoints import Checkpoint, CheckpointVerdict, NewCheckpoint
from mainspring.core.ids import RunId
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.claims import HeldRun
from mainspring.testing.conformance.claiming import crashed_run
from mainspring.testing.conformance.completion import give_back, succeed, take_again
from mainspring.testing.factories import (
    add_job,
    add_session,
    at,
    claim,
    facts_of,
    make_spec,
    read_held,
    running_run,
)

KEPT, KNOWN, STALE = CheckpointVerdict.KEPT, CheckpointVerdict.KNOWN, CheckpointVerdict.STALE


def step_of(
    held: HeldRun,
    name: str = "charge",
    number: int = 0,
    value: bytes | None = b"1",
    *,
    is_error: bool = False,
) -> NewCheckpoint:
    """Return a step of the lease's holder."""
    return NewCheckpoint(held.run_id, held.token, held.session_id, name, number, is_error, value)


class CheckpointsAreFenced:
    """What steps of durable functions have come to."""

    __test__ = False

    async def test_steps_are_kept_and_listed_by_name_and_number(self, store: Store) -> None:
        held = await running_run(store)
        items = [
            step_of(held, "pack", 10, b'"b"'),
            step_of(held, "pack", 9, None),
            step_of(held, "Pack", 0, b'{"kind": "E"}', is_error=True),
            step_of(held, "ä", 0),
        ]
        assert await store.keep_checkpoints(items, now=at(1)) == [KEPT] * 4
        token = held.token
        expected = [
            Checkpoint("Pack", 0, token, True, b'{"kind": "E"}', at(1)),
            Checkpoint("pack", 9, token, False, None, at(1)),
            Checkpoint("pack", 10, token, False, b'"b"', at(1)),
            Checkpoint("ä", 0, token, False, b"1", at(1)),
        ]
        assert await store.list_checkpoints(held.run_id) == expected
        assert await store.list_checkpoints(held.run_id, limit=2) == expected[:2]
        assert await store.list_checkpoints(held.run_id, after=("pack", 9)) == expected[2:]

    async def test_what_is_kept_stands(self, store: Store) -> None:
        held = await running_run(store)
        first = step_of(held, value=b"1")
        other = replace(first, value=b"2")
        assert await store.keep_checkpoints([first, other], now=at(1)) == [KEPT, KNOWN]
        assert await store.keep_checkpoints([other, step_of(held, "next")], now=at(2)) == [KNOWN, KEPT]
        [charge, _] = await store.list_checkpoints(held.run_id)
        assert (charge.value, charge.kept_at) == (b"1", at(1))

    async def test_a_late_holder_is_refused(self, store: Store) -> None:
        held = await running_run(store)
        item = step_of(held)
        other = await add_session(store)
        foreign = [replace(item, session_id=other), replace(item, token=held.token + 1)]
        assert await store.keep_checkpoints(foreign, now=at(1)) == [STALE, STALE]
        await store.apply([give_back(held, now=2)], now=at(2))
        assert await store.keep_checkpoints([item], now=at(3)) == [STALE]
        again = await take_again(store, held.run_id, now=4)
        items = [item, step_of(again, value=b"2")]
        assert await store.keep_checkpoints(items, now=at(5)) == [STALE, KEPT]
        assert [step.value for step in await store.list_checkpoints(held.run_id)] == [b"2"]
        await store.apply([succeed(again)], now=at(6))
        assert await store.keep_checkpoints([step_of(again, "late")], now=at(7)) == [STALE]

    async def test_steps_outlast_the_attempt(self, store: Store) -> None:
        held = await running_run(store)
        await store.keep_checkpoints([step_of(held)], now=at(1))
        await store.apply([give_back(held, now=2)], now=at(2))
        again = await take_again(store, held.run_id, now=4)
        assert await store.keep_checkpoints([step_of(again, value=b"2")], now=at(5)) == [KNOWN]
        [step] = await store.list_checkpoints(held.run_id)
        assert (step.token, step.value) == (held.token, b"1")

    async def test_steps_of_a_run_under_way_are_not_pruned(self, store: Store) -> None:
        held = await running_run(store)
        await store.keep_checkpoints([step_of(held), step_of(held, "next")], now=at(1))
        later = at(2) + timedelta(days=400)
        assert await store.prune_checkpoints(before=later, limit=10) == 0
        await store.apply([succeed(held)], now=at(3))
        assert await store.prune_checkpoints(before=at(1), limit=10) == 0
        assert await store.prune_checkpoints(before=later, limit=1) == 1
        assert await store.prune_checkpoints(before=later, limit=10) == 1
        assert await store.list_checkpoints(held.run_id) == []

    async def test_a_step_begins_the_count_of_crashes_anew(self, store: Store) -> None:
        spec = make_spec(poison_limit=2)
        run_id = await crashed_run(store, await add_job(store, spec))
        for turn in range(3):
            held = await self._take_quarantined(store, run_id, now=turn + 1)
            assert (held.is_quarantined, held.quarantined_crashes) == (True, min(turn, 1))
            assert await store.keep_checkpoints([step_of(held, f"{turn}")], now=at(turn + 1)) == [KEPT]
            assert (await read_held(store, run_id)).quarantined_crashes == 0
            held = await read_held(store, run_id)
            await store.apply([outcomes.lost(facts_of(held), spec, now=at(turn + 1))], now=at(turn + 1))
        held = await self._take_quarantined(store, run_id, now=5)
        assert (held.is_quarantined, held.quarantined_crashes) == (True, 1), "it stays alone"
        stale = replace(step_of(held, "late"), token=held.token - 1)
        assert await store.keep_checkpoints([stale], now=at(5)) == [STALE]
        held = await read_held(store, run_id)
        assert held.quarantined_crashes == 1, "what is not kept is no progress"
        await store.apply([outcomes.lost(facts_of(held), spec, now=at(5))], now=at(5))
        [run] = await store.get_runs([run_id])
        assert run is not None
        assert (run.state, run.reason, run.crashes) == (RunState.FAILED, "poison", 5)

    async def _take_quarantined(self, store: Store, run_id: RunId, *, now: int) -> HeldRun:
        [leased] = await claim(store, await add_session(store), now=at(now), is_quarantined=True)
        assert leased.run_id == run_id
        return await read_held(store, run_id)

    async def test_steps_of_many_runs_are_kept_at_once(self, store: Store) -> None:
        job = await add_job(store)
        held = [await running_run(store, job) for _ in range(3)]
        items = [step_of(one, name, number) for name in ("b", "a") for number in (1, 0) for one in held]
        items.insert(2, replace(items[0], token=items[0].token + 7))
        verdicts = await store.keep_checkpoints(items, now=at(1))
        assert verdicts == [KEPT, KEPT, STALE, *[KEPT] * 10]
        again = await store.keep_checkpoints(items, now=at(2))
        assert again == [KNOWN, KNOWN, STALE, *[KNOWN] * 10]
        for one in held:
            found = await store.list_checkpoints(one.run_id)
            assert [(step.name, step.number) for step in found] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]

    async def test_two_calls_that_keep_the_same_step_keep_one(self, store: Store) -> None:
        held = await running_run(store)
        calls = [store.keep_checkpoints([step_of(held, value=b"%d" % one)], now=at(1)) for one in range(4)]
        verdicts = [verdict for answer in await asyncio.gather(*calls) for verdict in answer]
        assert sorted(verdicts) == sorted([KEPT, KNOWN, KNOWN, KNOWN])
        [step] = await store.list_checkpoints(held.run_id)
        assert step.value == b"%d" % verdicts.index(KEPT)

    async def test_nothing_is_asked_for_nothing(self, store: Store) -> None:
        assert await store.keep_checkpoints([], now=at(1)) == []
