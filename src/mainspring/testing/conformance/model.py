"""The model test: a random walk through the store's verbs, step by step on the store and on `MemoryStore`.

Both must give the same answers, and show the same rows at intervals and at the end. The moves include unsafe ones:
edits and resumes in any state of a job, stale revisions, repeats with other outcomes, reports of other sessions, one
run twice in a call. The walk does not depend on what a store may decide for itself: each run has a `ready_at` of its
own. A failure names its seed and step, and can be repeated exactly.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from mainspring.ports.store import Store
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.conformance.model_jobs import JobMoves
from mainspring.testing.conformance.model_runs import RunMoves

STEPS = 400
COMPARE_EVERY = 50


class AgreesWithMemory:
    """Whatever is done to the store, it gives the same answers as the memory store."""

    __test__ = False

    @pytest.mark.parametrize("seed", range(5))
    async def test_random_walk_agrees_with_the_memory_store(self, store: Store, seed: int) -> None:
        reference = MemoryStore(time=FakeClock().now)
        await Walk(reference, store, seed=seed).run(STEPS)


class Walk(JobMoves, RunMoves):
    """A seeded walk over two stores."""

    async def run(self, steps: int) -> None:
        """Walk this many steps, and compare everything at the end."""
        actions: dict[Callable[[], Awaitable[None]], int] = {
            self.add_jobs: 4,
            self.edit: 3,
            self.pause: 2,
            self.resume: 3,
            self.delete: 1,
            self.take_shards: 2,
            self.fire: 14,
            self.fire_set: 6,
            self.add_fire_range: 2,
            self.advance_fire_range: 6,
            self.submit: 10,
            self.submit_guarded: 8,
            self.open_session: 3,
            self.claim: 20,
            self.submit_claimed: 6,
            self.apply: 16,
            self.repeat_end: 3,
            self.cancel: 4,
            self.expire_runs: 1,
            self.beat: 6,
            self.end_session: 2,
            self.prune: 1,
        }
        await self.open_session()
        await self.add_jobs()
        await self.take_shards()
        for number in range(steps):
            self.now += timedelta(seconds=self.random.choice((0.5, 1, 5, 30)))
            [action] = self.random.choices(list(actions), list(actions.values()))
            self.log.append(f"{number}: {action.__name__}")
            await action()
            if number % COMPARE_EVERY == COMPARE_EVERY - 1:
                await self.compare()
        await self.compare()
