"""Sessions and nodes: heartbeats, reconciliation, orphans, deadlines, shards."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from mainspring.core.ids import RunId, SessionId
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.claims import HeldRun
from mainspring.ports.store.sessions import Beat, BeatResult, SessionOwner
from mainspring.testing.conformance.claiming import UNKNOWN_SESSION, ids_of
from mainspring.testing.conformance.completion import APPLIED, UNKNOWN_RUN, give_back, lose, succeed
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    at,
    claim,
    make_session,
    make_spec,
    running_run,
    submit,
)


async def beat(store: Store, session_id: SessionId, *held: tuple[RunId, int], now: float = 1) -> BeatResult:
    """Send one heartbeat."""
    [result] = await store.beat_sessions([Beat(session_id=session_id, held=held)], now=at(now))
    return result


class Sessions:
    """Sessions are opened, send heartbeats, and end by leaving or by being declared dead."""

    __test__ = False

    async def test_session_reads_back_what_it_offers(self, store: Store) -> None:
        offer = make_session(
            worker="w",
            host="h",
            pid=9,
            slots=3,
            queues=("q", "é"),
            types=("http",),
            functions=("f",),
            labels=("gpu",),
            beat_period=timedelta(seconds=2.5),
        )
        [session_id] = await store.add_sessions([offer], now=START)
        [facts] = await store.list_sessions()
        assert (facts.id, facts.worker, facts.host, facts.pid, facts.slots) == (session_id, "w", "h", 9, 3)
        assert (facts.queues, facts.types) == (("q", "é"), ("http",))
        assert (facts.functions, facts.labels) == (("f",), ("gpu",))
        assert facts.beat_period == timedelta(seconds=2.5)
        assert (facts.started_at, facts.last_beat_at) == (START, START)

    async def test_a_session_is_of_the_account_that_opened_it(self, store: Store) -> None:
        offers = [make_session(account="ann", tenant="shop", queues=("mail", "é")), make_session()]
        of_ann, of_nobody = await store.add_sessions(offers, now=START)
        ann, nobody = SessionOwner("ann", "shop", ("mail", "é")), SessionOwner(None, None, ())
        wanted = [of_nobody, UNKNOWN_SESSION, of_ann]
        assert await store.find_session_owners(wanted) == {of_ann: ann, of_nobody: nobody}
        await store.close_sessions([of_ann], now=at(1))
        assert await store.find_session_owners([of_ann]) == {of_ann: ann}
        assert await store.find_session_owners([]) == {}

    async def test_a_session_is_of_one_tenant_or_of_all(self, store: Store) -> None:
        await store.add_sessions([make_session(tenant="shop"), make_session()], now=START)
        assert [session.tenant for session in await store.list_sessions()] == ["shop", None]
        assert [session.tenant for session in await store.page_sessions(limit=5)] == ["shop", None]

    async def test_sessions_of_one_tenant_are_paged(self, store: Store) -> None:
        offers = [make_session(tenant=tenant) for tenant in ("shop", "bank", None, "shop")]
        first, _, _, last = await store.add_sessions(offers, now=START)
        assert [one.id for one in await store.page_sessions(tenant="shop")] == [first, last]
        assert [one.id for one in await store.page_sessions(tenant="shop", limit=1)] == [first]
        assert [one.id for one in await store.page_sessions(tenant="shop", after=first)] == [last]
        assert await store.page_sessions(tenant="mine") == []

    async def test_sessions_are_opened_in_order(self, store: Store) -> None:
        offers = [make_session(worker=f"w{number}") for number in range(3)]
        session_ids = await store.add_sessions(offers, now=START)
        facts = {session.id: session.worker for session in await store.list_sessions()}
        assert [facts[session_id] for session_id in session_ids] == ["w0", "w1", "w2"]
        assert len(set(session_ids)) == 3

    async def test_beat_raises_the_counter(self, store: Store) -> None:
        session_id, other = await add_session(store), await add_session(store)
        before = {session.id: session.beats for session in await store.list_sessions()}
        result = await beat(store, session_id, now=7)
        assert result == BeatResult(is_session_live=True)
        after = {session.id: session for session in await store.list_sessions()}
        pulses = await store.read_pulses()
        assert pulses == {key: (facts.beats, facts.beat_period) for key, facts in after.items()}
        assert after[session_id].beats == before[session_id] + 1
        assert after[session_id].last_beat_at == at(7)
        assert after[other].beats == before[other]

    async def test_each_beat_of_a_call_raises_its_sessions_counter(self, store: Store) -> None:
        session_id, other = await add_session(store), await add_session(store)
        beats = [Beat(session_id=session, held=()) for session in (session_id, other, session_id)]
        results = await store.beat_sessions(beats, now=at(7))
        assert results == [BeatResult(is_session_live=True)] * 3
        pulses = await store.read_pulses()
        assert (pulses[session_id].beats, pulses[other].beats) == (2, 1)

    async def test_ended_sessions_are_not_live(self, store: Store) -> None:
        closed, dead, live = [await add_session(store) for _ in range(3)]
        await store.close_sessions([closed, UNKNOWN_SESSION], now=at(1))
        await store.expire_sessions([(dead, 0)], now=at(1))
        assert [session.id for session in await store.list_sessions()] == [live]
        beats = [Beat(session_id=session_id, held=()) for session_id in (closed, live, dead, UNKNOWN_SESSION)]
        results = await store.beat_sessions(beats, now=at(2))
        assert [result.is_session_live for result in results] == [False, True, False, False]

    async def test_expiry_holds_only_where_the_counter_stood_still(self, store: Store) -> None:
        silent, alive = await add_session(store), await add_session(store)
        judged = [(session.id, session.beats) for session in await store.list_sessions()]
        await beat(store, alive)
        verdicts = dict(zip((session_id for session_id, _ in judged), [False, False], strict=True))
        results = await store.expire_sessions(judged, now=at(2))
        verdicts.update(zip((session_id for session_id, _ in judged), results, strict=True))
        assert verdicts == {silent: True, alive: False}
        assert [session.id for session in await store.list_sessions()] == [alive]

    async def test_expiry_of_ended_and_unknown_sessions_says_no(self, store: Store) -> None:
        session_id = await add_session(store)
        judged = [(session_id, 0), (UNKNOWN_SESSION, 0)]
        assert await store.expire_sessions(judged, now=at(1)) == [True, False]
        assert await store.expire_sessions(judged, now=at(2)) == [False, False]

    async def test_beat_and_expiry_at_once_have_one_winner(self, store: Store) -> None:
        for _ in range(5):
            session_id = await add_session(store)
            [result, [is_dead]] = await asyncio.gather(
                beat(store, session_id), store.expire_sessions([(session_id, 0)], now=at(1))
            )
            assert result.is_session_live is not is_dead


class Reconciliation:
    """A heartbeat names what the worker holds. Each side learns what it does not know."""

    __test__ = False

    async def test_held_leases_are_confirmed(self, store: Store) -> None:
        held = await running_run(store)
        for second in (1, 2, 3):
            result = await beat(store, held.session_id, (held.run_id, held.token), now=second)
            assert result == BeatResult(is_session_live=True)

    async def test_leases_that_the_session_lost_are_told(self, store: Store) -> None:
        job = await add_job(store)
        session_id = await add_session(store)
        kept, lost, done = [await running_run(store, job, session_id=session_id) for _ in range(3)]
        await store.apply([lose(lost, now=1), succeed(done)], now=at(1))
        leases = [(held.run_id, held.token) for held in (lost, kept, done)]
        leases += [(UNKNOWN_RUN, 1), (kept.run_id, kept.token + 1)]
        result = await beat(store, session_id, *leases)
        assert set(result.lost) == {leases[0], leases[2], leases[3], leases[4]}
        assert (result.cancel, result.unknown) == ((), ())

    async def test_leases_of_another_session_are_lost(self, store: Store) -> None:
        held = await running_run(store)
        other = await add_session(store)
        result = await beat(store, other, (held.run_id, held.token))
        assert result.lost == ((held.run_id, held.token),)

    async def test_asked_cancels_are_told_until_the_run_ends(self, store: Store) -> None:
        held = await running_run(store)
        await store.cancel_runs([held.run_id], reason="operator", now=at(1))
        lease = (held.run_id, held.token)
        for second in (2, 3):
            result = await beat(store, held.session_id, lease, now=second)
            assert (result.cancel, result.lost) == ((lease,), ())
        await store.apply([succeed(held)], now=at(4))
        result = await beat(store, held.session_id, lease, now=5)
        assert (result.cancel, result.lost) == ((), (lease,))

    async def test_lease_missing_from_two_beats_is_unknown(self, store: Store) -> None:
        held = await running_run(store)
        assert (await beat(store, held.session_id, now=1)).unknown == ()
        assert (await beat(store, held.session_id, now=2)).unknown == (held,)
        assert (await beat(store, held.session_id, now=3)).unknown == (held,)
        assert await store.apply([give_back(held, now=4, was_started=False)], now=at(4)) == APPLIED
        assert (await beat(store, held.session_id, now=5)).unknown == ()

    async def test_lease_whose_answer_may_be_on_its_way_is_not_unknown(self, store: Store) -> None:
        job = await add_job(store)
        session_id = await add_session(store)
        await submit(store, job, 2)
        claims = [await claim(store, session_id, number=number) for number in (1, 2)]
        first, second = (run.run_id for runs in claims for run in runs)
        unknown = []
        for answered in (0, 0, 1, 1, 2, 2, None):
            one = Beat(session_id=session_id, held=(), answered=answered)
            [result] = await store.beat_sessions([one], now=at(1))
            unknown.append({held.run_id for held in result.unknown})
        assert unknown == [set(), set(), set(), {first}, {first}, {first, second}, {first, second}]

    async def test_lease_named_in_between_is_known(self, store: Store) -> None:
        held = await running_run(store)
        lease = (held.run_id, held.token)
        for second, leases in enumerate([(), (lease,), (), (lease,), ()]):
            result = await beat(store, held.session_id, *leases, now=second)
            assert (result.unknown, result.lost) == ((), ())

    async def test_lease_younger_than_the_last_beat_is_not_yet_unknown(self, store: Store) -> None:
        session_id = await add_session(store)
        for second in (1, 2, 3):
            await beat(store, session_id, now=second)
        held = await running_run(store, session_id=session_id)
        assert (await beat(store, session_id, now=4)).unknown == ()
        assert (await beat(store, session_id, now=5)).unknown == (held,)

    async def test_old_lease_is_found_behind_the_claims_and_beats_that_came_since(self, store: Store) -> None:
        """A store may remember where its scan has to begin, but must not miss anything by it."""
        job = await add_job(store, make_spec(timeout=timedelta(seconds=60)))
        session_id = await add_session(store)

        async def pass_by(*held: HeldRun) -> None:
            passing = await running_run(store, job, session_id=session_id)
            await store.apply([succeed(passing)], now=at(1))
            leases = [(run.run_id, run.token) for run in held]
            assert (await beat(store, session_id, *leases, now=1)).lost == ()

        await pass_by()
        await pass_by()
        old = await running_run(store, job, session_id=session_id)
        await pass_by(old)
        await pass_by(old)
        new = await running_run(store, job, session_id=session_id)
        assert (await beat(store, session_id, now=2)).unknown == ()
        assert set((await beat(store, session_id, now=3)).unknown) == {old, new}
        assert set(await store.list_overdue(now=at(70), limit=10)) == {old, new}
        await store.close_sessions([session_id], now=at(71))
        assert set(await store.list_orphans(limit=10)) == {old, new}

    async def test_sessions_of_a_call_are_reconciled_each(self, store: Store) -> None:
        job = await add_job(store)
        one, other = [await running_run(store, job) for _ in range(2)]
        beats = [
            Beat(session_id=other.session_id, held=((other.run_id, other.token),)),
            Beat(session_id=one.session_id, held=((other.run_id, other.token),)),
        ]
        results = await store.beat_sessions(beats, now=at(1))
        assert [result.lost for result in results] == [(), ((other.run_id, other.token),)]


class Orphans:
    """Runs without a live session, and runs past their deadline, are found by every reader."""

    __test__ = False

    async def test_runs_of_ended_sessions_are_orphans(self, store: Store) -> None:
        job = await add_job(store)
        closed, dead, live = [await running_run(store, job) for _ in range(3)]
        assert await store.list_orphans(limit=10) == []
        await store.close_sessions([closed.session_id], now=at(1))
        await store.expire_sessions([(dead.session_id, 0)], now=at(1))
        orphans = await store.list_orphans(limit=10)
        assert sorted(orphans, key=lambda held: held.run_id) == [closed, dead]
        assert len(await store.list_orphans(limit=1)) == 1
        await store.apply([lose(closed, now=2), lose(dead, now=2)], now=at(2))
        assert await store.list_orphans(limit=10) == []
        assert await store.apply([succeed(live)], now=at(3)) == APPLIED

    async def test_orphan_that_reports_before_it_is_reaped_is_applied(self, store: Store) -> None:
        held = await running_run(store)
        await store.close_sessions([held.session_id], now=at(1))
        assert await store.apply([succeed(held)], now=at(2)) == APPLIED
        assert await store.list_orphans(limit=10) == []

    async def test_runs_past_their_deadline_are_overdue(self, store: Store) -> None:
        short = await add_job(store, make_spec(timeout=timedelta(seconds=10)))
        long = await add_job(store, make_spec(timeout=timedelta(seconds=100)))
        first, second = await running_run(store, short), await running_run(store, long)
        assert await store.list_overdue(now=at(9), limit=10) == []
        assert await store.list_overdue(now=at(11), limit=10) == [first]
        overdue = await store.list_overdue(now=at(101), limit=10)
        assert sorted(overdue, key=lambda held: held.run_id) == [first, second]
        assert len(await store.list_overdue(now=at(101), limit=1)) == 1
        await store.apply([succeed(first)], now=at(102))
        assert await store.list_overdue(now=at(102), limit=10) == [second]

    async def test_earliest_deadline_comes_first(self, store: Store) -> None:
        limits = (30, 10, 50, 20, 40)
        jobs = [await add_job(store, make_spec(timeout=timedelta(seconds=limit))) for limit in limits]
        held = {limit: await running_run(store, job) for limit, job in zip(limits, jobs, strict=True)}
        assert await store.list_overdue(now=at(100), limit=2) == [held[10], held[20]]
        assert await store.list_overdue(now=at(100), limit=10) == [held[limit] for limit in sorted(limits)]

    async def test_deadline_counts_from_each_claim(self, store: Store) -> None:
        job = await add_job(store, make_spec(timeout=timedelta(seconds=10)))
        held = await running_run(store, job)
        await store.apply([give_back(held, now=8)], now=at(8))
        leased = await claim(store, await add_session(store), now=at(9))
        assert ids_of(leased) == [held.run_id]
        assert await store.list_overdue(now=at(12), limit=10) == []
        assert [run.run_id for run in await store.list_overdue(now=at(20), limit=10)] == [held.run_id]

    async def test_read_held_answers_in_order_for_running_runs(self, store: Store) -> None:
        job = await add_job(store)
        held = await running_run(store, job)
        [waiting] = await submit(store, job)
        run_ids = [waiting, held.run_id, UNKNOWN_RUN]
        assert await store.read_held(run_ids) == [None, held, None]
        assert (await store.count_runs("default"))[RunState.RUNNING] == 1
