"""Workflows on the whole engine, on every store: chains, joins, rules, failures, retries, cancels, and lost servers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from mainspring.core.applying import CancelVerdict
from mainspring.core.fencing import ENGINE_SESSION
from mainspring.core.model import Overlap, Priority
from mainspring.core.states import RunState
from mainspring.core.workflows.rules import StepRule
from mainspring.core.workflows.state import StepStatus
from mainspring.ports.store.flows import FlowVerdict, TurnedFlow
from mainspring.testing.clock import FakeClock
from mainspring.testing.manual import TENANT, ManualRuntime
from tests.support.workflows import STORES, TWICE, Deeds, Flows, foretell, make_store, step

SUCCEEDED, FAILED, CANCELLED = RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED


@pytest.fixture(params=STORES)
async def flows(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Flows]:
    clock, deeds = FakeClock(), Deeds()
    store = make_store(request, tmp_path, clock)
    async with ManualRuntime(deeds.registry(), store=store, clock=clock) as runtime:
        yield await Flows.begin(runtime, deeds)


async def test_a_chain_runs_in_its_order(flows: Flows) -> None:
    run_id = await flows.start(step("load", "clean"), step("clean", "extract"), step("extract"))
    await flows.work()
    assert flows.deeds.order == ["extract", "clean", "load"]
    run = await flows.run(run_id)
    assert (run.state, run.attempt) == (SUCCEEDED, 1)
    await flows.check(run_id)


async def test_steps_fan_out_and_join(flows: Flows) -> None:
    middle = [step(f"part_{place}", "split") for place in range(20)]
    run_id = await flows.start(
        step("split"), *middle, step("join", " ".join(one.name for one in middle)), step("last", "join")
    )
    await flows.work()
    assert flows.deeds.order[0] == "split"
    assert set(flows.deeds.order[1:21]) == {one.name for one in middle}
    assert flows.deeds.order[21:] == ["join", "last"]
    assert await flows.state(run_id) is SUCCEEDED
    await flows.check(run_id)


@pytest.mark.parametrize("rule", StepRule)
@pytest.mark.parametrize("failing", [set(), {"one"}, {"one", "two"}], ids=["none", "one", "both"])
async def test_each_rule_decides_as_its_words_say(flows: Flows, rule: StepRule, failing: set[str]) -> None:
    steps = [
        step("one"),
        step("two"),
        step("skipped", "one", rule=StepRule.ONE_FAILED, allow_failure=True),
        step("judged", "one two", rule=rule),
        step("judged_too", "two skipped", rule=rule),
    ]
    flows.deeds.failures = dict.fromkeys(failing, 1)
    run_id = await flows.start(*steps)
    await flows.work()
    ends, end = foretell(steps, failing)
    assert dict(zip([one.name for one in steps], await flows.steps(run_id), strict=True)) == ends
    assert await flows.state(run_id) is end
    await flows.check(run_id)


async def test_a_step_that_fails_is_retried_by_its_own_policy(flows: Flows) -> None:
    flows.deeds.failures = {"extract": 1}
    run_id = await flows.start(step("extract", retry=TWICE), step("load", "extract"))
    await flows.work()
    assert await flows.state(run_id) is RunState.RUNNING
    assert flows.deeds.order == ["extract"]
    flows.runtime.clock.advance(10)
    await flows.work()
    assert flows.deeds.order == ["extract", "extract", "load"]
    assert await flows.state(run_id) is SUCCEEDED
    await flows.check(run_id)


async def test_a_failed_workflow_names_the_steps_that_made_it_fail(flows: Flows) -> None:
    flows.deeds.failures = {"one": 1, "two": 1}
    run_id = await flows.start(step("one"), step("two"), step("three", "one two"))
    await flows.work()
    run = await flows.run(run_id)
    assert (run.state, run.error) == (FAILED, "steps one, two have not succeeded")
    assert flows.deeds.order == ["one", "two"]
    assert await flows.steps(run_id) == [
        StepStatus.FAILED,
        StepStatus.FAILED,
        StepStatus.UPSTREAM_FAILED,
    ]
    await flows.check(run_id)


async def test_a_workflow_with_retries_begins_anew(flows: Flows) -> None:
    flows.deeds.failures = {"load": 1}
    run_id = await flows.start(step("extract"), step("load", "extract"), retry=TWICE)
    await flows.work()
    assert await flows.state(run_id) is RunState.RETRYING
    assert await flows.mail() == 0
    flows.runtime.clock.advance(10)
    await flows.work()
    run = await flows.run(run_id)
    assert (run.state, run.attempt) == (SUCCEEDED, 2)
    assert flows.deeds.order == ["extract", "load", "extract", "load"]


async def test_a_cancel_stops_what_runs_and_starts_nothing(flows: Flows) -> None:
    run_id = await flows.start(step("one"), step("two"), step("three", "one two"))
    await flows.turn()
    (lease,) = await flows.worker.claim(1)
    assert await flows.runtime.client.runs.cancel(TENANT, run_id) is CancelVerdict.REQUESTED
    await flows.turn()
    assert await flows.state(run_id) is RunState.RUNNING, "one of its steps runs still"
    await flows.worker.report(await flows.worker.carry_out(lease))
    await flows.turn()
    run = await flows.run(run_id)
    assert (run.state, run.reason) == (CANCELLED, "cancelled")
    assert sorted(await flows.steps(run_id)) == sorted(
        [StepStatus.SUCCEEDED, StepStatus.CANCELLED, StepStatus.UPSTREAM_FAILED]
    )
    assert len(flows.deeds.order) == 1
    await flows.check(run_id)


async def test_a_cancel_before_its_flow_begins_starts_nothing(flows: Flows) -> None:
    run_id = await flows.start(step("one"))
    assert await flows.runtime.client.runs.cancel(TENANT, run_id) is CancelVerdict.CANCELLED
    await flows.work()
    assert flows.deeds.order == []
    assert await flows.state(run_id) is CANCELLED


async def test_a_cancelled_step_counts_as_failed(flows: Flows) -> None:
    run_id = await flows.start(step("one"), step("two", "one"), step("page", "one", rule=StepRule.ONE_FAILED))
    await flows.turn()
    (first,) = await flows.runs(run_id)
    assert await flows.runtime.client.runs.cancel(TENANT, first.id) is CancelVerdict.CANCELLED
    await flows.work()
    assert flows.deeds.order == ["page"]
    assert await flows.steps(run_id) == [
        StepStatus.CANCELLED,
        StepStatus.UPSTREAM_FAILED,
        StepStatus.SUCCEEDED,
    ]
    assert await flows.state(run_id) is FAILED
    await flows.check(run_id)


async def test_the_engine_holds_the_run_and_no_worker_does(flows: Flows) -> None:
    run_id = await flows.start(step("one"))
    await flows.turn()
    run = await flows.run(run_id)
    assert (run.state, run.session_id, run.token) == (RunState.RUNNING, ENGINE_SESSION, 2)
    for _ in range(20):
        flows.runtime.clock.advance(10)
        await flows.worker.beat()
        await flows.runtime.tick()
    assert (await flows.run(run_id)).token == 2, "nobody took it for an orphan"
    await flows.work()
    assert await flows.state(run_id) is SUCCEEDED


async def test_a_workflow_whose_time_limit_passes_goes_on(flows: Flows) -> None:
    run_id = await flows.start(step("one"), timeout=timedelta(seconds=30))
    await flows.turn()
    for _ in range(12):
        flows.runtime.clock.advance(10)
        await flows.worker.beat()
        await flows.runtime.tick("reaper")
    await flows.work()
    assert await flows.state(run_id) is SUCCEEDED


async def test_steps_take_over_what_they_do_not_say(flows: Flows) -> None:
    run_id = await flows.start(
        step("plain", payload=None),
        step("own", queue="other", priority=Priority.LOW),
        queue="night",
        priority=Priority.HIGH,
        payload=b'{"step": "of the workflow"}',
    )
    await flows.turn()
    plain, own = await flows.runs(run_id)
    assert (plain.lane.queue, plain.lane.priority) == ("night", Priority.HIGH)
    assert (own.lane.queue, own.lane.priority) == ("other", Priority.LOW)
    assert plain.fire_at is None
    await flows.work()
    assert sorted(flows.deeds.order) == ["of the workflow", "own"]


async def test_a_run_with_a_payload_gives_it_to_steps_without_one(flows: Flows) -> None:
    job_id = await flows.add(step("plain", payload=None), payload=b'{"step": "of the job"}')
    await flows.submit(job_id, payload=b'{"step": "of the run"}')
    await flows.work()
    assert flows.deeds.order == ["of the run"]


async def test_the_workflows_job_never_meets_the_runs_of_its_steps(flows: Flows) -> None:
    job_id = await flows.add(step("one"), step("two", "one"))
    run_id = await flows.submit(job_id)
    await flows.work()
    runs = await flows.runtime.store.list_runs(TENANT, job_id=job_id, limit=10)
    assert [run.id for run in runs] == [run_id]


async def test_workflows_that_follow_one_another_wait_for_the_end(flows: Flows) -> None:
    job_id = await flows.add(step("one"), step("two", "one"), overlap=Overlap.QUEUE_ALL)
    first, second = await flows.submit(job_id), await flows.submit(job_id)
    await flows.turn()
    assert await flows.state(first) is RunState.RUNNING
    assert await flows.state(second) is RunState.PENDING
    await flows.work()
    assert await flows.state(first) is SUCCEEDED
    await flows.work()
    assert await flows.state(second) is SUCCEEDED


async def test_a_worker_that_dies_with_a_step_costs_another_attempt(flows: Flows) -> None:
    run_id = await flows.start(step("one"), step("two", "one"))
    await flows.turn()
    dead = await flows.runtime.worker()
    await dead.claim()
    await flows.runtime.gateway.leave(dead.session_id)
    await flows.runtime.tick("reaper")
    await flows.work()
    assert flows.deeds.order == ["one", "two"]
    assert await flows.state(run_id) is SUCCEEDED
    await flows.check(run_id)


async def test_a_large_graph_starts_in_several_turns(flows: Flows) -> None:
    wide = [step(f"wide_{place}") for place in range(700)]
    run_id = await flows.start(*wide, step("last", "wide_0"))
    await flows.turn()
    assert len(await flows.runs(run_id)) == 700
    await flows.work()
    assert flows.deeds.order.count("last") == 1
    assert await flows.state(run_id) is SUCCEEDED
    await flows.check(run_id)


async def test_ends_of_an_earlier_attempt_are_not_told_again(flows: Flows) -> None:
    store, runtime = flows.runtime.store, flows.runtime
    flows.deeds.failures = {"one": 1}
    run_id = await flows.start(step("one"), step("two"), retry=TWICE)
    await flows.work()
    runtime.clock.advance(10)
    await flows.turn()
    leases = {lease.spec.name.rpartition(".")[2]: lease for lease in await flows.worker.claim()}
    await flows.worker.report(await flows.worker.carry_out(leases["two"]))
    # As if that end had never been told: its mail goes, and the state stays as it was.
    (flow,) = await store.read_flows([run_id])
    assert flow is not None
    places = tuple(mail.place for mail in await store.read_mail(range(256), lows={}, limit=10))
    forgetful = TurnedFlow(flow_id=run_id, revision=flow.revision, state=flow.state, live=2, mails=places)
    epochs = runtime.ownership.epochs
    assert await store.turn_flows([forgetful], epochs=epochs, now=runtime.clock.now()) == [FlowVerdict.TURNED]
    await runtime.tick("flow_reconciler")
    await flows.turn()
    assert await flows.steps(run_id) == [StepStatus.LIVE, StepStatus.SUCCEEDED]
    await flows.worker.report(await flows.worker.carry_out(leases["one"]))
    await flows.work()
    assert await flows.state(run_id) is SUCCEEDED
