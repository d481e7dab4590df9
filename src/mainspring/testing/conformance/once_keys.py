"""Keys of what runs once beside idempotency keys, and what becomes of keys that are over."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from mainspring.core.admission import SubmissionVerdict
from mainspring.core.ids import RunId
from mainspring.core.model import Job
from mainspring.core.once import OnceRule, ThrottleRule
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.runs import IdempotencyKey, SubmitResult
from mainspring.ports.store.upkeep import UniqueKeyPlace
from mainspring.testing.conformance.completion import read_run
from mainspring.testing.conformance.once import (
    DEBOUNCE,
    LIVE,
    PERIOD,
    REJECT,
    REPLACE,
    make_guarded_run,
    make_holder,
    send,
    start,
)
from mainspring.testing.factories import START, add_job, add_session, at, make_claim

_V = SubmissionVerdict


class OnceWithIdempotency:
    """A repeat under the same idempotency key gets the first answer, and does nothing."""

    __test__ = False

    def _key(self, key: str = "key", body: bytes = b"body", *, expires: float = 600) -> IdempotencyKey:
        return IdempotencyKey(key=key, request_hash=body, expires_at=at(expires))

    async def _repeated(
        self, store: Store, job: Job, rule: OnceRule, status: SubmissionVerdict, holder: RunId
    ) -> None:
        first = await send(store, job, rule, submit_key=self._key(), payload=b"new", due_at=at(5))
        assert first == SubmitResult(status, holder)
        for now in (1, 2):
            again = await send(store, job, rule, now=now, submit_key=self._key(), due_at=at(now + 5))
            assert again == SubmitResult(_V.DUPLICATE, holder, status)

    async def test_repeat_of_each_kind(self, store: Store) -> None:
        for rule, status in (
            (LIVE, _V.EXISTING),
            (REPLACE, _V.REPLACED),
            (DEBOUNCE, _V.DEBOUNCED),
            (ThrottleRule(limit=1, per=timedelta(minutes=1)), _V.THROTTLED),
        ):
            job = await add_job(store, tenant=f"t-{status.value}")
            holder = await make_holder(store, job, rule, due_at=at(5))
            await self._repeated(store, job, rule, status, holder)
            expected = START + timedelta(seconds=5)
            assert (await read_run(store, holder)).ready_at == expected  # repeats have not put it off

    async def test_repeat_of_the_first_run(self, store: Store) -> None:
        job = await add_job(store)
        first = await make_holder(store, job, LIVE, submit_key=self._key())
        assert await send(store, job, LIVE, submit_key=self._key()) == SubmitResult(_V.DUPLICATE, first)
        other = await send(store, job, LIVE, submit_key=self._key(body=b"other"))
        assert other == SubmitResult(_V.KEY_MISMATCH, first)

    async def test_rejected_run_leaves_its_key_free(self, store: Store) -> None:
        job = await add_job(store)
        first = await make_holder(store, job, REJECT)
        rejected = await send(store, job, REJECT, submit_key=self._key())
        assert rejected == SubmitResult(_V.REJECTED, first)
        await store.cancel_runs([first], reason="operator", now=START)
        second = await make_holder(store, job, REJECT, submit_key=self._key())
        assert await send(store, job, REJECT, submit_key=self._key()) == SubmitResult(_V.DUPLICATE, second)

    async def test_expired_key_is_used_anew(self, store: Store) -> None:
        job = await add_job(store)
        holder = await make_holder(store, job, LIVE)
        key = self._key(expires=10)
        assert (await send(store, job, LIVE, submit_key=key)).status is _V.EXISTING
        await store.cancel_runs([holder], reason="operator", now=at(11))
        second = await make_holder(store, job, LIVE, now=11, submit_key=self._key())
        again = await send(store, job, LIVE, now=12, submit_key=self._key())
        assert again == SubmitResult(_V.DUPLICATE, second)

    async def test_within_one_call(self, store: Store) -> None:
        job = await add_job(store)
        keys = [self._key("a"), self._key("b"), self._key("b"), self._key("a"), None]
        runs = [make_guarded_run(job, LIVE, submit_key=key) for key in keys]
        first, *others = await store.submit_runs(runs, now=START)
        assert first.status is _V.SUBMITTED
        assert others == [
            SubmitResult(_V.EXISTING, first.run_id),
            SubmitResult(_V.DUPLICATE, first.run_id, _V.EXISTING),
            SubmitResult(_V.DUPLICATE, first.run_id),
            SubmitResult(_V.EXISTING, first.run_id),
        ]
        [again] = await store.submit_runs(runs[1:2], now=at(1))
        assert again == SubmitResult(_V.DUPLICATE, first.run_id, _V.EXISTING)

    async def test_rejected_within_one_call(self, store: Store) -> None:
        job = await add_job(store)
        held = make_guarded_run(job, REJECT)
        rejected = make_guarded_run(job, REJECT, submit_key=self._key())
        free = make_guarded_run(job, REJECT, b"free", submit_key=self._key())
        results = await store.submit_runs([held, rejected, free], now=START)
        assert [result.status for result in results] == [_V.SUBMITTED, _V.REJECTED, _V.SUBMITTED]
        [again] = await store.submit_runs([free], now=at(1))
        assert again == SubmitResult(_V.DUPLICATE, results[2].run_id)

    async def test_repeat_within_one_call_takes_no_other_key(self, store: Store) -> None:
        job = await add_job(store)
        runs = [make_guarded_run(job, PERIOD, key, submit_key=self._key()) for key in (b"a", b"b")]
        first, repeat = await store.submit_runs(runs, now=START)
        assert repeat == SubmitResult(_V.DUPLICATE, first.run_id)
        await make_holder(store, job, PERIOD, key=b"b", now=1)


class UniqueKeysArePruned:
    """Keys that have no effect any more are removed, slice by slice, and no others."""

    __test__ = False

    async def _prune(self, store: Store, now: datetime, limit: int = 2) -> int:
        total, after = await store.prune_unique_keys(now=now, after=None, limit=limit)
        while after is not None:
            removed, after = await store.prune_unique_keys(now=now, after=after, limit=limit)
            total += removed
        return total

    async def test_void_keys_go_and_others_hold(self, store: Store) -> None:
        job = await add_job(store)
        live = await make_holder(store, job, LIVE, key=b"live")
        ended = [await make_holder(store, job, LIVE, key=b"ended-%d" % number) for number in range(5)]
        running = await make_holder(store, job, LIVE, key=b"running", due_at=at(-1), now=-1)
        await start(store, running)
        await make_holder(store, job, PERIOD, key=b"period")
        await store.cancel_runs(ended, reason="operator", now=START)
        assert await self._prune(store, at(59)) == 5
        assert await self._prune(store, at(60)) == 1
        assert await self._prune(store, at(60)) == 0
        for key, holder in ((b"live", live), (b"running", running)):
            assert await send(store, job, LIVE, now=60, key=key) == SubmitResult(_V.EXISTING, holder)
        await make_holder(store, job, LIVE, now=60, key=b"ended-0")

    async def test_a_slice_says_where_it_ended(self, store: Store) -> None:
        job = await add_job(store)
        for key in (b"c", b"a", b"b"):
            await make_holder(store, job, LIVE, key=key)
        _, after = await store.prune_unique_keys(now=START, after=None, limit=2)
        assert after == UniqueKeyPlace(job.tenant, job.id, b"b".ljust(16, b"-"))
        assert await store.prune_unique_keys(now=START, after=after, limit=2) == (0, None)

    async def test_submissions_and_prunes_at_once(self, store: Store) -> None:
        job = await add_job(store)
        for number in range(10):
            first = await make_holder(store, job, LIVE, now=number)
            await store.cancel_runs([first], reason="operator", now=at(number))
            pruning = store.prune_unique_keys(now=at(number), after=None, limit=10)
            answers = await asyncio.gather(*(send(store, job, LIVE, now=number) for _ in range(4)), pruning)
            statuses = [answer.status for answer in answers if isinstance(answer, SubmitResult)]
            assert sorted(statuses) == [_V.EXISTING] * 3 + [_V.SUBMITTED]
            [live] = [run for run in await store.list_runs("default") if run.state is RunState.PENDING]
            await store.cancel_runs([live.id], reason="operator", now=at(number))


class StraightSubmissionsPassKeysBy:
    """A run that has a key is never submitted as claimed."""

    __test__ = False

    async def test_guarded_run_is_refused(self, store: Store) -> None:
        job = await add_job(store)
        session = await add_session(store)
        request = make_claim(session, [])
        assert await store.submit_claimed(make_guarded_run(job, LIVE), request=request, now=START) is None
        assert await store.list_runs("default") == []
