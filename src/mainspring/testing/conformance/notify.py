"""Jobs that notify: which there are, which of their failures are unnoticed, and which are late."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from mainspring.core.alerting import Verdict
from mainspring.core.model import JobSpec, RunKind
from mainspring.core.notify import LateRun, NotifyEvent, NotifyingJob, NotifyRule, UnnoticedFailure
from mainspring.core.retry import RetryPolicy
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.alerts import AlertsSaved
from mainspring.ports.store.notify import LOOKED_AT
from mainspring.testing.conformance.alerts import save_verdict
from mainspring.testing.conformance.failing import run
from mainspring.testing.factories import (
    add_job,
    at,
    make_change,
    make_edit,
    make_spec,
    own_shards,
    read_job,
    submit,
)

RULE = NotifyRule(
    to=("ops", "page"),
    on=(NotifyEvent.FAILED, NotifyEvent.LATE),
    late_after=timedelta(minutes=15),
    failures=3,
)
FAILED, SUCCEEDED, CANCELLED = RunState.FAILED, RunState.SUCCEEDED, RunState.CANCELLED
STALE = {0: -1}


def spec_of(name: str = "report", **fields: Any) -> JobSpec:
    """Return the definition of a job that notifies and retries nothing."""
    return make_spec(**{"name": name, "notify": RULE, "retry": RetryPolicy(max_retries=0), **fields})


class JobsThatNotify:
    """Which jobs notify follows their definitions."""

    __test__ = False

    async def test_they_are_those_whose_definitions_say_so(self, store: Store) -> None:
        await add_job(store, make_spec(name="silent"))
        job = await add_job(store, spec_of(), tenant="shop")
        expected = NotifyingJob(id=job.id, tenant="shop", name="report", rule=RULE)
        assert await store.list_notifying_jobs() == [expected]

    async def test_an_edit_is_followed(self, store: Store) -> None:
        job = await add_job(store, make_spec(name="report"))
        assert await store.list_notifying_jobs() == []
        await store.edit_jobs([make_edit(job, spec_of("renamed"))], now=at(1))
        [found] = await store.list_notifying_jobs()
        assert (found.id, found.name, found.rule) == (job.id, "renamed", RULE)
        job = await read_job(store, job.id)
        rule = NotifyRule(to=("ops",))
        await store.edit_jobs([make_edit(job, spec_of("renamed", notify=rule))], now=at(2))
        assert [one.rule for one in await store.list_notifying_jobs()] == [rule]
        job = await read_job(store, job.id)
        await store.edit_jobs([make_edit(job, make_spec(name="renamed"))], now=at(3))
        assert await store.list_notifying_jobs() == []

    async def test_a_job_that_is_deleted_tells_nobody(self, store: Store) -> None:
        job = await add_job(store, spec_of())
        await store.delete_jobs([make_change(job)], now=at(1))
        assert await store.list_notifying_jobs() == []

    async def test_only_failures_of_such_jobs_are_unnoticed(self, store: Store) -> None:
        job, other = await add_job(store, spec_of()), await add_job(store, spec_of("other", notify=None))
        first = await run(store, job, FAILED, seconds=1)
        await run(store, other, FAILED, seconds=2)
        await run(store, job, SUCCEEDED, seconds=3)
        await run(store, job, CANCELLED, seconds=4)
        second = await run(store, job, FAILED, seconds=5)
        found = await store.list_unnoticed(limit=10)
        assert found == [
            UnnoticedFailure(run_id=run_id, job_id=job.id, error="no") for run_id in (first, second)
        ]
        assert len(await store.list_unnoticed(limit=1)) == 1

    async def test_a_failure_is_noticed_with_the_alerts_that_tell_of_it(self, store: Store) -> None:
        epochs = await own_shards(store)
        job = await add_job(store, spec_of())
        runs = [await run(store, job, FAILED, seconds=number) for number in (1, 2)]
        assert (
            await save_verdict(store, Verdict(), epochs=STALE, now=at(9), noticed=runs[:1])
            is AlertsSaved.FENCED
        )
        assert len(await store.list_unnoticed(limit=10)) == 2
        assert (
            await save_verdict(store, Verdict(), epochs=epochs, now=at(9), noticed=runs[:1])
            is AlertsSaved.DONE
        )
        assert [one.run_id for one in await store.list_unnoticed(limit=10)] == runs[1:]

    async def test_a_job_fails_that_has_failed_so_often_in_a_row(self, store: Store) -> None:
        job = await add_job(store, spec_of())
        unknown = (await add_job(store, spec_of("other"))).id
        await run(store, job, SUCCEEDED, seconds=1)
        await run(store, job, FAILED, seconds=2)
        assert await store.find_failing([(job.id, 2, at(0)), (unknown, 1, at(0))]) == [None, None]
        await run(store, job, CANCELLED, seconds=3)
        newest = await run(store, job, FAILED, seconds=4)
        failure = UnnoticedFailure(run_id=newest, job_id=job.id, error="no")
        assert await store.find_failing([(unknown, 1, at(0)), (job.id, 2, at(0))]) == [None, failure]
        assert await store.find_failing([(job.id, 3, at(0))]) == [None]
        await run(store, job, SUCCEEDED, seconds=5)
        assert await store.find_failing([(job.id, 1, at(0)), (job.id, 2, at(0))]) == [None, None]
        assert await store.find_failing([]) == []

    async def test_failures_from_before_an_instant_do_not_count(self, store: Store) -> None:
        """Runs that have succeeded between them may not be known any more."""
        job = await add_job(store, spec_of())
        await run(store, job, FAILED, seconds=2)
        newest = await run(store, job, FAILED, seconds=4)
        wanted = [(2, at(2)), (1, at(4)), (1, at(2.000001)), (2, at(2.000001)), (1, at(4.000001))]
        found = [await store.find_failing([(job.id, *each)]) for each in wanted]
        assert [one and one.run_id for [one] in found] == [newest, newest, newest, None, None]

    async def test_a_job_is_late_whose_run_has_not_ended(self, store: Store) -> None:
        job = await add_job(store, spec_of())
        await run(store, job, SUCCEEDED, seconds=1)
        await submit(store, job, now=at(5), due_at=at(5), kind=RunKind.BACKFILL)
        first, *_ = await submit(store, job, now=at(20), due_at=at(20))
        await submit(store, job, now=at(30), due_at=at(30))
        assert await store.find_late([(job.id, at(20))]) == [None]
        late = LateRun(run_id=first, due_at=at(20))
        assert await store.find_late([(job.id, at(20.000001)), (job.id, at(99))]) == [late, late]

    async def test_a_job_is_late_whose_fire_is_not_made(self, store: Store) -> None:
        job = await add_job(store, spec_of(), next_fire_at=at(60))
        other = await add_job(store, spec_of("other"))
        assert await store.find_late([(job.id, at(60)), (other.id, at(60))]) == [None, None]
        assert await store.find_late([(other.id, at(61)), (job.id, at(61))]) == [
            None,
            LateRun(run_id=None, due_at=at(60)),
        ]
        assert await store.find_late([]) == []

    async def test_only_the_oldest_live_runs_are_looked_at(self, store: Store) -> None:
        job = await add_job(store, spec_of())
        for _ in range(LOOKED_AT - 1):
            await submit(store, job, now=at(5), due_at=at(500))
        late, *_ = await submit(store, job, now=at(20), due_at=at(20))
        assert await store.find_late([(job.id, at(60))]) == [LateRun(run_id=late, due_at=at(20))]
        other = await add_job(store, spec_of("other"))
        for _ in range(LOOKED_AT):
            await submit(store, other, now=at(5), due_at=at(500))
        await submit(store, other, now=at(20), due_at=at(20))
        assert await store.find_late([(other.id, at(60))]) == [None]
