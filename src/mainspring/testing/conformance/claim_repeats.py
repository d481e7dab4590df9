"""Claims that are repeated, or that come too late."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from mainspring.core import outcomes
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ClaimRequest, ClaimResult
from mainspring.testing.conformance.claiming import hand_back, ids_of
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    all_lanes,
    at,
    claim,
    make_claim,
    submit,
)


class ClaimRepeats:
    """A claim whose answer was lost is repeated, and gets the same leases."""

    __test__ = False

    async def _first(self, store: Store, number: int = 5) -> tuple[ClaimRequest, ClaimResult]:
        await submit(store, await add_job(store), number)
        request = make_claim(await add_session(store), await all_lanes(store), limit=3)
        [result] = await store.claim_runs([request], now=START)
        assert len(result.runs) == min(number, 3)
        return request, result

    async def test_repeat_gives_the_same_leases_and_nothing_new(self, store: Store) -> None:
        request, result = await self._first(store)
        [again] = await store.claim_runs([request], now=at(1))
        assert again.is_session_live
        assert sorted(again.runs, key=lambda run: run.run_id) == sorted(
            result.runs, key=lambda run: run.run_id
        )
        assert (await store.count_runs("default"))[RunState.RUNNING] == 3

    async def test_repeat_gives_nothing_of_another_session(self, store: Store) -> None:
        await submit(store, await add_job(store), 2)
        lanes = await all_lanes(store)
        requests = [make_claim(await add_session(store), lanes, number=1) for _ in range(2)]
        first, second = await store.claim_runs(requests, now=START)
        assert ids_of(first.runs) != ids_of(second.runs)
        assert await store.claim_runs(requests, now=at(1)) == [first, second]

    async def test_repeat_of_an_empty_claim_stays_empty(self, store: Store) -> None:
        job = await add_job(store)
        await submit(store, job, due_at=at(100))
        request = make_claim(await add_session(store), await all_lanes(store))
        assert await store.claim_runs([request], now=START) == [ClaimResult(())]
        await submit(store, job)
        assert await store.claim_runs([request], now=at(1)) == [ClaimResult(())]

    async def test_repeat_leaves_out_leases_that_ended(self, store: Store) -> None:
        request, result = await self._first(store)
        done, lost, kept = result.runs
        await store.apply([outcomes.succeeded(done.run_id, done.token, request.session_id)], now=at(1))
        await hand_back(store, lost, now=1)
        assert await store.claim_runs([request], now=at(2)) == [ClaimResult((kept,))]

    async def test_repeat_tells_which_cancels_were_asked_for(self, store: Store) -> None:
        request, result = await self._first(store)
        first, second, third = result.runs
        await store.cancel_runs([second.run_id], reason="operator", now=at(1))
        [again] = await store.claim_runs([request], now=at(2))
        asked = {run.run_id: run.is_cancel_requested for run in again.runs}
        assert asked == {first.run_id: False, second.run_id: True, third.run_id: False}

    async def test_repeat_leaves_out_runs_that_another_session_has_now(self, store: Store) -> None:
        request, result = await self._first(store, number=1)
        await hand_back(store, *result.runs, now=1)
        assert len(await claim(store, await add_session(store), now=at(2))) == 1
        assert await store.claim_runs([request], now=at(3)) == [ClaimResult(())]

    async def test_next_number_is_a_new_claim(self, store: Store) -> None:
        request, result = await self._first(store)
        rest = await claim(store, request.session_id, limit=9)
        assert len(rest) == 2
        assert not set(ids_of(rest)) & set(ids_of(result.runs))

    async def test_request_that_is_late_takes_nothing(self, store: Store) -> None:
        request, _ = await self._first(store)
        newer = replace(request, number=request.number + 1, limit=1)
        [result] = await store.claim_runs([newer], now=at(1))
        # The worker gave it up long ago, so no worker would hold what it takes.
        assert await store.claim_runs([request], now=at(2)) == [ClaimResult(())]
        assert await store.claim_runs([newer], now=at(3)) == [result]
        assert (await store.count_runs("default"))[RunState.RUNNING] == 4

    async def test_same_number_of_another_session_is_no_repeat(self, store: Store) -> None:
        request, _ = await self._first(store)
        other = make_claim(await add_session(store), request.lanes, limit=3, number=request.number)
        [result] = await store.claim_runs([other], now=at(1))
        assert len(result.runs) == 2

    async def test_repeat_by_a_dead_session_gets_nothing(self, store: Store) -> None:
        request, _ = await self._first(store)
        await store.close_sessions([request.session_id], now=at(1))
        assert await store.claim_runs([request], now=at(2)) == [ClaimResult((), is_session_live=False)]

    async def test_repeats_at_once_give_the_same_leases(self, store: Store) -> None:
        await submit(store, await add_job(store), 10)
        request = make_claim(await add_session(store), await all_lanes(store), limit=3)
        answers = await asyncio.gather(*(store.claim_runs([request], now=START) for _ in range(5)))
        assert len({tuple(sorted(ids_of(result.runs))) for [result] in answers}) == 1
        assert (await store.count_runs("default"))[RunState.RUNNING] == 3
