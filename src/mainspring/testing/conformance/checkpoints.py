"""Checkpoints are kept under the lease of their run alone, stand, and go after the run is over."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from mainspring.core.checkpoints import Checkpoint, CheckpointVerdict, NewCheckpoint
from mainspring.ports.store import Store
from mainspring.ports.store.claims import HeldRun
from mainspring.testing.conformance.completion import give_back, succeed, take_again
from mainspring.testing.factories import add_session, at, running_run

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

    async def test_nothing_is_asked_for_nothing(self, store: Store) -> None:
        assert await store.keep_checkpoints([], now=at(1)) == []
