"""Lines of runs that wait under limits, claims from them, and the rules of limits."""

from __future__ import annotations

import asyncio
from collections import Counter

from mainspring.core import outcomes
from mainspring.core.clocks import ChangeVerdict
from mainspring.core.ids import RunId, SessionId
from mainspring.core.limits import CLUSTER, Hold, JobLimit, LimitRule
from mainspring.core.retry import RetryPolicy
from mainspring.core.why import WaitFacts
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ClaimedRun
from mainspring.ports.store.jobs import AddResult
from mainspring.ports.store.limits import LimitDeletion, LineClaim, LineQuota
from mainspring.testing.conformance.limits import TEN_A_SECOND, by_customer, end, fail, ids, limited, payload
from mainspring.testing.factories import (
    add_job,
    add_session,
    at,
    claim,
    claim_lined_up,
    facts_of,
    make_change,
    make_edit,
    make_new_job,
    make_new_run,
    make_spec,
    read_held,
    read_job,
    submit,
)


class Lines:
    """Lines are found in pages, each with its head."""

    __test__ = False

    async def test_there_is_one_for_each_key_and_lane(self, store: Store) -> None:
        job = await limited(store, by_customer(limit=1))
        for seconds, customer in enumerate("abab"):
            await submit(store, job, payload=payload(customer), due_at=at(seconds), now=at(0))
        first, second = await store.read_lines(limit=9)
        assert [first.ready_at, second.ready_at] == [at(0), at(1)]
        assert first.key < second.key
        assert await store.read_lines(limit=1) == [first]
        assert await store.read_lines(after=first.key, limit=9) == [second]
        assert await store.read_lines(after=second.key, limit=9) == []
        assert await store.read_some_lines([second.key, first.key]) == [second, first]

    async def test_what_runs_is_in_no_line(self, store: Store) -> None:
        job, session_id = await limited(store, JobLimit(limit=1)), await add_session(store)
        await submit(store, job)
        [line] = await store.read_lines(limit=9)
        await claim_lined_up(store, session_id)
        assert await store.read_lines(limit=9) == []
        assert await store.read_some_lines([line.key]) == []

    async def test_a_claim_keeps_to_quotas_and_lower_bounds(self, store: Store) -> None:
        job, session_id = await limited(store, JobLimit(limit=9)), await add_session(store)
        runs = await submit(store, job, 4)
        [line] = await store.read_lines(limit=9)
        few = (LineQuota(line.key, line.ready_at, 1),)
        assert ids((await claim_lined_up(store, session_id, limit=9, lines=few)).runs) == runs[:1]
        late = (LineQuota(line.key, at(1), 9),)
        assert (await claim_lined_up(store, session_id, limit=9, lines=late, now=at(2))).runs == ()

    async def test_expired_runs_do_not_start(self, store: Store) -> None:
        job, session_id = await limited(store, JobLimit(limit=1)), await add_session(store)
        await submit(store, job, expires_at=at(5))
        assert (await claim_lined_up(store, session_id, now=at(5))).runs == ()
        assert await store.expire_runs(now=at(5), limit=9)
        assert await store.read_lines(limit=9) == []

    async def test_lanes_with_lines_stay(self, store: Store) -> None:
        await submit(store, await limited(store, JobLimit(limit=1)))
        assert await store.prune_lanes(limit=9) == 0


class LineClaims:
    """Claims of lines are numbered, shared and repeated as all claims are."""

    __test__ = False

    async def test_a_repeat_gets_the_same_and_a_late_one_nothing(self, store: Store) -> None:
        job, session_id = await limited(store, JobLimit(limit=2)), await add_session(store)
        await submit(store, job, 3)
        first = await claim_lined_up(store, session_id, number=10**6, limit=9)
        assert len(first.runs) == 2
        again = await claim_lined_up(store, session_id, number=10**6, limit=9)
        assert sorted(ids(again.runs)) == sorted(ids(first.runs))
        assert again.taken == {}
        late = await claim_lined_up(store, session_id, number=10**6 - 1, limit=9)
        assert (late.runs, late.is_session_live) == ((), True)

    async def test_a_session_that_is_not_live_gets_nothing(self, store: Store) -> None:
        job, session_id = await limited(store, JobLimit(limit=2)), await add_session(store)
        await submit(store, job)
        await store.close_sessions([session_id], now=at(0))
        result = await claim_lined_up(store, session_id)
        assert (result.runs, result.is_session_live) == ((), False)

    async def test_sessions_of_one_call_share_the_room(self, store: Store) -> None:
        job = await limited(store, JobLimit(limit=3))
        await submit(store, job, 9)
        lines = tuple(LineQuota(line.key, line.ready_at, 9) for line in await store.read_lines(limit=9))
        requests = [
            LineClaim(session_id=await add_session(store), number=1, limit=2, lines=lines) for _ in range(3)
        ]
        results = await store.claim_lined_up(requests, now=at(0))
        assert [len(result.runs) for result in results] == [2, 1, 0]
        assert len({run.run_id for result in results for run in result.runs}) == 3

    async def test_a_session_with_a_quarantined_run_gets_nothing(self, store: Store) -> None:
        plain, job = await add_job(store), await limited(store, JobLimit(limit=2))
        await submit(store, plain)
        [run] = await claim(store, await add_session(store))
        held = await read_held(store, run.run_id)
        await store.apply([outcomes.lost(facts_of(held), plain.spec, now=at(1))], now=at(1))
        session_id = await add_session(store)
        assert len(await claim(store, session_id, now=at(1), is_quarantined=True)) == 1
        await submit(store, job, now=at(1))
        assert (await claim_lined_up(store, session_id, now=at(1))).runs == ()

    async def test_many_claimers_at_once_never_pass_a_cap(self, store: Store) -> None:
        job = await limited(store, by_customer(limit=2))
        for customer in "abc":
            await submit(store, job, 20, payload=payload(customer))
        sessions = [await add_session(store) for _ in range(6)]
        running: dict[RunId, tuple[ClaimedRun, SessionId]] = {}
        done = 0
        for step in range(1, 200):
            results = await asyncio.gather(
                *(claim_lined_up(store, session_id, limit=4, now=at(step)) for session_id in sessions)
            )
            for session_id, result in zip(sessions, results, strict=True):
                running |= {run.run_id: (run, session_id) for run in result.runs}
            counts = Counter(run.payload for run, _ in running.values())
            assert all(count <= 2 for count in counts.values()), counts
            for run, session_id in running.values():
                await end(store, [run], session_id, seconds=step)
            done += len(running)
            running.clear()
            if done == 60:
                return
        raise AssertionError(f"only {done} of 60 runs came through")


class Rules:
    """The newest numbers hold, and what nobody needs goes."""

    __test__ = False

    async def test_shared_limits_are_listed_changed_and_deleted(self, store: Store) -> None:
        crm, erp = LimitRule(name="crm", max_running=5), LimitRule(name="erp", rate=TEN_A_SECOND, burst=20)
        assert await store.write_limits("default", [erp, crm]) == [True, True]
        assert await store.list_limits("default") == [crm, erp]
        assert await store.list_limits("acme") == []
        less = LimitRule(name="crm", max_running=2, hold=Hold.RUN)
        assert await store.write_limits("default", [less]) == [False]
        assert await store.list_limits("default") == [less, erp]
        assert (await store.delete_limit("default", "crm")).is_known
        assert not (await store.delete_limit("default", "crm")).is_known
        assert await store.list_limits("default") == [erp]
        assert await store.write_limits("default", [crm]) == [True]

    async def test_a_limit_that_a_job_uses_cannot_be_deleted(self, store: Store) -> None:
        await store.write_limits("default", [LimitRule(name="crm", max_running=1)])
        job = await limited(store, JobLimit(use="crm"), name="sync")
        deletion = await store.delete_limit("default", "crm")
        assert (deletion.is_known, deletion.used_by) == (True, ("sync",))
        edit = make_edit(job, make_spec(name="sync"))
        await store.edit_jobs([edit], now=at(0))
        assert (await store.delete_limit("default", "crm")).used_by == ()

    async def test_no_job_comes_to_use_a_limit_that_is_not_set(self, store: Store) -> None:
        """Whoever decided on it while it was set has to decide again."""
        user = make_spec(name="sync", concurrency=(JobLimit(use="crm"), JobLimit(limit=1)))
        new, plain = make_new_job(user), make_new_job(make_spec(name="plain"))
        assert await store.add_jobs([new, plain], now=at(0)) == [AddResult.LIMIT_GONE, AddResult.ADDED]
        job = await read_job(store, plain.id)
        edit = make_edit(job, make_spec(name="plain", concurrency=user.concurrency))
        assert await store.edit_jobs([edit], now=at(1)) == [ChangeVerdict.MOVED]
        assert await read_job(store, plain.id) == job
        await store.write_limits("default", [LimitRule(name="crm", max_running=1)])
        assert (await store.delete_limit("default", "crm")).is_known
        assert await store.add_jobs([new], now=at(2)) == [AddResult.LIMIT_GONE]
        await store.write_limits("default", [LimitRule(name="crm", max_running=1)])
        assert await store.edit_jobs([edit], now=at(3)) == [ChangeVerdict.DONE]
        assert await store.add_jobs([new], now=at(3)) == [AddResult.ADDED]
        assert (await store.delete_limit("default", "crm")).used_by == ("plain", "sync")

    async def test_a_job_may_use_a_limit_of_the_cluster(self, store: Store) -> None:
        await store.write_limits(CLUSTER, [LimitRule(name="crm", max_running=1)])
        await limited(store, JobLimit(use="crm"), name="sync")
        assert (await store.delete_limit(CLUSTER, "crm")).used_by == ("sync",)

    async def test_a_deleted_job_uses_no_limit(self, store: Store) -> None:
        await store.write_limits("default", [LimitRule(name="crm", max_running=1)])
        job = await limited(store, JobLimit(use="crm"))
        await store.delete_jobs([make_change(job)], now=at(0))
        assert (await store.delete_limit("default", "crm")).used_by == ()

    async def test_the_newest_number_holds_for_those_who_wait(self, store: Store) -> None:
        job, session_id = await limited(store, JobLimit(limit=1)), await add_session(store)
        await submit(store, job, 9)
        assert len((await claim_lined_up(store, session_id, limit=9)).runs) == 1
        more = make_spec(name=job.spec.name, concurrency=(JobLimit(limit=3),))
        await store.edit_jobs([make_edit(job, more)], now=at(0))
        assert len((await claim_lined_up(store, session_id, limit=9)).runs) == 2
        none = make_spec(name=job.spec.name)
        await store.edit_jobs([make_edit(await read_job(store, job.id), none)], now=at(0))
        assert len((await claim_lined_up(store, session_id, limit=3)).runs) == 3
        fewer = make_spec(name=job.spec.name, concurrency=(JobLimit(limit=6),))
        await store.edit_jobs([make_edit(await read_job(store, job.id), fewer)], now=at(0))
        assert (await claim_lined_up(store, session_id, limit=9)).runs == ()

    async def test_keys_in_use_are_listed(self, store: Store) -> None:
        await store.write_limits(
            "default", [LimitRule(name="crm", max_running=1, rate=TEN_A_SECOND, burst=1)]
        )
        job = await limited(store, JobLimit(use="crm", key="$.customer"))
        session_id = await add_session(store)
        for customer in "abb":
            await submit(store, job, payload=payload(customer))
        result = await claim_lined_up(store, session_id, limit=9)
        first, second = await store.list_keys("default", "crm", limit=9, now=at(0))
        assert (first.key, first.held, first.waiting_since) == ("a", 1, None)
        assert (second.key, second.held, second.waiting_since) == ("b", 1, at(0))
        assert {*first.run_ids, *second.run_ids} == {*ids(result.runs)}
        assert second.next_permit_at is not None
        assert await store.list_keys("default", "crm", after="a", limit=9, now=at(0)) == [second]
        assert await store.list_keys("default", "crm", limit=1, now=at(0)) == [first]
        assert await store.list_keys("acme", "crm", limit=9, now=at(0)) == []

    async def test_keys_in_use_are_listed_by_age(self, store: Store) -> None:
        for name in ("crm", "erp"):
            await store.write_limits("default", [LimitRule(name=name, max_running=1)])
        job = await limited(store, JobLimit(use="crm", key="$.customer"))
        other = await limited(store, JobLimit(use="erp", key="$.customer"))
        session_id = await add_session(store)
        for customer in "caba":
            await submit(store, job, payload=payload(customer))
            await submit(store, other, payload=payload("x"))
        await claim_lined_up(store, session_id, limit=9)
        found = await store.list_keys_by_age("default", "crm", limit=9, now=at(0))
        assert [use.key for use in found] == ["c", "a", "b"]
        by_key = await store.list_keys("default", "crm", limit=9, now=at(0))
        assert sorted(found, key=lambda use: use.key) == by_key
        assert await store.list_keys_by_age("default", "crm", limit=2, now=at(0)) == found[:2]
        rest = await store.list_keys_by_age("default", "crm", after=found[1].id, limit=9, now=at(0))
        assert rest == found[2:]
        assert await store.list_keys_by_age("acme", "crm", limit=9, now=at(0)) == []

    async def test_the_key_of_jobs_that_name_none_is_listed_first(self, store: Store) -> None:
        await store.write_limits("default", [LimitRule(name="crm", max_running=9)])
        session_id = await add_session(store)
        await submit(store, await limited(store, JobLimit(use="crm")))
        await submit(store, await limited(store, JobLimit(use="crm", key="a")))
        await claim_lined_up(store, session_id, limit=9)
        first, second = await store.list_keys("default", "crm", limit=9, now=at(0))
        assert [(use.key, use.held) for use in (first, second)] == [("", 1), ("a", 1)]
        assert await store.list_keys("default", "crm", after="", limit=9, now=at(0)) == [second]

    async def test_what_nobody_needs_is_pruned_and_nothing_else(self, store: Store) -> None:
        job, session_id = (
            await limited(store, JobLimit(limit=1, rate=TEN_A_SECOND)),
            await add_session(store),
        )
        await submit(store, job, 2)
        [run] = (await claim_lined_up(store, session_id)).runs
        assert await store.prune_limits(now=at(9), limit=9) == 0
        await end(store, [run], session_id)
        assert await store.prune_limits(now=at(9), limit=9) == 1  # the place of the run that has ended
        [last] = (await claim_lined_up(store, session_id, now=at(9))).runs
        await end(store, [last], session_id, seconds=9)
        assert await store.prune_limits(now=at(9), limit=9) == 1  # the key still lacks permits
        assert await store.prune_limits(now=at(99), limit=9) == 1  # the key
        assert await store.prune_limits(now=at(99), limit=9) == 0  # the rule is the job's
        await store.delete_jobs([make_change(job)], now=at(99))
        assert await store.prune_limits(now=at(99), limit=9) == 1
        assert await store.prune_limits(now=at(99), limit=9) == 0

    async def test_keys_of_quarantined_runs_and_second_keys_stay(self, store: Store) -> None:
        await store.write_limits("default", [LimitRule(name="crm", max_running=1)])
        job = await limited(store, by_customer(limit=1), JobLimit(use="crm"))
        [run_id] = await submit(store, job, payload=payload("a"))
        [run] = (await claim_lined_up(store, await add_session(store))).runs
        held = await read_held(store, run.run_id)
        await store.apply([outcomes.lost(facts_of(held), job.spec, now=at(1))], now=at(1))
        await store.prune_limits(now=at(99), limit=9)
        assert await store.prune_limits(now=at(99), limit=9) == 0
        [again] = await claim(store, await add_session(store), now=at(99), is_quarantined=True)
        assert again.run_id == run_id

    async def test_all_looks_show_a_quarantined_run_with_keys(self, store: Store) -> None:
        job = await limited(store, JobLimit(limit=1))
        await submit(store, job)
        [run] = (await claim_lined_up(store, await add_session(store))).runs
        held = await read_held(store, run.run_id)
        await store.apply([outcomes.lost(facts_of(held), job.spec, now=at(1))], now=at(1))
        [lane] = [lane for lane in await store.read_lanes([]) if lane.earliest_quarantined_at is not None]
        assert await store.read_some_lanes([lane.id], lows={}) == [lane]

    async def test_a_run_under_a_limit_that_is_gone_has_no_bounds(self, store: Store) -> None:
        await store.write_limits("default", [LimitRule(name="crm", max_running=1)])
        job = await limited(store, JobLimit(use="crm"))
        await submit(store, job, 3)
        await store.edit_jobs([make_edit(job, make_spec(name=job.spec.name))], now=at(0))
        assert (await store.delete_limit("default", "crm")) == LimitDeletion(is_known=True)
        assert len((await claim_lined_up(store, await add_session(store), limit=9)).runs) == 3

    async def test_a_submission_with_keys_is_stored_with_its_idempotency_key(self, store: Store) -> None:
        job = await limited(store, JobLimit(limit=1))
        runs = [make_new_run(job), make_new_run(await add_job(store)), make_new_run(job)]
        results = await store.submit_runs(runs, now=at(0))
        found = await store.get_runs([result.run_id for result in results if result.run_id is not None])
        assert [run.job_id for run in found if run is not None] == [run.job_id for run in runs]


class Waits:
    """What a waiting run waits for: its place, and its keys."""

    __test__ = False

    async def test_place_of_a_plain_run(self, store: Store) -> None:
        job = await add_job(store)
        runs = await submit(store, job, 3)
        await submit(store, await add_job(store, make_spec(queue="other")), 2)
        waits = [await store.read_wait(run_id, now=at(0)) for run_id in runs]
        assert waits == [WaitFacts(ahead=number) for number in range(3)]
        [run] = await claim(store, await add_session(store))
        assert await store.read_wait(run.run_id, now=at(0)) is None
        assert await store.read_wait(runs[2], now=at(0)) == WaitFacts(ahead=1)
        assert await store.read_wait(RunId(10**12), now=at(0)) is None

    async def test_expiry_of_a_waiting_run(self, store: Store) -> None:
        [run] = await submit(store, await add_job(store), expires_at=at(90))
        assert await store.read_wait(run, now=at(0)) == WaitFacts(expires_at=at(90))

    async def test_place_and_keys_of_a_run_in_a_line(self, store: Store) -> None:
        await store.write_limits("default", [LimitRule(name="crm", rate=TEN_A_SECOND, burst=1)])
        job = await limited(store, by_customer(limit=1), JobLimit(use="crm", key="eu"))
        runs = await submit(store, job, 3, payload=payload("a"))
        await submit(store, job, payload=payload("b"))
        await claim_lined_up(store, await add_session(store))
        wait = await store.read_wait(runs[2], now=at(0))
        assert wait is not None
        assert wait.ahead == 1
        own, shared = wait.keys
        assert (own.key, own.max_running, own.held, own.holders, own.is_full) == ("a", 1, 1, (runs[0],), True)
        assert (shared.limit, shared.key, shared.rate, shared.held) == ("crm", "eu", TEN_A_SECOND, 1)
        assert own.next_permit_at is None
        assert shared.next_permit_at is not None
        assert at(0.1) <= shared.next_permit_at <= at(0.101)

    async def test_place_of_a_quarantined_run(self, store: Store) -> None:
        job = await limited(store, JobLimit(limit=9))
        runs = await submit(store, job, 2)
        for second in range(2):
            session_id = await add_session(store)
            [run] = (await claim_lined_up(store, session_id)).runs
            held = await read_held(store, run.run_id)
            await store.apply([outcomes.lost(facts_of(held), job.spec, now=at(second))], now=at(second))
        await submit(store, job, 3)
        found = [await store.read_wait(run_id, now=at(2)) for run_id in runs]
        assert [wait.ahead for wait in found if wait is not None] == [0, 1]

    async def test_a_place_that_it_kept_is_not_in_its_way(self, store: Store) -> None:
        job = await limited(store, JobLimit(limit=1, hold=Hold.RUN), retry=RetryPolicy(jitter=0.0))
        first, second = await submit(store, job, 2)
        await claim_lined_up(store, await add_session(store))
        await fail(store, job, first, seconds=1)
        waits = [await store.read_wait(run_id, now=at(9)) for run_id in (first, second)]
        assert [[(key.held, key.holders) for key in wait.keys] for wait in waits if wait is not None] == [
            [(0, ())],
            [(1, (first,))],
        ]
