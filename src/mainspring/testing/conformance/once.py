"""What runs once: keys, their holders, and what becomes of the other submissions."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from mainspring.core.admission import SubmissionVerdict
from mainspring.core.ids import RunId
from mainspring.core.model import Job
from mainspring.core.once import (
    DebounceRule,
    OnceGuard,
    OnceRule,
    OnConflict,
    ThrottleRule,
    UniqueRule,
    UniqueScope,
)
from mainspring.ports.store import Store
from mainspring.ports.store.runs import NewRun, SubmitResult
from mainspring.testing.conformance.completion import fail, give_back, lose, read_run, succeed
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    at,
    claim,
    make_edit,
    make_new_run,
    read_held,
)

LIVE = UniqueRule()
QUEUED = UniqueRule(scope=UniqueScope.QUEUED)
PERIOD = UniqueRule(scope=UniqueScope.PERIOD, period=timedelta(seconds=60))
REJECT = UniqueRule(on_conflict=OnConflict.REJECT)
REPLACE = UniqueRule(scope=UniqueScope.QUEUED, on_conflict=OnConflict.REPLACE)
REPLACE_IN_PERIOD = UniqueRule(
    scope=UniqueScope.PERIOD, period=timedelta(seconds=60), on_conflict=OnConflict.REPLACE
)
DEBOUNCE = DebounceRule(wait=timedelta(seconds=5), max_wait=timedelta(seconds=12))
THROTTLE = ThrottleRule(limit=2, per=timedelta(seconds=60))
_V = SubmissionVerdict


def make_guarded_run(job: Job, rule: OnceRule, key: bytes = b"k", **overrides: Any) -> NewRun:
    """Make a run that has a key of what runs once."""
    return make_new_run(job, once=OnceGuard(key.ljust(16, b"-"), rule), **overrides)


async def send(
    store: Store, job: Job, rule: OnceRule, *, now: float = 0, key: bytes = b"k", **overrides: Any
) -> SubmitResult:
    """Submit one run that has a key."""
    [result] = await store.submit_runs([make_guarded_run(job, rule, key, **overrides)], now=at(now))
    return result


async def make_holder(store: Store, job: Job, rule: OnceRule, **overrides: Any) -> RunId:
    """Submit the first run of a key."""
    result = await send(store, job, rule, **overrides)
    assert result.status is _V.SUBMITTED
    assert result.run_id is not None
    return result.run_id


async def start(store: Store, run_id: RunId, *, now: float = 0) -> None:
    """Claim the only ready run."""
    [leased] = await claim(store, await add_session(store), now=at(now))
    assert leased.run_id == run_id


class UniqueKeys:
    """A key lets one run in, and the next one when its holder has ceased to count."""

    __test__ = False

    async def test_second_run_of_a_key_is_not_made(self, store: Store) -> None:
        job = await add_job(store)
        first = await make_holder(store, job, LIVE, payload=b"1")
        assert await send(store, job, LIVE, now=1, payload=b"2") == SubmitResult(_V.EXISTING, first)
        assert [(run.id, run.payload) for run in await store.list_runs("default")] == [(first, b"1")]

    async def test_other_keys_jobs_and_tenants_are_free(self, store: Store) -> None:
        job = await add_job(store)
        await make_holder(store, job, LIVE)
        await make_holder(store, job, LIVE, key=b"other")
        await make_holder(store, await add_job(store), LIVE)
        await make_holder(store, await add_job(store, tenant="acme"), LIVE)

    async def test_runs_without_a_key_are_not_kept_out(self, store: Store) -> None:
        job = await add_job(store)
        await make_holder(store, job, LIVE)
        [result] = await store.submit_runs([make_new_run(job)], now=START)
        assert result.status is _V.SUBMITTED

    async def test_live_holder_counts_until_it_has_ended(self, store: Store) -> None:
        job = await add_job(store)
        first = await make_holder(store, job, LIVE)
        await start(store, first)
        assert (await send(store, job, LIVE)).status is _V.EXISTING
        held = await read_held(store, first)
        await store.apply([fail(held, now=1)], now=at(1))  # it will be retried
        assert await send(store, job, LIVE, now=1) == SubmitResult(_V.EXISTING, first)
        await store.cancel_runs([first], reason="operator", now=at(2))
        second = await make_holder(store, job, LIVE, now=2)
        assert second != first

    async def test_live_holder_that_succeeded_is_over_at_once(self, store: Store) -> None:
        job = await add_job(store)
        first = await make_holder(store, job, LIVE)
        await start(store, first)
        await store.apply([succeed(await read_held(store, first))], now=at(1))
        await make_holder(store, job, LIVE, now=1)

    async def test_queued_holder_counts_until_it_is_claimed(self, store: Store) -> None:
        job = await add_job(store)
        first = await make_holder(store, job, QUEUED)
        assert await send(store, job, QUEUED) == SubmitResult(_V.EXISTING, first)
        await start(store, first)
        second = await make_holder(store, job, QUEUED)
        assert await send(store, job, QUEUED) == SubmitResult(_V.EXISTING, second)

    async def test_lost_holder_waits_again_but_its_successor_has_the_key(self, store: Store) -> None:
        job = await add_job(store)
        first = await make_holder(store, job, QUEUED)
        await start(store, first)
        second = await make_holder(store, job, QUEUED)
        await store.apply([lose(await read_held(store, first), now=1)], now=at(1))
        assert await send(store, job, QUEUED, now=1) == SubmitResult(_V.EXISTING, second)

    async def test_period_counts_whatever_becomes_of_the_run(self, store: Store) -> None:
        job = await add_job(store)
        first = await make_holder(store, job, PERIOD)
        await store.cancel_runs([first], reason="operator", now=at(1))
        assert await send(store, job, PERIOD, now=59.999) == SubmitResult(_V.EXISTING, first)
        second = await make_holder(store, job, PERIOD, now=60)
        assert await send(store, job, PERIOD, now=119) == SubmitResult(_V.EXISTING, second)

    async def test_holder_that_has_expired_does_not_count(self, store: Store) -> None:
        # It will never start, though nobody has recorded it as skipped yet.
        job = await add_job(store)
        first = await make_holder(store, job, LIVE, expires_at=at(10))
        assert await send(store, job, LIVE, now=9) == SubmitResult(_V.EXISTING, first)
        await make_holder(store, job, LIVE, now=10)

    async def test_reject_names_the_holder(self, store: Store) -> None:
        job = await add_job(store)
        first = await make_holder(store, job, REJECT)
        assert await send(store, job, REJECT) == SubmitResult(_V.REJECTED, first)
        assert len(await store.list_runs("default")) == 1

    async def test_job_that_has_changed_or_is_gone_decides_first(self, store: Store) -> None:
        job = await add_job(store)
        await make_holder(store, job, LIVE)
        await store.edit_jobs([make_edit(job)], now=START)
        assert await send(store, job, LIVE, must_be_newest=True) == SubmitResult(_V.JOB_CHANGED)

    async def test_key_holds_within_one_call(self, store: Store) -> None:
        job = await add_job(store)
        keys = [b"a", b"b", b"a", b"b", b"c"]
        results = await store.submit_runs([make_guarded_run(job, LIVE, key) for key in keys], now=START)
        assert [result.status for result in results] == [
            _V.SUBMITTED,
            _V.SUBMITTED,
            _V.EXISTING,
            _V.EXISTING,
            _V.SUBMITTED,
        ]
        assert results[2].run_id == results[0].run_id
        assert results[3].run_id == results[1].run_id
        mixed = [make_new_run(job), make_guarded_run(job, LIVE, b"a"), make_new_run(job)]
        again = await store.submit_runs(mixed, now=START)
        assert [result.status for result in again] == [_V.SUBMITTED, _V.EXISTING, _V.SUBMITTED]

    async def test_submissions_of_one_key_at_once_make_one_run(self, store: Store) -> None:
        # Elsewhere, inserts of unique jobs raced.
        job = await add_job(store)
        keys = [b"a", b"b", b"c"]
        calls = [
            [make_guarded_run(job, LIVE, key) for key in (keys if index % 2 else reversed(keys))]
            for index in range(10)
        ]
        answers = await asyncio.gather(*(store.submit_runs(runs, now=START) for runs in calls))
        made = [result.run_id for answer in answers for result in answer if result.status is _V.SUBMITTED]
        assert len(made) == 3
        assert {result.run_id for answer in answers for result in answer} == set(made)
        assert {run.id for run in await store.list_runs("default")} == set(made)

    async def test_successors_at_once_are_one(self, store: Store) -> None:
        job = await add_job(store)
        first = await make_holder(store, job, LIVE)
        await store.cancel_runs([first], reason="operator", now=START)
        answers = await asyncio.gather(*(send(store, job, LIVE) for _ in range(10)))
        [second] = {answer.run_id for answer in answers}
        assert second != first
        assert sorted(answer.status for answer in answers) == [_V.EXISTING] * 9 + [_V.SUBMITTED]


class Replacing:
    """The newest payload goes to the run that waits, and never to one that has started."""

    __test__ = False

    async def test_waiting_run_gets_the_payload_and_keeps_its_place(self, store: Store) -> None:
        job = await add_job(store)
        first = await make_holder(store, job, REPLACE, payload=b"1", due_at=at(30), expires_at=at(90))
        assert await send(store, job, REPLACE, payload=b"2") == SubmitResult(_V.REPLACED, first)
        run = await read_run(store, first)
        assert (run.payload, run.ready_at, run.due_at, run.created_at) == (b"2", at(30), at(30), START)
        [leased] = await claim(store, await add_session(store), now=at(30))
        assert (leased.run_id, leased.payload) == (first, b"2")

    async def test_payload_may_become_none(self, store: Store) -> None:
        job = await add_job(store)
        first = await make_holder(store, job, REPLACE, payload=b"1")
        await send(store, job, REPLACE, payload=None)
        assert (await read_run(store, first)).payload is None

    async def test_run_under_way_is_left_alone(self, store: Store) -> None:
        # Elsewhere, replacing changed the arguments of a run under way.
        job = await add_job(store)
        first = await make_holder(store, job, REPLACE, payload=b"1")
        await start(store, first)
        second = await make_holder(store, job, REPLACE, payload=b"2")
        assert (await read_run(store, first)).payload == b"1"
        assert (await read_run(store, second)).payload == b"2"
        held = await read_held(store, first)
        assert held.token == 1

    async def test_within_the_period_a_run_under_way_is_the_answer(self, store: Store) -> None:
        job = await add_job(store)
        first = await make_holder(store, job, REPLACE_IN_PERIOD, payload=b"1")
        assert (await send(store, job, REPLACE_IN_PERIOD, payload=b"2")).status is _V.REPLACED
        await start(store, first)
        answer = await send(store, job, REPLACE_IN_PERIOD, payload=b"3")
        assert answer == SubmitResult(_V.EXISTING, first)
        assert (await read_run(store, first)).payload == b"2"

    async def test_run_that_was_handed_back_waits_again(self, store: Store) -> None:
        job = await add_job(store)
        first = await make_holder(store, job, REPLACE, payload=b"1")
        await start(store, first)
        await store.apply([give_back(await read_held(store, first), now=1)], now=at(1))
        assert await send(store, job, REPLACE, now=1, payload=b"2") == SubmitResult(_V.REPLACED, first)
        [leased] = await claim(store, await add_session(store), now=at(1))
        assert (leased.run_id, leased.payload) == (first, b"2")

    async def test_last_of_one_call_wins(self, store: Store) -> None:
        job = await add_job(store)
        runs = [make_guarded_run(job, REPLACE, payload=body) for body in (b"1", b"2", b"3")]
        results = await store.submit_runs(runs, now=START)
        assert [result.status for result in results] == [_V.SUBMITTED, _V.REPLACED, _V.REPLACED]
        again = await store.submit_runs(runs[:2], now=START)
        assert [result.status for result in again] == [_V.REPLACED, _V.REPLACED]
        [run] = await store.list_runs("default")
        assert run.payload == b"2"

    async def test_claim_at_the_same_time_gets_one_payload_and_the_other_runs_too(self, store: Store) -> None:
        job = await add_job(store)
        for number in range(20):
            first = await make_holder(store, job, REPLACE, payload=b"old", key=b"%d" % number)
            session = await add_session(store)
            answer, leases = await asyncio.gather(
                send(store, job, REPLACE, payload=b"new", key=b"%d" % number), claim(store, session)
            )
            taken = leases or await claim(store, session)
            payloads = {leased.run_id: leased.payload for leased in taken}
            if answer.status is _V.REPLACED:
                assert payloads == {first: b"new"}
                continue
            assert answer.status is _V.SUBMITTED
            assert payloads[first] == b"old"
            [second] = await claim(store, session)
            assert (second.run_id, second.payload) == (answer.run_id, b"new")


class Debounces:
    """Many submissions become one run, which starts when no more come, with the newest payload."""

    __test__ = False

    async def _edit(self, store: Store, job: Job, now: float, body: bytes = b"x") -> SubmitResult:
        return await send(store, job, DEBOUNCE, now=now, due_at=at(now + 5), payload=body)

    async def test_run_is_put_off_and_gets_the_newest_payload(self, store: Store) -> None:
        # Elsewhere, a "debounce" dropped what came later.
        job = await add_job(store)
        first = await make_holder(store, job, DEBOUNCE, due_at=at(5), payload=b"1")
        assert await self._edit(store, job, 4, b"2") == SubmitResult(_V.DEBOUNCED, first)
        run = await read_run(store, first)
        assert (run.ready_at, run.due_at, run.payload) == (at(9), at(9), b"2")
        session = await add_session(store)
        assert await claim(store, session, now=at(8.999)) == ()
        [leased] = await claim(store, session, now=at(9))
        assert (leased.run_id, leased.payload) == (first, b"2")

    async def test_run_is_not_put_off_for_ever(self, store: Store) -> None:
        job = await add_job(store)
        first = await make_holder(store, job, DEBOUNCE, due_at=at(5))
        for now, ready_at in ((4, 9), (8, 12), (11, 12)):
            assert await self._edit(store, job, now, b"%d" % now) == SubmitResult(_V.DEBOUNCED, first)
            assert (await read_run(store, first)).ready_at == at(ready_at)
        assert (await read_run(store, first)).payload == b"11"

    async def test_backoff_is_never_shortened(self, store: Store) -> None:
        job = await add_job(store)
        first = await make_holder(store, job, DEBOUNCE, due_at=START)
        await start(store, first)
        await store.apply([fail(await read_held(store, first), now=1)], now=at(1))
        before = await read_run(store, first)
        assert await self._edit(store, job, 1) == SubmitResult(_V.DEBOUNCED, first)
        after = await read_run(store, first)
        assert after.ready_at == max(before.ready_at, at(6))
        assert after.due_at == before.due_at  # it has been started, so it was due by then

    async def test_expiry_moves_as_far(self, store: Store) -> None:
        job = await add_job(store)
        first = await make_holder(store, job, DEBOUNCE, due_at=at(5), expires_at=at(6))
        assert await self._edit(store, job, 4) == SubmitResult(_V.DEBOUNCED, first)
        assert await store.expire_runs(now=at(9), limit=10) == []
        assert await store.expire_runs(now=at(10), limit=10) == [first]

    async def test_submission_after_the_start_makes_another_run(self, store: Store) -> None:
        job = await add_job(store)
        first = await make_holder(store, job, DEBOUNCE, due_at=at(5))
        await start(store, first, now=5)
        second = await make_holder(store, job, DEBOUNCE, now=6, due_at=at(11), payload=b"2")
        assert second != first
        assert (await read_run(store, second)).ready_at == at(11)

    async def test_many_of_one_call_are_one_run(self, store: Store) -> None:
        job = await add_job(store)
        runs = [
            make_guarded_run(job, DEBOUNCE, due_at=at(5), expires_at=at(65), payload=b"%d" % number)
            for number in range(3)
        ]
        results = await store.submit_runs(runs, now=START)
        assert [result.status for result in results] == [_V.SUBMITTED, _V.DEBOUNCED, _V.DEBOUNCED]
        [run] = await store.list_runs("default")
        assert (run.payload, run.ready_at) == (b"2", at(5))


class Throttles:
    """What is more than the limit is dropped, and permits come back evenly."""

    __test__ = False

    async def test_what_is_more_is_dropped(self, store: Store) -> None:
        job = await add_job(store)
        first, second = [await make_holder(store, job, THROTTLE) for _ in range(2)]
        assert first != second
        assert await send(store, job, THROTTLE) == SubmitResult(_V.THROTTLED, second)
        assert await send(store, job, THROTTLE, now=29.999) == SubmitResult(_V.THROTTLED, second)
        third = await make_holder(store, job, THROTTLE, now=30)
        assert await send(store, job, THROTTLE, now=59) == SubmitResult(_V.THROTTLED, third)
        assert len(await store.list_runs("default")) == 3

    async def test_ends_give_no_permit_back(self, store: Store) -> None:
        job = await add_job(store)
        for _ in range(2):
            run_id = await make_holder(store, job, THROTTLE)
            await store.cancel_runs([run_id], reason="operator", now=START)
        assert (await send(store, job, THROTTLE)).status is _V.THROTTLED

    async def test_each_key_has_its_own_limit(self, store: Store) -> None:
        job = await add_job(store)
        runs = [make_guarded_run(job, THROTTLE, key) for key in (b"a", b"b", b"a", b"a", b"b", b"b")]
        results = await store.submit_runs(runs, now=START)
        assert [result.status for result in results] == [
            _V.SUBMITTED,
            _V.SUBMITTED,
            _V.SUBMITTED,
            _V.THROTTLED,
            _V.SUBMITTED,
            _V.THROTTLED,
        ]
        assert results[3].run_id == results[2].run_id

    async def test_submissions_at_once_get_no_more(self, store: Store) -> None:
        job = await add_job(store)
        answers = await asyncio.gather(*(send(store, job, THROTTLE) for _ in range(10)))
        assert sorted(answer.status for answer in answers) == [_V.SUBMITTED] * 2 + [_V.THROTTLED] * 8
