"""Caps of queues, tenants and labels: claims from their lanes keep them, and what runs already counts."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

from mainspring.core import outcomes
from mainspring.core.batching import BatchRule
from mainspring.core.ids import SessionId
from mainspring.core.lane_caps import CapKey, CapScope, CapUse, LaneCap
from mainspring.core.limits import CLUSTER, Hold, JobLimit
from mainspring.core.retry import RetryPolicy
from mainspring.ports.store import Store
from mainspring.ports.store.limits import PLAIN, LineClaimResult, LineKey, LineQuota
from mainspring.testing.conformance.claiming import crashed_run
from mainspring.testing.conformance.limits import end, fail, ids
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    all_lanes,
    at,
    claim,
    claim_lined_up,
    facts_of,
    make_claim,
    make_spec,
    read_held,
    submit,
)

MAIL = CapKey(CapScope.QUEUE, "mail")
GPU = CapKey(CapScope.LABEL, "gpu")
ACME = CapKey(CapScope.TENANT, "acme")


async def cap(store: Store, key: CapKey, most: int | None, *, now: datetime = START) -> None:
    """Set a cap."""
    assert await store.write_caps([LaneCap(key, most)], now=now) == []


async def requirements(store: Store) -> dict[str, Any]:
    """Return what a claim says about caps: the keys of each lane, and the policy epoch."""
    found = await store.read_restrictions()
    assert found is not None
    lanes = await store.read_lanes([])
    caps = {lane.id: found.caps.keys_of(lane.key) for lane in lanes}
    return {"caps": {key: one for key, one in caps.items() if one}, "policy_epoch": found.epoch}


async def claim_capped(
    store: Store, session_id: SessionId, *, limit: int = 9, now: datetime = START, **overrides: Any
) -> LineClaimResult:
    """Claim for a session from all lines, and from the lanes of runs without keys, in order."""
    values = await requirements(store) | overrides
    if "lines" not in values:
        plain = [
            LineQuota(LineKey(PLAIN, lane.id), lane.earliest_ready_at, limit)
            for lane in sorted(await store.read_lanes([]), key=lambda lane: lane.id)
            if lane.earliest_ready_at is not None and lane.earliest_ready_at <= now
        ]
        lines = [
            LineQuota(line.key, line.ready_at, limit)
            for line in await store.read_lines(limit=99)
            if line.ready_at <= now
        ]
        values["lines"] = (*plain, *lines)
    return await claim_lined_up(store, session_id, limit=limit, now=now, **values)


class LaneCapsAreKept:
    """No more runs of a queue, of a tenant or with a label are under way than its cap says."""

    __test__ = False

    async def test_a_queue_has_no_more_under_way_and_each_end_makes_room(self, store: Store) -> None:
        job, session_id = await add_job(store, make_spec(queue="mail")), await add_session(store)
        await cap(store, MAIL, 2)
        runs = await submit(store, job, 5)
        first = await claim_capped(store, session_id)
        assert ids(first.runs) == runs[:2]
        [line] = first.taken
        assert (line.key_id, first.taken[line]) == (PLAIN, 2)
        [key_id] = {key_id for keys in first.keys.values() for key_id in keys}
        assert first.stops[line].key_id == key_id
        assert first.keys.keys() == set(ids(first.runs))
        assert (await claim_capped(store, session_id)).runs == ()
        await end(store, first.runs[:1], session_id)
        assert ids((await claim_capped(store, session_id)).runs) == runs[2:3]

    async def test_it_counts_over_all_lanes_and_jobs(self, store: Store) -> None:
        session_id = await add_session(store)
        for tenant in ("a", "b", "c"):
            await submit(store, await add_job(store, make_spec(queue="mail"), tenant=tenant), 2)
        await cap(store, MAIL, 4)
        result = await claim_capped(store, session_id)
        assert len(result.runs) == 4
        assert len(result.stops) == 1  # of what was picked first, nothing was left out
        assert (await claim_capped(store, session_id)).runs == ()

    async def test_the_oldest_goes_first_if_that_is_asked_for(self, store: Store) -> None:
        session_id = await add_session(store)
        jobs = [await add_job(store, make_spec(queue="mail"), tenant=tenant) for tenant in "ab"]
        keyed = await add_job(store, make_spec(queue="mail", concurrency=(JobLimit(limit=9),)), tenant="c")
        runs = []
        for seconds, job in enumerate((jobs[0], jobs[1], keyed, jobs[1], jobs[0])):
            runs += await submit(store, job, due_at=at(seconds))
        await cap(store, MAIL, 4)
        result = await claim_capped(store, session_id, now=at(9), is_oldest_first=True)
        assert ids(result.runs) == runs[:4]

    async def test_a_label_and_a_tenant_have_caps_of_their_own(self, store: Store) -> None:
        session_id = await add_session(store)
        with_label = await add_job(store, make_spec(labels=("big", "gpu")), tenant="acme")
        without = await add_job(store, make_spec(name="other"), tenant="acme")
        other = await add_job(store, make_spec(labels=("gpu",)), tenant="other")
        await store.write_caps([LaneCap(GPU, 2), LaneCap(ACME, 3)], now=START)
        for job in (with_label, without, other):
            await submit(store, job, 3)
        started = (await claim_capped(store, session_id)).runs
        by_tenant = [run.tenant for run in started]
        by_job = [run.job_id for run in started]
        assert by_tenant.count("acme") == 3
        assert by_job.count(with_label.id) + by_job.count(other.id) == 2

    async def test_runs_with_limits_need_room_under_both(self, store: Store) -> None:
        session_id = await add_session(store)
        narrow = await add_job(store, make_spec(queue="mail", concurrency=(JobLimit(limit=1),)))
        wide = await add_job(store, make_spec(name="wide", queue="mail", concurrency=(JobLimit(limit=9),)))
        await cap(store, MAIL, 2)
        await submit(store, narrow, 3)
        await submit(store, wide, 3)
        first = await claim_capped(store, session_id)
        # What its own limit stops has taken no place under the cap.
        assert [run.job_id for run in first.runs] == [narrow.id, wide.id]
        assert {len(keys) for keys in first.keys.values()} == {2}
        assert (await claim_capped(store, session_id)).runs == ()
        await end(store, first.runs, session_id)
        second = await claim_capped(store, session_id)
        assert [run.job_id for run in second.runs] == [narrow.id, wide.id]

    async def test_retries_that_kept_a_place_need_one_under_the_cap_again(self, store: Store) -> None:
        retry = RetryPolicy(delay=timedelta(seconds=5))
        held = JobLimit(limit=1, hold=Hold.RUN)
        job = await add_job(store, make_spec(queue="mail", concurrency=(held,), retry=retry))
        plain = await add_job(store, make_spec(name="plain", queue="mail"))
        session_id = await add_session(store)
        await cap(store, MAIL, 1)
        [run_id] = await submit(store, job)
        assert ids((await claim_capped(store, session_id)).runs) == [run_id]
        await fail(store, job, run_id, seconds=1)
        await submit(store, plain)
        [other] = (await claim_capped(store, session_id, now=at(1))).runs
        assert other.job_id == plain.id
        assert (await claim_capped(store, session_id, now=at(99))).runs == ()
        await end(store, [other], session_id, seconds=99)
        assert ids((await claim_capped(store, session_id, now=at(100))).runs) == [run_id]

    async def test_quarantined_runs_need_room_too(self, store: Store) -> None:
        job = await add_job(store, make_spec(queue="mail"))
        quarantined = await crashed_run(store, job)
        await cap(store, MAIL, 1)
        busy, idle = await add_session(store), await add_session(store)
        await submit(store, job)
        [run] = (await claim_capped(store, busy, now=at(60))).runs
        claims = {"lanes": await all_lanes(store), "is_quarantined": True, **await requirements(store)}
        assert await claim(store, idle, now=at(60), **claims) == ()
        await end(store, [run], busy, seconds=61)
        assert ids(await claim(store, idle, now=at(62), **claims)) == [quarantined]
        await submit(store, job)
        assert (await claim_capped(store, busy, now=at(62))).runs == ()

    async def test_batches_are_cut_to_the_room_there_is(self, store: Store) -> None:
        batch = BatchRule(size=3, wait=timedelta(seconds=1))
        job, session_id = await add_job(store, make_spec(queue="mail", batch=batch)), await add_session(store)
        await cap(store, MAIL, 4)
        runs = await submit(store, job, 9)
        keys = [line.key for line in await store.read_lines(limit=9)]
        found = await store.read_batches(keys, now=at(5))
        lines = tuple(LineQuota(line.key, line.head_at, 5) for line in found)
        wanted: dict[str, Any] = {"lines": lines, "are_batches": True, "now": at(5), "limit": 5}
        first = await claim_capped(store, session_id, **wanted)
        assert ids(first.runs) == runs[:4]
        assert list(first.taken.values()) == [2]
        assert first.keys.keys() == set(runs[:4])
        assert [stop.is_busy for stop in first.stops.values()] == [False]
        assert (await claim_capped(store, session_id, **wanted)).runs == ()
        await end(store, first.runs[:1], session_id, seconds=6)
        assert ids((await claim_capped(store, session_id, **wanted)).runs) == runs[4:5]
        await cap(store, MAIL, None)
        assert len((await claim_capped(store, session_id, **wanted)).runs) == 4

    async def test_a_lost_run_frees_its_place(self, store: Store) -> None:
        job, session_id = await add_job(store, make_spec(queue="mail")), await add_session(store)
        await cap(store, MAIL, 1)
        runs = await submit(store, job, 2)
        [run] = (await claim_capped(store, session_id)).runs
        held = await read_held(store, run.run_id)
        await store.apply([outcomes.lost(facts_of(held), job.spec, now=at(1))], now=at(1))
        assert ids((await claim_capped(store, session_id, now=at(1))).runs) == runs[1:]


class CapsAreSet:
    """A cap holds exactly from when it is set, whatever claims are under way."""

    __test__ = False

    async def test_they_are_read_again(self, store: Store) -> None:
        before = await store.read_restrictions()
        assert before is not None
        assert not before.caps
        caps = [LaneCap(MAIL, 3), LaneCap(GPU, 1), LaneCap(MAIL, 5), LaneCap(ACME, None)]
        assert await store.write_caps(caps, now=START) == []
        after = await store.read_restrictions(known=before.epoch)
        assert after is not None
        assert after.epoch > before.epoch
        assert [after.caps.get(key) for key in (MAIL, GPU, ACME)] == [5, 1, None]
        await cap(store, GPU, None, now=at(1))
        last = await store.read_restrictions(known=after.epoch)
        assert last is not None
        assert (last.caps.of(CapScope.LABEL), last.caps.get(MAIL)) == ([], 5)
        assert await store.list_limits(CLUSTER) == []  # they are no limits that jobs could use
        assert await store.write_caps([], now=at(2)) == []
        assert await store.read_restrictions(known=last.epoch) is None

    async def test_a_claim_that_was_chosen_before_gives_nothing(self, store: Store) -> None:
        job, session_id = await add_job(store, make_spec(queue="mail")), await add_session(store)
        await submit(store, job)
        old = await requirements(store)
        request = make_claim(session_id, await all_lanes(store), policy_epoch=old["policy_epoch"])
        await cap(store, MAIL, 1)
        [result] = await store.claim_runs([request], now=START)
        assert (result.runs, result.is_policy_old) == ((), True)
        assert (await claim_capped(store, session_id, **old)).is_policy_old
        assert len((await claim_capped(store, session_id)).runs) == 1

    async def test_what_runs_already_counts(self, store: Store) -> None:
        job, session_id = await add_job(store, make_spec(queue="mail")), await add_session(store)
        other = await add_job(store, make_spec(name="other"))
        await submit(store, job, 3)
        await submit(store, other)
        running = await claim(store, session_id, limit=9)
        assert len(running) == 4
        await submit(store, job)
        await cap(store, MAIL, 3)
        await cap(store, MAIL, 3)
        assert (await claim_capped(store, session_id)).runs == ()
        [use] = await store.read_cap_uses([MAIL])
        assert use.held == 3
        await end(store, [run for run in running if run.job_id == job.id][:1], session_id)
        assert len((await claim_capped(store, session_id)).runs) == 1

    async def test_nobody_is_stopped_by_a_lower_one(self, store: Store) -> None:
        job, session_id = await add_job(store, make_spec(queue="mail")), await add_session(store)
        await cap(store, MAIL, 3)
        await submit(store, job, 5)
        running = (await claim_capped(store, session_id)).runs
        await cap(store, MAIL, 1)
        assert (await store.read_cap_uses([MAIL]))[0].held == 3
        await end(store, running[:2], session_id)
        assert (await claim_capped(store, session_id)).runs == ()
        await end(store, running[2:], session_id)
        assert len((await claim_capped(store, session_id)).runs) == 1

    async def test_a_higher_one_and_none_are_met_by_the_next_claim(self, store: Store) -> None:
        job, session_id = await add_job(store, make_spec(queue="mail")), await add_session(store)
        await cap(store, MAIL, 1)
        await submit(store, job, 6)
        assert len((await claim_capped(store, session_id)).runs) == 1
        await cap(store, MAIL, 3)
        assert len((await claim_capped(store, session_id)).runs) == 2
        await cap(store, MAIL, None)
        assert (await requirements(store))["caps"] == {}
        epoch = (await requirements(store))["policy_epoch"]
        assert len(await claim(store, session_id, limit=9, policy_epoch=epoch)) == 3

    async def test_claims_at_the_same_time_keep_it(self, store: Store) -> None:
        job = await add_job(store, make_spec(queue="mail"))
        await submit(store, job, 40)
        sessions = [await add_session(store) for _ in range(4)]
        old = await requirements(store)
        lanes = await all_lanes(store)

        async def claim_as_ever(session_id: SessionId) -> int:
            request = make_claim(session_id, lanes, limit=2, policy_epoch=old["policy_epoch"])
            [result] = await store.claim_runs([request], now=START)
            return len(result.runs)

        setting = asyncio.ensure_future(cap(store, MAIL, 4))
        before = sum(await asyncio.gather(*map(claim_as_ever, sessions)))
        await setting
        assert (await store.read_cap_uses([MAIL]))[0].held == before
        results = await asyncio.gather(*(claim_capped(store, one) for one in sessions))
        assert before + sum(len(result.runs) for result in results) <= max(before, 4)


class PlacesUnderCaps:
    """Who has a place under a cap, and how long its key is kept."""

    __test__ = False

    async def test_some_holders_are_shown(self, store: Store) -> None:
        job = await add_job(store, make_spec(queue="mail"), tenant="a")
        other = await add_job(store, make_spec(queue="mail"), tenant="b")
        session_id = await add_session(store)
        assert await store.read_cap_uses([MAIL, GPU]) == [CapUse(), CapUse()]
        assert await store.read_cap_uses([]) == []
        await cap(store, MAIL, 9)
        await submit(store, job, 1)
        await submit(store, other, 6)
        running = (await claim_capped(store, session_id)).runs
        gpu, mail = await store.read_cap_uses([GPU, MAIL])
        assert gpu == CapUse()
        assert (mail.held, len(mail.holders)) == (7, 5)
        assert set(mail.seen_by("a")) <= set(ids(running))
        await end(store, running[:3], session_id)
        assert (await store.read_cap_uses([MAIL]))[0].held == 4
        await cap(store, MAIL, None)
        assert await store.read_cap_uses([MAIL]) == [CapUse()]

    async def test_its_key_stays_while_it_is_set(self, store: Store) -> None:
        job, session_id = await add_job(store, make_spec(queue="mail")), await add_session(store)
        await cap(store, MAIL, 1)
        known = await requirements(store)
        for _ in range(3):
            await store.prune_limits(now=at(9), limit=9)
        assert await requirements(store) == known
        await submit(store, job, 2)
        assert len((await claim_capped(store, session_id)).runs) == 1
        await cap(store, MAIL, None)
        [run] = await claim(
            store, session_id, limit=9, policy_epoch=(await requirements(store))["policy_epoch"]
        )
        for seconds in range(9, 19):
            await store.prune_limits(now=at(seconds), limit=9)
        await cap(store, MAIL, 3)
        assert (await store.read_cap_uses([MAIL]))[0].held == 2
        await end(store, [run], session_id)
        assert (await store.read_cap_uses([MAIL]))[0].held == 1
