"""Limits of the cluster, which jobs of all tenants share."""

from __future__ import annotations

from datetime import timedelta

from mainspring.core.limits import CLUSTER, JobLimit, LimitRule
from mainspring.core.rates import Rate
from mainspring.ports.store import Store
from mainspring.ports.store.limits import LineQuota
from mainspring.testing.conformance.limits import end
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    at,
    claim_lined_up,
    make_spec,
    submit,
)


class LimitsOfTheCluster:
    """Jobs of all tenants share them, unless their tenant has a limit of the same name."""

    __test__ = False

    async def test_tenants_share_the_room(self, store: Store) -> None:
        session_id = await add_session(store)
        assert await store.write_limits(CLUSTER, [LimitRule(name="crm", max_running=3)]) == [True]
        assert [rule.name for rule in await store.list_limits(CLUSTER)] == ["crm"]
        assert await store.list_limits("a") == []
        await store.write_limits("own", [LimitRule(name="crm", max_running=1)])
        uses = make_spec(concurrency=(JobLimit(use="crm"),))
        jobs = [await add_job(store, uses, tenant=tenant) for tenant in ("a", "b", "own")]
        for job in jobs:
            await submit(store, job, 3)
        started = (await claim_lined_up(store, session_id, limit=9)).runs
        tenants = [run.tenant for run in started]
        assert len(started) == 4
        assert tenants.count("own") == 1
        [key] = await store.list_keys(CLUSTER, "crm", limit=9, now=START)
        assert key.held == 3
        assert [key.held for key in await store.list_keys("own", "crm", limit=9, now=START)] == [1]
        await end(store, [run for run in started if run.tenant != "own"], session_id)
        assert len((await claim_lined_up(store, session_id, limit=9, now=at(2))).runs) == 3

    async def test_a_tenant_s_own_comes_first_for_what_is_submitted_from_then_on(self, store: Store) -> None:
        session_id = await add_session(store)
        await store.write_limits(CLUSTER, [LimitRule(name="crm", max_running=1)])
        job = await add_job(store, make_spec(concurrency=(JobLimit(use="crm"),)), tenant="a")
        await submit(store, job, 2)
        await store.write_limits("a", [LimitRule(name="crm", max_running=2)])
        await submit(store, job, 3)
        assert len((await claim_lined_up(store, session_id, limit=9)).runs) == 3
        assert (await store.delete_limit("a", "crm")).used_by == (job.spec.name,)

    async def test_one_that_is_used_is_not_deleted(self, store: Store) -> None:
        await store.write_limits(CLUSTER, [LimitRule(name="crm", rate=Rate(10, timedelta(seconds=1)))])
        job = await add_job(store, make_spec(concurrency=(JobLimit(use="crm"),)), tenant="a")
        assert (await store.delete_limit(CLUSTER, "crm")).used_by == (job.spec.name,)
        await store.write_limits("a", [LimitRule(name="crm", max_running=2)])
        deletion = await store.delete_limit(CLUSTER, "crm")
        assert (deletion.is_known, deletion.used_by) == (True, ())
        assert await store.list_limits(CLUSTER) == []
        assert not (await store.delete_limit(CLUSTER, "crm")).is_known

    async def test_who_waits_sees_how_many_have_places_but_no_runs_of_others(self, store: Store) -> None:
        session_id = await add_session(store)
        await store.write_limits(CLUSTER, [LimitRule(name="crm", max_running=2)])
        uses = make_spec(concurrency=(JobLimit(use="crm"),))
        mine, theirs = await add_job(store, uses, tenant="a"), await add_job(store, uses, tenant="b")
        own = await submit(store, mine, 2)
        await submit(store, theirs)
        assert len((await claim_lined_up(store, session_id, limit=1)).runs) == 1
        line = (await store.read_lines(limit=9))[-1]
        lines = (LineQuota(line.key, line.ready_at, 1),)
        assert len((await claim_lined_up(store, session_id, limit=1, lines=lines)).runs) == 1
        wait = await store.read_wait(own[1], now=START)
        assert wait is not None
        [key] = wait.keys
        assert (key.is_of_cluster, key.held, key.holders) == (True, 2, (own[0],))
