"""Preemption: what has waited for too long, what holds the slots, and who is asked to give them up."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from mainspring.core import outcomes
from mainspring.core.ids import LaneId
from mainspring.core.limits import JobLimit
from mainspring.core.model import Priority
from mainspring.core.preemption import Lease, PreemptionMark, Victim
from mainspring.core.queues import Queue
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.claims import HeldRun
from mainspring.ports.store.preemption import PreemptionRequest, WaitingRun
from mainspring.testing.conformance.claiming import UNKNOWN_SESSION
from mainspring.testing.conformance.completion import UNKNOWN_RUN, fail, lose, read_run, succeed
from mainspring.testing.conformance.liveness import beat
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    at,
    claim,
    claim_lined_up,
    facts_of,
    make_spec,
    read_held,
    running_run,
    submit,
)

HIGH, MEDIUM, LOW = Priority


async def wait_long(store: Store, *, now: float = 100, since: float = 50, limit: int = 9) -> list[WaitingRun]:
    """Return what has waited in queue `urgent` for too long."""
    return await store.read_kept_waiting({"urgent": at(since)}, now=at(now), limit=limit)


async def add_waiting(store: Store, tier: Priority = HIGH, count: int = 1) -> WaitingRun:
    """Let runs wait in queue `urgent`, and return the first."""
    job = await add_job(store, make_spec(name=f"urgent-{tier.name}", queue="urgent", priority=tier))
    await submit(store, job, count)
    return next(run for run in await wait_long(store) if run.job_id == job.id)


def victim_of(held: HeldRun, *, token: int | None = None, times: int = 1, now: float = 100) -> Victim:
    """Make the victim that a run is as far as its facts say."""
    token = held.token if token is None else token
    mark = PreemptionMark(token=token, at=at(now), by="HIGH work of queue urgent", times=times)
    return Victim(run_id=held.run_id, token=token, mark=mark, old=held.mark)


def make_request(lane_id: LaneId, *victims: Victim, before: float = 90) -> PreemptionRequest:
    """Make a request that is refused if slots were sought later than `before`."""
    return PreemptionRequest(lane_id=lane_id, sought_before=at(before), victims=victims)


def leases(*held: HeldRun) -> tuple[Lease, ...]:
    """Return the leases of runs."""
    return tuple((one.run_id, one.token) for one in held)


class RunsKeptWaiting:
    """Only ready runs of the tiers that may preempt, in the queues that are asked for, are found."""

    __test__ = False

    async def test_runs_are_found_with_all_that_is_asked_of_them(self, store: Store) -> None:
        job = await add_job(store, make_spec(queue="urgent", priority=MEDIUM))
        [run_id] = await submit(store, job)
        [lane] = await store.read_lanes([])
        assert await wait_long(store) == [
            WaitingRun(run_id, lane.id, lane.key, None, job.id, job.version, START)
        ]

    async def test_others_are_not_found(self, store: Store) -> None:
        job = await add_job(store, make_spec(name="urgent", queue="urgent", priority=HIGH))
        await store.apply([lose(await running_run(store, job), now=1)], now=at(1))
        await running_run(store, job)
        urgent = make_spec(queue="urgent", priority=HIGH)
        for spec in (
            replace(urgent, name="low", priority=LOW),
            replace(urgent, name="elsewhere", queue="other"),
            replace(urgent, name="lined", concurrency=(JobLimit(limit=1),)),
        ):
            await submit(store, await add_job(store, spec))
        await submit(store, job, due_at=at(51))
        await submit(store, job, expires_at=at(99))
        assert await wait_long(store) == []

    async def test_the_longest_waiting_come_first(self, store: Store) -> None:
        job = await add_job(store, make_spec(queue="urgent", priority=HIGH))
        runs = [(await submit(store, job, due_at=at(second)))[0] for second in (30, 10, 20)]
        found = await wait_long(store, limit=2)
        assert [run.run_id for run in found] == [runs[1], runs[2]]

    async def test_of_some_tenants_all_that_is_ready_is_found(self, store: Store) -> None:
        spec = make_spec(queue="urgent", priority=LOW)
        job, other = await add_job(store, spec), await add_job(store, spec, tenant="other")
        elsewhere = await add_job(store, replace(spec, name="elsewhere", queue="calm"))
        runs = [(await submit(store, job, due_at=at(second)))[0] for second in (30, 99, 101)]
        await submit(store, other)
        await submit(store, elsewhere)
        found = await store.read_kept_waiting({"urgent": at(50)}, [job.tenant], now=at(100), limit=9)
        assert [run.run_id for run in found] == runs[:2]
        assert {run.lane.tenant for run in found} == {job.tenant}
        assert await wait_long(store) == []

    async def test_no_queue_has_no_runs(self, store: Store) -> None:
        await add_waiting(store)
        assert await store.read_kept_waiting({}, now=at(100), limit=9) == []


class LeasesOfSessions:
    """What live sessions hold is read with what decides who gives way."""

    __test__ = False

    async def test_leases_are_read_with_all_that_is_asked_of_them(self, store: Store) -> None:
        job = await add_job(store, make_spec(priority=LOW))
        session_id = await add_session(store)
        await submit(store, job)
        [lease] = await claim(store, session_id, now=at(3))
        [seated] = await store.read_seated([session_id, UNKNOWN_SESSION])
        assert (seated.run_id, seated.token, seated.session_id) == (lease.run_id, lease.token, session_id)
        assert (seated.job_id, seated.version, seated.tier) == (job.id, job.version, LOW)
        assert seated.tenant == job.tenant
        assert (seated.is_quarantined, seated.is_cancel_requested) == (False, False)
        assert (seated.started_at, seated.mark, seated.key_id) == (at(3), None, None)
        await store.cancel_runs([lease.run_id], reason="cancelled", now=at(4))
        [seated] = await store.read_seated([session_id])
        assert seated.is_cancel_requested

    async def test_runs_of_one_key_and_claim_show_both(self, store: Store) -> None:
        job = await add_job(store, make_spec(concurrency=(JobLimit(limit=5),)))
        session_id = await add_session(store)
        await submit(store, job, 2)
        await claim_lined_up(store, session_id, limit=2)
        first, second = await store.read_seated([session_id])
        assert first.key_id is not None
        assert (first.key_id, first.claim_number) == (second.key_id, second.claim_number)

    async def test_sessions_that_have_ended_hold_no_slots(self, store: Store) -> None:
        held = await running_run(store)
        await store.close_sessions([held.session_id], now=at(1))
        assert await store.read_seated([held.session_id]) == []
        assert await store.read_seated([]) == []


class PreemptionsAreAskedFor:
    """Runs are asked once, by one server in a period, and only while nothing else has become of them."""

    __test__ = False

    async def test_a_run_that_was_asked_learns_it_with_each_heartbeat(self, store: Store) -> None:
        held, waiting = await running_run(store), await add_waiting(store)
        asked = await store.request_preemptions([make_request(waiting.lane_id, victim_of(held))], now=at(100))
        assert asked == [leases(held)]
        for second in (101, 102):
            answer = await beat(store, held.session_id, (held.run_id, held.token), now=second)
            assert (answer.preempt, answer.cancel, answer.lost) == (leases(held), (), ())
        [seated] = await store.read_seated([held.session_id])
        assert seated.mark == victim_of(held).mark
        assert (await read_held(store, held.run_id)).mark == victim_of(held).mark
        assert (await read_run(store, held.run_id)).state is RunState.RUNNING

    async def test_a_session_that_does_not_name_the_lease_is_not_told(self, store: Store) -> None:
        held, waiting = await running_run(store), await add_waiting(store)
        await store.request_preemptions([make_request(waiting.lane_id, victim_of(held))], now=at(100))
        assert (await beat(store, held.session_id, now=101)).preempt == ()

    async def test_slots_are_sought_for_a_lane_once_in_a_period(self, store: Store) -> None:
        first, second, third = [await running_run(store) for _ in range(3)]
        waiting = await add_waiting(store)
        request = [make_request(waiting.lane_id, victim_of(first))]
        assert await store.request_preemptions(request, now=at(100)) == [leases(first)]
        late = [make_request(waiting.lane_id, victim_of(second), before=99)]
        assert await store.request_preemptions(late, now=at(109)) == [()]
        [found] = await wait_long(store)
        assert found.preempted_at == at(100)
        again = [make_request(waiting.lane_id, victim_of(third), before=100)]
        assert await store.request_preemptions(again, now=at(110)) == [leases(third)]
        assert (await read_held(store, second.run_id)).mark is None

    async def test_what_has_become_something_else_is_passed_over(self, store: Store) -> None:
        job = await add_job(store)
        asked, cancelled, lost, done, fit = [await running_run(store, job) for _ in range(5)]
        waiting = await add_waiting(store)
        await store.request_preemptions([make_request(waiting.lane_id, victim_of(asked))], now=at(100))
        await store.cancel_runs([cancelled.run_id], reason="cancelled", now=at(101))
        await store.apply([succeed(done)], now=at(101))
        await store.apply([fail(lost, now=101)], now=at(101))
        victims = [victim_of(one) for one in (asked, cancelled, lost, done, fit)]
        unknown = replace(victims[0], run_id=UNKNOWN_RUN)
        request = make_request(waiting.lane_id, *victims, unknown, before=105)
        assert await store.request_preemptions([request], now=at(110)) == [leases(fit)]
        assert (await read_held(store, asked.run_id)).mark == victims[0].mark

    async def test_a_mark_counts_under_its_token_only(self, store: Store) -> None:
        job = await add_job(store)
        held, waiting = await running_run(store, job), await add_waiting(store)
        await store.request_preemptions([make_request(waiting.lane_id, victim_of(held))], now=at(100))
        end = outcomes.preempted(facts_of(held), job.spec, by="HIGH work of queue urgent", now=at(101))
        await store.apply([end], now=at(101))
        session_id = await add_session(store)
        [again] = [
            one for one in await claim(store, session_id, now=at(102), limit=9) if one.run_id == held.run_id
        ]
        assert (again.attempt, again.token) == (1, held.token + 2)
        assert (await beat(store, session_id, (again.run_id, again.token), now=103)).preempt == ()
        later = await read_held(store, held.run_id)
        assert later.mark == victim_of(held).mark
        second = make_request(waiting.lane_id, victim_of(later, times=2, now=110), before=105)
        assert await store.request_preemptions([second], now=at(110)) == [leases(later)]
        answer = await beat(store, session_id, (again.run_id, again.token), now=111)
        assert answer.preempt == leases(later)

    async def test_a_preempted_attempt_stays_on_record(self, store: Store) -> None:
        held = await running_run(store)
        spec = make_spec()
        end = outcomes.preempted(facts_of(held), spec, by="HIGH work of queue urgent", now=at(9))
        await store.apply([end], now=at(9))
        run = await read_run(store, held.run_id)
        assert (run.state, run.attempt, run.crashes, run.ready_at) == (RunState.PENDING, 1, 0, at(9))
        [attempt] = await store.list_attempts(held.run_id)
        assert (attempt.outcome, attempt.number) == ("preempted", 1)
        assert attempt.error == "preempted by HIGH work of queue urgent"

    async def test_who_is_cancelled_too_is_only_cancelled(self, store: Store) -> None:
        held, waiting = await running_run(store), await add_waiting(store)
        await store.request_preemptions([make_request(waiting.lane_id, victim_of(held))], now=at(100))
        await store.cancel_runs([held.run_id], reason="cancelled", now=at(101))
        answer = await beat(store, held.session_id, (held.run_id, held.token), now=102)
        assert (answer.preempt, answer.cancel) == ((), leases(held))

    async def test_several_lanes_are_served_by_one_call(self, store: Store) -> None:
        first, second = await running_run(store), await running_run(store)
        high, medium = await add_waiting(store), await add_waiting(store, MEDIUM)
        requests = [
            make_request(medium.lane_id, victim_of(first)),
            make_request(high.lane_id, victim_of(second), victim_of(first)),
            make_request(LaneId(10**9), victim_of(second)),
        ]
        assert await store.request_preemptions(requests, now=at(100)) == [leases(first), leases(second), ()]
        assert await store.request_preemptions([], now=at(100)) == []

    async def test_of_several_servers_one_acts(self, store: Store) -> None:
        job = await add_job(store)
        held = [await running_run(store, job) for _ in range(8)]
        waiting = await add_waiting(store)
        found = await asyncio.gather(
            *(
                store.request_preemptions([make_request(waiting.lane_id, victim_of(one))], now=at(100))
                for one in held
            )
        )
        assert sum(len(asked) for [asked] in found) == 1

    async def test_how_long_a_queue_waits_is_kept(self, store: Store) -> None:
        urgent = Queue(name="urgent", preempt_after=timedelta(seconds=10))
        await store.write_queues([urgent, Queue(name="calm")])
        policies = await store.read_policies()
        assert policies is not None
        assert policies.queues == {"urgent": urgent, "calm": Queue(name="calm")}
