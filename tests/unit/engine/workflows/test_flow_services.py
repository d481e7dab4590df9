"""What begins flows and takes their turns: what cannot be read, what was untold, and what is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from mainspring.core.ciphertexts import FIRST_BYTE
from mainspring.core.ids import JobId, format_run_id
from mainspring.core.model import Lane, Target
from mainspring.core.states import RunState
from mainspring.core.workflows.places import is_workflow_route
from mainspring.core.workflows.state import StepStatus
from mainspring.core.workflows.step_jobs import (
    MOST_KEPT_STEPS,
    is_step_job,
    split_step_version,
    step_job_id,
    step_version,
    workflow_job_id,
)
from mainspring.encryption.cipher import Cipher
from mainspring.encryption.keys import Keys
from mainspring.encryption.store import encrypted
from mainspring.engine.common.definitions import Definitions
from mainspring.engine.workflows.starter import UNREADABLE_WAIT
from mainspring.errors import Conflict, InvalidInput
from mainspring.ports.gateway import ClaimCall, Registration
from mainspring.ports.store.restrictions import TELLS_FLOWS
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.factories import IdSequence, add_job, make_spec
from mainspring.testing.manual import TENANT, ManualRuntime
from tests.support.workflows import TWICE, Deeds, Flows, job_step, step, workflow_of


@pytest.fixture
async def flows() -> AsyncIterator[Flows]:
    deeds = Deeds()
    async with ManualRuntime(deeds.registry()) as runtime:
        yield await Flows.begin(runtime, deeds)


def tables_of(flows: Flows) -> Any:
    """Return what the memory store holds."""
    return flows.runtime.store._tables  # type: ignore[attr-defined]  # it is the memory store


async def end_untold(flows: Flows) -> None:
    """Carry out what is ready, and lose what tells the flow."""
    await flows.worker.work()
    for mail in tables_of(flows).flows.mail:
        mail.clear()


def figure(flows: Flows, name: str) -> float:
    return flows.runtime.telemetry.figures()[name]


# -- how flows begin ---------------------------------------------------------------------------------------------------


async def test_a_cancel_spares_the_step_at_the_end_with_which_a_flow_begins(flows: Flows) -> None:
    run_id = await flows.start(job_step("work", "nothing"), step("tell", at_end=True))
    await flows.turn()
    assert await flows.steps(run_id) == [StepStatus.FAILED, StepStatus.LIVE]
    await flows.runtime.client.runs.cancel(TENANT, run_id)
    await flows.work()
    assert flows.deeds.order == ["tell"]
    await flows.check(run_id)


# -- what cannot be read -----------------------------------------------------------------------------------------------


async def test_a_flow_of_a_later_form_waits_for_a_server_that_can_read_it(flows: Flows) -> None:
    run_id = await flows.start(step("one"), step("two", "one"))
    other_id = await flows.start(step("one"))
    await flows.turn()
    row = tables_of(flows).flows.rows[run_id]
    kept, row.state = row.state, b"\x63later"
    await flows.work()
    assert await flows.state(other_id) is RunState.SUCCEEDED, "it does not hold up others"
    assert await flows.state(run_id) is RunState.RUNNING
    assert (row.state, row.revision) == (b"\x63later", 0)
    assert await flows.mail() == 1
    assert figure(flows, "flows_unreadable") == 1
    row.state = kept
    await flows.work()
    assert await flows.state(run_id) is RunState.SUCCEEDED
    assert figure(flows, "flows_unreadable") == 0


async def test_a_flow_whose_payload_cannot_be_decrypted_does_not_hold_up_others() -> None:
    deeds, clock = Deeds(), FakeClock()
    bare = MemoryStore(time=clock.now)
    store = encrypted(bare, Cipher(Keys("first", {"first": bytes(32)})))
    async with ManualRuntime(deeds.registry(), store=store, clock=clock) as runtime:
        flows = await Flows.begin(runtime, deeds)
        needing = [step("one"), step("two", "one", payload=None)]
        job_id = await flows.add(*needing)
        run_id = await flows.submit(job_id, payload=b'{"step": "secret"}')
        other_id = await flows.start(step("one"), step("two", "one"))
        await flows.turn()
        row = bare._tables.runs[run_id]
        kept, row.payload = row.payload, FIRST_BYTE + b"of a key that is gone"
        await flows.work()
        assert await flows.state(other_id) is RunState.SUCCEEDED, "it does not hold up others"
        assert await flows.state(run_id) is RunState.RUNNING
        assert figure(flows, "flows_unreadable") == 1
        row.payload = kept
        await flows.work()
        assert await flows.state(run_id) is RunState.SUCCEEDED
        assert figure(flows, "flows_unreadable") == 0


async def test_a_workflow_of_a_later_release_waits_for_a_server_that_can_read_it(flows: Flows) -> None:
    target = Target(
        "workflow", {"steps": [{"name": "one", "target": {"type": "function"}, "rule": "unheard of"}]}
    )
    job = await add_job(flows.runtime.store, make_spec(target=target))
    run_id = await flows.submit(job.id)
    with capture_logs() as logs:
        await flows.work()
    run = await flows.run(run_id)
    assert (run.state, run.attempt) == (RunState.RETRYING, 1), "no attempt is counted"
    assert run.ready_at == flows.runtime.clock.now() + UNREADABLE_WAIT
    [line] = [line for line in logs if line["event"] == "workflow_unreadable"]
    assert "unheard of" in line["why"]
    flows.runtime.clock.advance(UNREADABLE_WAIT.total_seconds())
    await flows.work()
    assert (await flows.run(run_id)).state is RunState.RETRYING, "as long as no other server takes it"


async def test_a_workflow_begins_at_once_while_the_matcher_looks_at_lanes_for_others(
    flows: Flows, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = flows.runtime
    job_id = await flows.add(step("one"))
    await runtime.tick("flow_starts")
    call = ClaimCall(
        session_id=flows.worker.session_id, number=1, limit=1, wait=timedelta(seconds=60), is_idle=True
    )
    waiting = asyncio.create_task(runtime.gateway.claim(call))
    looks, goes_on = asyncio.Event(), asyncio.Event()
    read_lanes = runtime.store.read_lanes

    async def read_slowly(queues: Sequence[str], **named: Any) -> list[Lane]:
        looks.set()
        await goes_on.wait()
        return await read_lanes(queues, **named)

    await asyncio.sleep(0)  # the call stands among the claims
    monkeypatch.setattr(runtime.store, "read_lanes", read_slowly)
    run_id = await flows.submit(job_id)
    serving = asyncio.create_task(runtime.tick("claims"))
    await looks.wait()
    beginning = asyncio.create_task(runtime.tick("flow_starts"))
    await asyncio.sleep(0)
    goes_on.set()
    await asyncio.gather(serving, beginning)
    assert await runtime.store.read_flow_states([run_id]) != [None]
    waiting.cancel()


async def test_workflows_wait_while_a_program_of_an_earlier_release_is_alive() -> None:
    older = ["server old-1"]

    class Mixed(MemoryStore):
        async def list_older_programs(self, *, protocol: int = 2) -> list[str]:
            return older if protocol == TELLS_FLOWS else []

    deeds, clock = Deeds(), FakeClock()
    async with ManualRuntime(deeds.registry(), store=Mixed(time=clock.now), clock=clock) as runtime:
        flows = await Flows.begin(runtime, deeds)
        run_id = await flows.start(step("one"))
        await flows.work()
        assert await flows.state(run_id) is RunState.PENDING
        older.clear()
        await flows.work()
        assert await flows.state(run_id) is RunState.SUCCEEDED


# -- what was untold ---------------------------------------------------------------------------------------------------


async def test_what_was_untold_is_found_and_counted(flows: Flows) -> None:
    run_id = await flows.start(step("one"), step("two", "one"))
    await flows.turn()
    await end_untold(flows)
    await flows.work()
    assert await flows.steps(run_id) == [StepStatus.LIVE, StepStatus.WAITING]
    await flows.runtime.tick("flow_reconciler")
    await flows.work()
    assert await flows.state(run_id) is RunState.SUCCEEDED
    assert figure(flows, "flows_untold_total") == 1


async def test_where_all_was_told_nothing_is_found(flows: Flows) -> None:
    run_id = await flows.start(step("one"), step("two", "one"))
    await flows.turn()
    await flows.runtime.tick("flow_reconciler")
    await flows.worker.work()
    await flows.runtime.tick("flow_reconciler")
    await flows.work()
    assert await flows.state(run_id) is RunState.SUCCEEDED
    assert figure(flows, "flows_untold_total") == 0


async def test_ends_of_an_earlier_attempt_are_not_told_again(flows: Flows) -> None:
    flows.deeds.failures = {"one": 1}
    run_id = await flows.start(step("one"), step("two"), retry=TWICE)
    await flows.work()
    flows.runtime.clock.advance(10)
    await flows.turn()
    leases = {lease.spec.name.rpartition(".")[2]: lease for lease in await flows.worker.claim()}
    await flows.worker.report(await flows.worker.carry_out(leases["two"]))
    for mail in tables_of(flows).flows.mail:
        mail.clear()
    await flows.runtime.tick("flow_reconciler")
    await flows.turn()
    assert await flows.steps(run_id) == [StepStatus.LIVE, StepStatus.SUCCEEDED]
    await flows.worker.report(await flows.worker.carry_out(leases["one"]))
    await flows.work()
    assert await flows.state(run_id) is RunState.SUCCEEDED


# -- what is told of it ------------------------------------------------------------------------------------------------


async def test_a_deadline_fails_a_workflow_and_cancels_what_is_live(flows: Flows) -> None:
    run_id = await flows.start(step("one"), step("two", "one"), deadline=timedelta(hours=4))
    other_id = await flows.start(step("one"))
    await flows.turn()
    clock = flows.runtime.clock
    clock.advance(4 * 3600 - 0.25)
    left = await flows.runtime.services["flows"].tick(clock.now())
    assert left == pytest.approx(0.25), "it sleeps until the deadline"
    assert await flows.steps(run_id) == [StepStatus.LIVE, StepStatus.WAITING]
    clock.advance(0.25)
    await flows.turn()
    run = await flows.run(run_id)
    assert (run.state, run.reason) == (RunState.FAILED, "deadline")
    assert run.error == "the deadline of the workflow passed; step one has not succeeded"
    assert [step.reason for step in await flows.runs(run_id)] == ["deadline"]
    assert await flows.steps(run_id) == [StepStatus.CANCELLED, StepStatus.UPSTREAM_FAILED]
    await flows.work()
    assert await flows.state(other_id) is RunState.SUCCEEDED
    await flows.check(run_id)


async def test_a_flow_whose_turn_another_owner_took_still_keeps_its_deadline(flows: Flows) -> None:
    run_id = await flows.start(step("one"), deadline=timedelta(hours=4))
    await flows.turn()
    flows.runtime.clock.advance(4 * 3600)
    tables_of(flows).flows.rows[run_id].revision += 1
    await flows.turn()
    assert await flows.state(run_id) is RunState.FAILED


async def test_an_unreadable_flow_that_wakes_does_not_hold_up_others(flows: Flows) -> None:
    run_id = await flows.start(step("one"), deadline=timedelta(hours=1))
    other_id = await flows.start(step("one"), deadline=timedelta(hours=2))
    await flows.turn()
    row = tables_of(flows).flows.rows[run_id]
    kept, row.state = row.state, b"\x63later"
    flows.runtime.clock.advance(2 * 3600)
    await flows.turn()
    assert await flows.state(other_id) is RunState.FAILED
    assert await flows.state(run_id) is RunState.RUNNING
    assert figure(flows, "flows_unreadable") == 1
    flows.runtime.clock.advance(1)
    with capture_logs() as logs:
        await flows.turn()
    assert logs == [], "it is told once"
    row.state = kept
    flows.runtime.clock.advance(1)
    await flows.turn()
    assert await flows.state(run_id) is RunState.FAILED
    assert figure(flows, "flows_unreadable") == 0


async def test_why_says_how_far_a_workflow_has_come_and_which_step_a_run_is(flows: Flows) -> None:
    run_id = await flows.start(step("extract"), step("load", "extract"), step("check", "extract"))
    await flows.turn()
    runs = flows.runtime.client.runs
    (first,) = await flows.runs(run_id)
    why = await runs.why(TENANT, run_id)
    assert why.sentence == "Its steps run: 0 of 3 have ended, and 1 is under way or waits for a worker."
    told = (await runs.why(TENANT, first.id)).sentence
    assert told.startswith("It is the next one")
    assert "It is step 'extract' of run_" in told
    await runs.cancel(TENANT, run_id)
    assert (await runs.why(TENANT, run_id)).sentence.endswith("It was asked to stop.")


async def test_the_engines_own_worker_is_no_worker(flows: Flows) -> None:
    await flows.start(step("one"))
    await flows.turn()
    assert len(await flows.runtime.store.list_sessions()) == 2
    assert [facts.worker for facts, _ in await flows.runtime.client.workers()] == ["worker"]
    offers = await flows.runtime.client.offer_reader.read_now()
    assert offers.find_gap("default", "workflow", TENANT) is None
    assert offers.find_gap("default", "http", TENANT) is not None


async def test_its_session_beats_and_is_opened_anew_when_it_is_over(flows: Flows) -> None:
    await flows.start(step("one"))
    await flows.work()
    for _ in range(30):
        flows.runtime.clock.advance(5)
        await flows.worker.beat()
        await flows.runtime.tick("flow_starts", "reaper")
    assert len(await flows.runtime.store.list_sessions()) == 2
    (own,) = [one for one in await flows.runtime.store.list_sessions() if "workflow" in one.types]
    await flows.runtime.store.close_sessions([own.id], now=flows.runtime.clock.now())
    run_id = await flows.start(step("one"))
    for _ in range(4):
        flows.runtime.clock.advance(5)
        await flows.work()
    assert await flows.state(run_id) is RunState.SUCCEEDED


async def test_no_worker_may_offer_to_carry_out_workflows(flows: Flows) -> None:
    offer = Registration(name="sly", host="h", pid=1, slots=1, types=("http", "workflow"))
    with pytest.raises(InvalidInput, match=r"types\[1\]: workflows are carried out by the servers"):
        await flows.runtime.gateway.register(offer)


async def test_without_workflows_there_is_no_session(flows: Flows) -> None:
    await flows.runtime.advance(5)
    assert len(await flows.runtime.store.list_sessions()) == 1


async def test_a_step_is_redriven_with_its_workflow(flows: Flows) -> None:
    flows.deeds.failures = {"one": 1}
    run_id = await flows.start(step("one"), step("two", "one"))
    await flows.work()
    (dead,) = await flows.runs(run_id)
    with pytest.raises(Conflict, match=f"is of a step of {format_run_id(run_id)}; redrive that run"):
        await flows.runtime.client.redriving.redrive(TENANT, dead.id)
    again = await flows.runtime.client.redriving.redrive(TENANT, run_id)
    assert again.run_id is not None
    await flows.work()
    assert await flows.state(again.run_id) is RunState.SUCCEEDED
    assert flows.deeds.order == ["one", "one", "two"]


# -- definitions of steps ----------------------------------------------------------------------------------------------


def test_a_steps_job_and_version_tell_which_step_it_is() -> None:
    job_id = JobId(IdSequence().new_uuid())
    own = step_job_id(job_id)
    assert own.version == 8
    assert (is_step_job(own), is_step_job(job_id)) == (True, False)
    assert workflow_job_id(own) == job_id
    assert own.int & 0xFF == job_id.int & 0xFF
    for version, place in ((1, 0), (7, 999), (500_000, MOST_KEPT_STEPS - 1)):
        assert split_step_version(step_version(version, place)) == (version, place)
        assert step_version(version, place) < 2**31
    for version, place in ((1, MOST_KEPT_STEPS), (1, -1), (0, 0), (2**31 // MOST_KEPT_STEPS, 0)):
        with pytest.raises(ValueError, match="beyond what can be kept"):
            step_version(version, place)


def test_routes_of_workflows_are_told_from_others() -> None:
    assert all(map(is_workflow_route, ("workflow", "workflow+%line")))
    assert not any(map(is_workflow_route, ("workflows", "function:workflow", "http")))


async def test_a_steps_definition_follows_from_its_workflow(flows: Flows) -> None:
    store = flows.runtime.store
    job = await add_job(
        store, workflow_of(step("one", retry=TWICE), step("two", payload=None), payload=b"[1]")
    )
    definitions = Definitions(store)
    keys = [(step_job_id(job.id), step_version(1, place)) for place in range(2)]
    missing = (step_job_id(job.id), step_version(2, 0))
    found = await definitions.load([*keys, (job.id, 1), missing])
    assert found.keys() == {*keys, (job.id, 1)}
    one, two = found[keys[0]], found[keys[1]]
    assert (one.name, one.retry, one.payload) == (f"{job.spec.name}.one", TWICE, b'{"step":"one"}')
    assert (two.name, two.payload, two.trigger) == (f"{job.spec.name}.two", b"[1]", None)
    assert (await definitions.load(keys))[keys[0]] is one, "it is made once"


async def test_runs_of_steps_are_counted(flows: Flows) -> None:
    await flows.start(step("one"), step("two", "one"))
    await flows.work()
    found = flows.runtime.telemetry.figures()
    assert found["flows_started_total"] == 1
    assert found["flow_turns_total.turned"] == 2
    ended = {
        measure.labels: measure.value
        for measure in flows.runtime.telemetry.snapshot()
        if measure.name in {"runs_ended_total", "runs_submitted_total"}
    }
    assert ended[TENANT, "default", "workflow", "SUCCEEDED"] == 1
    assert ended[TENANT, "default", "function", "SUCCEEDED"] == 2
    assert ended[TENANT, "default", "workflow"] == 2
