"""Steps that run other jobs, and workflows within workflows, on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from mainspring.core.ids import format_run_id
from mainspring.core.limits import JobLimit
from mainspring.core.model import Job, Priority, Target
from mainspring.core.states import RunState
from mainspring.core.workflows.rules import StepRule
from mainspring.core.workflows.state import StepStatus
from mainspring.engine.workflows.job_lookup import MOST_DEEP
from mainspring.testing.clock import FakeClock
from mainspring.testing.factories import add_job, make_spec
from mainspring.testing.manual import TENANT, ManualRuntime
from tests.support.workflows import ONCE, STORES, Deeds, Flows, job_step, make_store, step, workflow_of

SUCCEEDED, FAILED, CANCELLED = RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED


@pytest.fixture(params=STORES)
async def flows(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Flows]:
    clock, deeds = FakeClock(), Deeds()
    store = make_store(request, tmp_path, clock)
    async with ManualRuntime(deeds.registry(), store=store, clock=clock) as runtime:
        yield await Flows.begin(runtime, deeds)


async def add_act(flows: Flows, name: str = "clean", **fields: object) -> Job:
    values = {"payload": f'{{"step": "{name}"}}'.encode(), "retry": ONCE} | fields
    target = Target("function", {"function": "act"})
    return await add_job(flows.runtime.store, spec=make_spec(name=name, target=target, **values))


async def test_a_step_runs_another_job(flows: Flows) -> None:
    job = await add_act(flows, queue="files", priority=Priority.HIGH)
    run_id = await flows.start(
        step("extract"), job_step("clean_all", "clean", "extract"), step("load", "clean_all")
    )
    await flows.work()
    assert flows.deeds.order == ["extract", "clean", "load"]
    runs = await flows.runs(run_id)
    [own] = [run for run in runs if run.job_id == job.id]
    assert (own.version, own.state, own.lane.queue, own.lane.priority) == (
        1,
        SUCCEEDED,
        "files",
        Priority.HIGH,
    )
    assert own.place is not None
    assert own.place.step == 1
    assert await flows.state(run_id) is SUCCEEDED
    await flows.check(run_id)
    why = await flows.runtime.client.runs.why(TENANT, own.id)
    assert why.sentence.endswith(f"It is step 'clean_all' of {format_run_id(run_id)}.")


async def test_the_newest_version_counts_when_the_step_starts(flows: Flows) -> None:
    job = await add_act(flows)
    run_id = await flows.start(step("extract"), job_step("clean_all", "clean", "extract"))
    await flows.turn()
    await flows.runtime.client.jobs.edit(TENANT, job.id, {"payload": {"step": "cleaner"}})
    await flows.work()
    assert flows.deeds.order == ["extract", "cleaner"]
    [own] = [run for run in await flows.runs(run_id) if run.job_id == job.id]
    assert own.version == 2


async def test_the_payload_of_the_step_goes_over_that_of_the_job(flows: Flows) -> None:
    await add_act(flows, payload=b'{"step": "clean", "mode": "fast", "kept": 1}')
    await flows.start(job_step("clean_all", "clean", payload=b'{"mode": "slow"}'))
    await flows.work()
    assert flows.deeds.calls == [("clean", {"mode": "slow", "kept": 1})]


async def test_a_job_that_does_not_exist_fails_its_step(flows: Flows) -> None:
    run_id = await flows.start(
        step("extract"),
        job_step("clean_all", "laod", "extract"),
        step("load", "clean_all"),
        step("page", "clean_all", rule=StepRule.ONE_FAILED),
    )
    await flows.work()
    assert flows.deeds.order == ["extract", "page"]
    run = await flows.run(run_id)
    assert (run.state, run.error) == (FAILED, "step clean_all has not succeeded")
    page = await flows.runtime.client.workflows.steps(TENANT, run_id, after=None, limit=10)
    reasons = {page.plan.workflow.steps[one.place].name: one.reason for one in page.steps}
    assert reasons["clean_all"] == "its job cannot run"
    errors = {page.plan.workflow.steps[one.place].name: one.error for one in page.steps}
    assert errors["clean_all"] == "there is no job 'laod'"
    assert reasons["load"] == "clean_all failed"
    await flows.check(run_id)


async def test_a_workflow_whose_first_step_cannot_start_shows_why(flows: Flows) -> None:
    run_id = await flows.start(job_step("clean_all", "laod"))
    await flows.work()
    assert await flows.state(run_id) is FAILED
    assert await flows.steps(run_id) == [StepStatus.FAILED]
    page = await flows.runtime.client.workflows.steps(TENANT, run_id, after=None, limit=10)
    assert page.steps[0].error == "there is no job 'laod'"
    await flows.check(run_id)


async def test_a_job_that_was_deleted_or_is_another_tenants_does_not_exist(flows: Flows) -> None:
    job = await add_act(flows)
    await add_job(flows.runtime.store, tenant="other", spec=make_spec(name="theirs"))
    await flows.runtime.client.jobs.delete(TENANT, job.id)
    first = await flows.start(job_step("one", "clean"))
    second = await flows.start(job_step("one", "theirs"), name="second")
    await flows.work()
    assert [await flows.state(first), await flows.state(second)] == [FAILED, FAILED]
    assert flows.deeds.calls == []


async def test_a_paused_job_is_run_all_the_same(flows: Flows) -> None:
    job = await add_act(flows)
    await flows.runtime.client.jobs.pause(TENANT, job.id)
    run_id = await flows.start(job_step("one", "clean"))
    await flows.work()
    assert await flows.state(run_id) is SUCCEEDED


async def test_limits_of_the_job_hold(flows: Flows) -> None:
    await add_act(flows, concurrency=(JobLimit(limit=1),))
    run_id = await flows.start(*[job_step(f"part_{place}", "clean") for place in range(3)])
    await flows.turn()
    calls = 0
    while await flows.worker.work():
        calls += 1
        live = [run for run in await flows.runs(run_id) if run.state is RunState.RUNNING]
        assert len(live) <= 1
        await flows.turn()
    assert await flows.state(run_id) is SUCCEEDED
    await flows.check(run_id)


async def test_a_payload_without_what_a_key_is_made_of_fails_the_step(flows: Flows) -> None:
    await add_act(flows, concurrency=(JobLimit(limit=1, key="$.customer"),))
    run_id = await flows.start(job_step("one", "clean"))
    await flows.work()
    assert await flows.state(run_id) is FAILED
    page = await flows.runtime.client.workflows.steps(TENANT, run_id, after=None, limit=10)
    assert page.steps[0].error is not None
    assert page.steps[0].error.startswith("job 'clean' cannot run: payload.customer: is missing")


async def test_a_run_that_expires_is_a_skipped_step(flows: Flows) -> None:
    await add_act(flows, expires_after=timedelta(seconds=10))
    run_id = await flows.start(job_step("one", "clean"), step("two", "one"))
    await flows.turn()
    flows.runtime.clock.advance(11.0)
    await flows.runtime.tick("reaper")
    await flows.work()
    assert await flows.steps(run_id) == [StepStatus.SKIPPED, StepStatus.SKIPPED]
    assert await flows.state(run_id) is SUCCEEDED


async def test_a_workflow_runs_within_another(flows: Flows) -> None:
    inner = await add_job(flows.runtime.store, spec=workflow_of(step("a"), step("b", "a"), name="inner"))
    run_id = await flows.start(step("begin"), job_step("middle", "inner", "begin"), step("last", "middle"))
    await flows.work()
    assert flows.deeds.order == ["begin", "a", "b", "last"]
    [sub] = [run for run in await flows.runs(run_id) if run.job_id == inner.id]
    assert (sub.state, sub.place is not None and sub.place.step) == (SUCCEEDED, 1)
    assert len(await flows.runs(sub.id)) == 2
    assert await flows.state(run_id) is SUCCEEDED
    await flows.check(sub.id)
    await flows.check(run_id)


async def test_a_failure_within_fails_the_step(flows: Flows) -> None:
    await add_job(flows.runtime.store, spec=workflow_of(step("a"), name="inner"))
    flows.deeds.failures["a"] = 1
    run_id = await flows.start(job_step("middle", "inner"), step("last", "middle"))
    await flows.work()
    assert await flows.steps(run_id) == [StepStatus.FAILED, StepStatus.UPSTREAM_FAILED]
    assert await flows.state(run_id) is FAILED


async def test_a_cancel_goes_down(flows: Flows) -> None:
    inner = await add_job(flows.runtime.store, spec=workflow_of(step("a"), step("b", "a"), name="inner"))
    run_id = await flows.start(job_step("middle", "inner"), step("last", "middle"))
    await flows.turn()
    await flows.runtime.client.runs.cancel(TENANT, run_id)
    await flows.work()
    [sub] = [run for run in await flows.runs(run_id) if run.job_id == inner.id]
    assert sub.state is CANCELLED
    assert [run.state for run in await flows.runs(sub.id)] == [CANCELLED]
    assert await flows.state(run_id) is CANCELLED
    assert flows.deeds.calls == []
    await flows.check(sub.id)
    await flows.check(run_id)


async def test_workflows_that_run_each_other_end(flows: Flows) -> None:
    await add_job(flows.runtime.store, spec=workflow_of(job_step("down", "pong"), name="ping"))
    await add_job(flows.runtime.store, spec=workflow_of(job_step("down", "ping"), name="pong"))
    run_id = await flows.start(job_step("down", "ping"))
    await flows.work()
    chain = [run_id]
    while runs := await flows.runs(chain[-1]):
        chain.append(runs[0].id)
    assert len(chain) == MOST_DEEP
    assert {await flows.state(one) for one in chain} == {FAILED}
    page = await flows.runtime.client.workflows.steps(TENANT, chain[-1], after=None, limit=10)
    assert page.steps[0].error is not None
    assert page.steps[0].error.startswith("job ")
    assert page.steps[0].error.endswith("is a workflow, and more than 8 would be within one another")
