"""Holders of keys that have expired make room, and never start."""

from __future__ import annotations

from mainspring.core.admission import SubmissionVerdict
from mainspring.core.expiry import EXPIRED
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.testing.conformance.completion import succeed
from mainspring.testing.conformance.once import DEBOUNCE, LIVE, QUEUED, make_guarded_run, make_holder, send
from mainspring.testing.factories import add_job, add_session, at, claim, read_held

_V = SubmissionVerdict


class ExpiredHolders:
    """A submission that takes the place of a holder that has expired ends it, in the same transaction."""

    __test__ = False

    async def test_holder_that_has_expired_is_skipped_so_that_no_claim_gives_it_out(
        self, store: Store
    ) -> None:
        # The clock of whoever claims may be behind that of whoever submits.
        job = await add_job(store)
        for rule in (LIVE, QUEUED, DEBOUNCE):
            first = await make_holder(store, job, rule, expires_at=at(10))
            result = await send(store, job, rule, now=10, due_at=at(10))
            assert (result.status, result.skipped) == (_V.SUBMITTED, first)
            [run] = await store.get_runs([first])
            assert run is not None
            assert (run.state, run.reason, run.finished_at) == (RunState.SKIPPED, EXPIRED, at(10))
            assert not await claim(store, await add_session(store), now=at(9))
            [second] = await claim(store, await add_session(store), now=at(12))
            assert second.run_id == result.run_id
            await store.apply([succeed(await read_held(store, second.run_id))], now=at(13))

    async def test_holder_of_the_same_call_that_has_expired_is_skipped(self, store: Store) -> None:
        job = await add_job(store)
        runs = [make_guarded_run(job, LIVE, expires_at=at(0)), make_guarded_run(job, LIVE)]
        results = await store.submit_runs(runs, now=at(1))
        assert [result.status for result in results] == [_V.SUBMITTED, _V.SUBMITTED]
        assert results[1].skipped == results[0].run_id
        assert results[0].run_id is not None
        [run] = await store.get_runs([results[0].run_id])
        assert run is not None
        assert (run.state, run.reason) == (RunState.SKIPPED, EXPIRED)
