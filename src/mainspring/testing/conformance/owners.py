"""Owners: whose code defines which jobs, what it does not define any more, and who the workers of the past were."""

from __future__ import annotations

from datetime import timedelta

from mainspring.core.clocks import ChangeVerdict
from mainspring.core.ids import JobId, SessionId
from mainspring.ports.store import Store
from mainspring.ports.store.sessions import NewSession, WorkerName
from mainspring.testing.factories import START, at, make_change, make_new_job, make_spec, read_job

TENANT = "default"
DAY = timedelta(days=1)


async def _add(store: Store, name: str, *, tenant: str = TENANT) -> JobId:
    new = make_new_job(make_spec(name=name), next_fire_at=at(60), tenant=tenant)
    await store.add_jobs([new], now=START)
    return new.id


class Owners:
    """An owner says which jobs it defines; its others are undefined, and nobody else's are touched."""

    __test__ = False

    async def test_jobs_belong_to_who_defines_them_and_to_nobody_before(self, store: Store) -> None:
        first, other = await _add(store, "a"), await _add(store, "b")
        change = await store.own_jobs(TENANT, "shop", ["a"], now=at(1))
        assert (change.defined, change.undefined, change.taken, change.missing) == ((first,), (), (), ())
        job, free = await read_job(store, first), await read_job(store, other)
        assert (job.owner, job.undefined_since, job.version, job.updated_at) == ("shop", None, 1, START)
        assert (free.owner, free.undefined_since, free.revision) == (None, None, 1)

    async def test_what_is_not_defined_any_more_is_listed_since_the_first_time(self, store: Store) -> None:
        kept, dropped = await _add(store, "a"), await _add(store, "b")
        await _add(store, "by hand")
        await store.own_jobs(TENANT, "shop", ["a", "b"], now=at(1))
        assert (await store.own_jobs(TENANT, "shop", ["a"], now=at(2))).undefined == (dropped,)
        assert (await store.own_jobs(TENANT, "shop", ["a"], now=at(3))).undefined == ()
        (job,) = await store.list_undefined(TENANT)
        assert (job.id, job.owner, job.undefined_since) == (dropped, "shop", at(2))
        assert (await read_job(store, kept)).undefined_since is None
        assert await store.list_undefined(TENANT, owner="another") == []
        assert await store.list_undefined("another", owner="shop") == []
        assert await store.list_undefined(TENANT, owner="shop", after=dropped) == []

    async def test_a_job_that_is_defined_again_keeps_its_clock_and_loses_stale_deletions(
        self, store: Store
    ) -> None:
        job_id = await _add(store, "a")
        await store.own_jobs(TENANT, "shop", ["a"], now=at(1))
        await store.own_jobs(TENANT, "shop", [], now=at(2))
        before = await read_job(store, job_id)
        await store.own_jobs(TENANT, "shop", ["a"], now=at(3))
        assert await store.delete_jobs([make_change(before)], now=at(4)) == [ChangeVerdict.MOVED]
        after = await read_job(store, job_id)
        assert (after.next_fire_at, after.undefined_since) == (before.next_fire_at, None)
        assert after.revision == before.revision + 1

    async def test_saying_the_same_again_changes_nothing(self, store: Store) -> None:
        job_id = await _add(store, "a")
        await store.own_jobs(TENANT, "shop", ["a"], now=at(1))
        before = await read_job(store, job_id)
        assert (await store.own_jobs(TENANT, "shop", ["a"], now=at(2))).defined == ()
        assert await read_job(store, job_id) == before

    async def test_the_last_who_defines_a_job_owns_it(self, store: Store) -> None:
        job_id = await _add(store, "a")
        await store.own_jobs(TENANT, "shop", ["a"], now=at(1))
        change = await store.own_jobs(TENANT, "mail", ["a"], now=at(2))
        assert (change.defined, change.taken) == ((job_id,), (("a", "shop"),))
        assert (await store.own_jobs(TENANT, "shop", [], now=at(3))).undefined == ()

    async def test_names_without_a_job_are_missing(self, store: Store) -> None:
        job_id = await _add(store, "gone")
        await _add(store, "elsewhere", tenant="another")
        await store.delete_jobs([make_change(await read_job(store, job_id))], now=at(1))
        change = await store.own_jobs(TENANT, "shop", ["gone", "elsewhere", "never"], now=at(2))
        assert (change.missing, change.defined) == (("elsewhere", "gone", "never"), ())

    async def test_pages_of_all_jobs_go_by_tenant_and_id(self, store: Store) -> None:
        ids = [await _add(store, "a", tenant="one"), await _add(store, "b"), await _add(store, "c")]
        found: list[JobId] = []
        after: tuple[str, JobId] | None = None
        while page := await store.page_jobs(after=after, limit=2):
            found += [job.id for job in page]
            after = page[-1].tenant, page[-1].id
        assert found == [*ids[1:], ids[0]]


class PastWorkers:
    """Who a session was is known for as long as the history may name it."""

    __test__ = False

    async def test_a_removed_session_is_known_until_its_name_is_removed_too(self, store: Store) -> None:
        offer = NewSession(worker="w", host="h", pid=1, slots=1)
        (gone, live) = await store.add_sessions([offer, offer], now=START)
        await store.close_sessions([gone], now=at(1))
        assert await store.prune_sessions(before=START + DAY, limit=10) == 1
        known = {gone: WorkerName("w", "h"), live: WorkerName("w", "h")}
        assert await store.find_workers([gone, live, SessionId(10**9)]) == known
        assert await store.prune_workers(before=at(1), limit=10) == 0
        assert await store.prune_workers(before=at(2), limit=10) == 1
        assert await store.find_workers([gone]) == {}
