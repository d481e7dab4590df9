"""Steps that wait: for an instant, a signal, or an approval, on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.actors import Actor, ActorKind
from mainspring.core.ids import RunId, format_run_id
from mainspring.core.model import Target
from mainspring.core.states import RunState
from mainspring.core.triggers import OnEvent
from mainspring.core.workflows.model import WorkflowStep
from mainspring.core.workflows.reports import StepReport
from mainspring.core.workflows.rules import StepRule
from mainspring.core.workflows.state import StepStatus
from mainspring.core.workflows.waits import Approval, EventWait, MadeValue, OnTimeout, StepWait
from mainspring.engine.usecases.events import EventRequest
from mainspring.errors import Conflict, InvalidInput, NeedsRight, NotFound
from mainspring.testing.clock import FakeClock
from mainspring.testing.factories import add_job, make_spec
from mainspring.testing.manual import TENANT, ManualRuntime
from tests.support.workflows import STORES, Deeds, Flows, make_store, step

SUSPENDED, SUCCEEDED, FAILED, SKIPPED, CANCELLED, WAITING, UPSTREAM = (
    StepStatus.SUSPENDED,
    StepStatus.SUCCEEDED,
    StepStatus.FAILED,
    StepStatus.SKIPPED,
    StepStatus.CANCELLED,
    StepStatus.WAITING,
    StepStatus.UPSTREAM_FAILED,
)
MINUTE = timedelta(minutes=1)


@pytest.fixture(params=STORES)
async def flows(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Flows]:
    clock, deeds = FakeClock(), Deeds()
    store = make_store(request, tmp_path, clock)
    async with ManualRuntime(deeds.registry(), store=store, clock=clock) as runtime:
        yield await Flows.begin(runtime, deeds)


def wait(name: str, after: str = "", *, when: str | None = None, **fields: Any) -> WorkflowStep:
    return WorkflowStep(name=name, after=tuple(after.split()), wait=StepWait(**fields), when=when)


def account(name: str) -> Actor:
    return Actor(name=name, kind=ActorKind.ACCOUNT, action="approve_run_step")


async def advance(flows: Flows, seconds: float) -> None:
    flows.runtime.clock.advance(seconds)
    await flows.work()


async def report(flows: Flows, run_id: RunId, name: str) -> StepReport:
    page = await flows.runtime.client.workflows.steps(TENANT, run_id, after=None, limit=100)
    [found] = [one for one in page.steps if page.plan.workflow.steps[one.place].name == name]
    return found


async def test_a_step_sleeps(flows: Flows) -> None:
    run_id = await flows.start(step("a"), wait("nap", "a", sleep=MINUTE), step("b", "nap"))
    await flows.work()
    assert await flows.steps(run_id) == [SUCCEEDED, SUSPENDED, WAITING]
    assert (await report(flows, run_id, "nap")).reason == "waits until 2026-01-05T12:01:00.000Z"
    await advance(flows, 59.0)
    assert flows.deeds.order == ["a"]
    await advance(flows, 1.1)
    assert flows.deeds.order == ["a", "b"]
    assert await flows.state(run_id) is RunState.SUCCEEDED
    await flows.check(run_id)


async def test_a_workflow_may_begin_with_a_wait_and_consist_of_nothing_else(flows: Flows) -> None:
    run_id = await flows.start(wait("nap", sleep=MINUTE))
    await flows.work()
    assert await flows.state(run_id) is RunState.RUNNING
    await advance(flows, 61.0)
    assert await flows.state(run_id) is RunState.SUCCEEDED
    await flows.check(run_id)


async def test_an_instant_that_has_passed_ends_the_wait_at_once(flows: Flows) -> None:
    now = flows.runtime.clock.now()
    run_id = await flows.start(
        wait("past", until=now - MINUTE),
        wait("later", "past", until=now + MINUTE),
        step("b", "later", when="steps.past.result == null"),
    )
    await flows.work()
    assert await flows.steps(run_id) == [SUCCEEDED, SUSPENDED, WAITING]
    await advance(flows, 61.0)
    assert await flows.steps(run_id) == [SUCCEEDED, SUCCEEDED, SUCCEEDED]
    await flows.check(run_id)


async def test_an_expression_makes_the_instant(flows: Flows) -> None:
    made = MadeValue("input.at")
    run_id = await flows.start(
        wait("later", until=made), step("b", "later"), payload=b'{"at": "2026-01-05T12:02:00Z"}'
    )
    await flows.work()
    assert await flows.steps(run_id) == [SUSPENDED, WAITING]
    await advance(flows, 121.0)
    assert await flows.state(run_id) is RunState.SUCCEEDED
    wrong = await flows.start(wait("later", until=made), payload=b'{"at": 5}', name="wrong")
    await flows.work()
    found = await report(flows, wrong, "later")
    assert found.status is FAILED
    assert found.reason == "its wait cannot be evaluated"
    assert found.error is not None
    assert found.error.startswith("until must be an instant like")


async def test_a_signal_ends_the_wait_and_its_data_goes_on(flows: Flows) -> None:
    run_id = await flows.start(
        wait("go", signal="go"),
        step("b", "go", payload=None, given=b'{"step": {"cel": "steps.go.result.who"}}'),
    )
    await flows.work()
    assert (await report(flows, run_id, "go")).reason == "waits for the signal 'go'"
    answers = flows.runtime.client.flow_answers
    assert await answers.signal(TENANT, run_id, "go", data=b'{"who":"first"}')
    assert await answers.signal(TENANT, run_id, "go", data=b'{"who":"second"}')
    await flows.work()
    assert flows.deeds.order == ["first"]
    assert await flows.state(run_id) is RunState.SUCCEEDED
    await flows.check(run_id)


async def test_an_answer_before_the_step_waits_is_kept_for_it(flows: Flows) -> None:
    run_id = await flows.start(
        step("a"),
        wait("go", "a", signal="go"),
        wait("ok", "go", approval=Approval()),
        step("b", "ok", when="steps.go.result == 7 && steps.ok.result.decision == 'approved'"),
    )
    await flows.turn()
    answers = flows.runtime.client.flow_answers
    assert await answers.signal(TENANT, run_id, "go", data=b"7")
    assert await answers.decide(TENANT, run_id, "ok", is_approved=True, by=account("anna"), comment="fine")
    await flows.turn()
    assert not await answers.signal(TENANT, run_id, "go", data=b"8")
    await flows.work()
    assert flows.deeds.order == ["a", "b"]
    found = await report(flows, run_id, "ok")
    assert found.wait is not None
    assert (found.wait.by, found.wait.comment) == ("anna", "fine")
    assert found.reason == "approved by anna: fine"
    assert (await report(flows, run_id, "go")).reason == "signal sent by local"
    assert await flows.state(run_id) is RunState.SUCCEEDED
    await flows.check(run_id)


async def test_a_rejection_fails_the_step(flows: Flows) -> None:
    run_id = await flows.start(
        wait("ok", approval=Approval(by=("anna", "ben"))),
        step("b", "ok"),
        step("page", "ok", rule=StepRule.ONE_FAILED),
    )
    await flows.work()
    answers = flows.runtime.client.flow_answers
    assert (await report(flows, run_id, "ok")).reason == "waits for an approval by anna or ben"
    with pytest.raises(NeedsRight, match="'ok' is for anna or ben to decide"):
        await answers.decide(TENANT, run_id, "ok", is_approved=True, by=account("carl"))
    assert await answers.decide(
        TENANT, run_id, "ok", is_approved=False, by=account("ben"), comment="too much", may_operate=False
    )
    await flows.work()
    assert flows.deeds.order == ["page"]
    assert await flows.steps(run_id) == [FAILED, UPSTREAM, SUCCEEDED]
    found = await report(flows, run_id, "ok")
    assert (found.reason, found.error) == ("it was rejected", "rejected by ben: too much")
    assert await flows.state(run_id) is RunState.FAILED
    await flows.check(run_id)


async def test_the_first_decision_counts(flows: Flows) -> None:
    run_id = await flows.start(step("a"), wait("ok", approval=Approval()), step("b", "ok"))
    await flows.turn()
    answers = flows.runtime.client.flow_answers
    with pytest.raises(NeedsRight, match="you need the right operate"):
        await answers.decide(TENANT, run_id, "ok", is_approved=True, may_operate=False)
    await answers.decide(TENANT, run_id, "ok", is_approved=True)
    await answers.decide(TENANT, run_id, "ok", is_approved=False)
    await flows.turn()
    assert not await answers.decide(TENANT, run_id, "ok", is_approved=True)
    with pytest.raises(Conflict, match="step 'ok' was approved by local already"):
        await answers.decide(TENANT, run_id, "ok", is_approved=False)
    await flows.work()
    assert await flows.state(run_id) is RunState.SUCCEEDED


@pytest.mark.parametrize(
    ("on_timeout", "status", "end"),
    [(OnTimeout.FAIL, FAILED, RunState.FAILED), (OnTimeout.SKIP, SKIPPED, RunState.SUCCEEDED)],
)
async def test_what_takes_too_long(
    flows: Flows, on_timeout: OnTimeout, status: StepStatus, end: RunState
) -> None:
    run_id = await flows.start(
        wait("go", signal="go", timeout=MINUTE, on_timeout=on_timeout), step("b", "go")
    )
    await flows.work()
    await advance(flows, 61.0)
    assert (await flows.steps(run_id))[0] is status
    assert (await report(flows, run_id, "go")).reason == "no answer came in time"
    assert await flows.state(run_id) is end
    with pytest.raises(Conflict, match="has ended"):
        await flows.runtime.client.flow_answers.signal(TENANT, run_id, "go")
    await flows.check(run_id)


async def test_an_answer_in_time_ends_the_timer(flows: Flows) -> None:
    run_id = await flows.start(
        wait("go", signal="go", timeout=MINUTE), step("b", "go"), wait("nap", "b", sleep=10 * MINUTE)
    )
    await flows.work()
    await flows.runtime.client.flow_answers.signal(TENANT, run_id, "go")
    await flows.work()
    await advance(flows, 61.0)
    assert await flows.steps(run_id) == [SUCCEEDED, SUCCEEDED, SUSPENDED]


async def test_a_wait_is_skipped_completed_and_cancelled(flows: Flows) -> None:
    run_id = await flows.start(
        wait("one", sleep=MINUTE),
        wait("two", signal="go"),
        wait("three", approval=Approval(by=("anna",))),
        step("b", "two", payload=None, given=b'{"step": {"cel": "steps.two.result"}}'),
    )
    await flows.work()
    client = flows.runtime.client
    await client.flow_commands.skip(TENANT, run_id, ["one"])
    assert await client.flow_answers.complete(TENANT, run_id, "two", data=b'"by hand"', comment="lost")
    await flows.work()
    assert not await client.flow_answers.complete(TENANT, run_id, "two")
    assert flows.deeds.order == ["by hand"]
    assert await flows.steps(run_id) == [SKIPPED, SUCCEEDED, SUSPENDED, SUCCEEDED]
    await client.runs.cancel(TENANT, run_id)
    await flows.work()
    assert (await flows.steps(run_id))[2] is CANCELLED
    assert await flows.state(run_id) is RunState.CANCELLED
    await flows.check(run_id)


async def test_the_deadline_ends_a_wait(flows: Flows) -> None:
    run_id = await flows.start(wait("go", signal="go"), deadline=MINUTE)
    await flows.work()
    await advance(flows, 61.0)
    assert await flows.steps(run_id) == [CANCELLED]
    run = await flows.run(run_id)
    assert (run.state, run.reason) == (RunState.FAILED, "deadline")
    await flows.check(run_id)


async def test_a_paused_workflow_starts_no_wait_and_goes_on_after_one(flows: Flows) -> None:
    run_id = await flows.start(wait("nap", sleep=MINUTE), wait("go", "nap", signal="go"), step("b", "go"))
    await flows.work()
    await flows.runtime.client.flow_commands.pause(TENANT, run_id)
    await advance(flows, 61.0)
    assert await flows.steps(run_id) == [SUCCEEDED, StepStatus.READY, WAITING]
    await flows.runtime.client.flow_answers.signal(TENANT, run_id, "go")
    await flows.work()
    assert flows.deeds.order == []
    await flows.runtime.client.flow_commands.resume(TENANT, run_id)
    await flows.work()
    assert flows.deeds.order == ["b"]
    await flows.check(run_id)


async def test_what_waits_for_nothing_is_told_so(flows: Flows) -> None:
    run_id = await flows.start(step("a"), wait("go", signal="go"))
    plain = await flows.start(step("a"), name="plain")
    await flows.turn()
    answers = flows.runtime.client.flow_answers
    with pytest.raises(InvalidInput, match="no step waits for the signal 'og'; known are go"):
        await answers.signal(TENANT, run_id, "og")
    with pytest.raises(InvalidInput, match="no step of this workflow waits for a signal"):
        await answers.signal(TENANT, plain, "go")
    with pytest.raises(Conflict, match="step 'a' awaits no approval"):
        await answers.decide(TENANT, run_id, "a", is_approved=True)
    with pytest.raises(Conflict, match="step 'a' waits for nothing"):
        await answers.complete(TENANT, run_id, "a")
    with pytest.raises(InvalidInput, match="there is no step 'b'"):
        await answers.decide(TENANT, run_id, "b", is_approved=True)
    with pytest.raises(NotFound):
        await answers.signal("other", run_id, "go")
    await flows.runtime.client.flow_commands.skip(TENANT, run_id, ["go"])
    await flows.turn()
    with pytest.raises(Conflict, match="step 'go' waits no longer: it has the status 'skipped'"):
        await answers.signal(TENANT, run_id, "go")


async def test_reconciling_leaves_flows_alone_that_wait(flows: Flows) -> None:
    run_id = await flows.start(step("a"), wait("go", "a", signal="go"))
    await flows.work()
    now = flows.runtime.clock.now()
    assert await flows.runtime.store.reconcile_flows(range(256), now=now, limit=10) == []
    await flows.runtime.client.flow_answers.signal(TENANT, run_id, "go")
    assert await flows.runtime.store.reconcile_flows(range(256), now=now, limit=10) == []
    await flows.work()
    assert await flows.state(run_id) is RunState.SUCCEEDED


async def send(flows: Flows, topic: str, key: str | None = None, data: bytes | None = None) -> int:
    sent = await flows.runtime.client.events.send(TENANT, EventRequest(topic=topic, key=key, data=data))
    return sent.result.released


PAID = EventWait(topic="orders.paid", key=MadeValue("input.order"))


async def test_an_event_ends_the_wait_for_its_topic_and_key(flows: Flows) -> None:
    run_id = await flows.start(
        wait("paid", event=PAID),
        step("b", "paid", payload=None, given=b'{"step": {"cel": "steps.paid.result.by"}}'),
        payload=b'{"order": 4711}',
    )
    await flows.work()
    assert (await report(flows, run_id, "paid")).reason == "waits for an event of 'orders.paid'"
    assert await send(flows, "orders.paid", "4712", b'{"by":"nobody"}') == 0
    assert await send(flows, "orders.paid") == 0
    assert await send(flows, "orders.lost", "4711") == 0
    await flows.work()
    assert await flows.steps(run_id) == [SUSPENDED, WAITING]
    assert await send(flows, "orders.paid", "4711", b'{"by":"card"}') == 1
    assert await send(flows, "orders.paid", "4711", b'{"by":"cash"}') == 0
    await flows.work()
    assert flows.deeds.order == ["card"]
    assert await flows.state(run_id) is RunState.SUCCEEDED
    await flows.check(run_id)


async def test_an_event_that_came_before_the_step_waits_counts_from_when_the_run_was_due(
    flows: Flows,
) -> None:
    await send(flows, "orders.paid", "4711", b'"long ago"')
    flows.runtime.clock.advance(5.0)
    run_id = await flows.start(
        step("a"),
        wait("paid", "a", event=PAID),
        step("b", "paid", payload=None, given=b'{"step": {"cel": "steps.paid.result"}}'),
        payload=b'{"order": "4711", "step": "a"}',
    )
    await flows.turn()
    flows.runtime.clock.advance(1.0)
    assert await send(flows, "orders.paid", "4711", b'"in time"') == 0
    flows.runtime.clock.advance(1.0)
    await send(flows, "orders.paid", "4711", b'"later"')
    await flows.work()
    assert flows.deeds.order == ["a", "in time"]
    assert await flows.state(run_id) is RunState.SUCCEEDED
    await flows.check(run_id)


async def test_an_event_releases_all_that_wait_and_starts_jobs_too(flows: Flows) -> None:
    await add_job(
        flows.runtime.store,
        spec=make_spec(
            name="listens",
            target=Target("function", {"function": "act"}),
            trigger=OnEvent("orders.paid"),
            payload=b'{"step": "x"}',
        ),
    )
    job_id = await flows.add(wait("paid", event=EventWait(topic="orders.paid", key="1")), step("b", "paid"))
    runs = [await flows.submit(job_id), await flows.submit(job_id)]
    await flows.turn()
    sent = await flows.runtime.client.events.send(TENANT, EventRequest(topic="orders.paid", key="1"))
    assert (sent.result.released, len(sent.result.run_ids)) == (2, 1)
    await flows.turn()
    assert [await flows.steps(run_id) for run_id in runs] == [[SUCCEEDED, StepStatus.LIVE]] * 2


async def test_nothing_is_left_of_a_wait_for_an_event_that_did_not_come(flows: Flows) -> None:
    event = EventWait(topic="orders.paid")
    late = await flows.start(wait("paid", event=event, timeout=MINUTE))
    cancelled = await flows.start(wait("paid", event=event), name="cancelled")
    await flows.turn()
    await flows.runtime.client.runs.cancel(TENANT, cancelled)
    await advance(flows, 61.0)
    assert [await flows.state(late), await flows.state(cancelled)] == [RunState.FAILED, RunState.CANCELLED]
    assert await send(flows, "orders.paid") == 0
    await flows.check(late)
    await flows.check(cancelled)


async def test_a_key_that_cannot_be_made_fails_the_step(flows: Flows) -> None:
    run_id = await flows.start(wait("paid", event=PAID), payload=b'{"order": [1]}')
    await flows.work()
    found = await report(flows, run_id, "paid")
    assert found.status is FAILED
    assert found.error is not None
    assert found.error.startswith("event.key must be text")


async def test_a_redrive_waits_again_only_for_what_expressions_name(flows: Flows) -> None:
    run_id = await flows.start(
        wait("nap", sleep=MINUTE),
        wait("ok", "nap", approval=Approval()),
        wait("go", "ok", signal="go"),
        step("b", "go", payload=None, given=b'{"step": {"cel": "steps.go.result"}}'),
        step("c", "b"),
    )
    await flows.work()
    await advance(flows, 61.0)
    answers = flows.runtime.client.flow_answers
    await answers.decide(TENANT, run_id, "ok", is_approved=True)
    await answers.signal(TENANT, run_id, "go", data=b'"first"')
    flows.deeds.failures["c"] = 1
    await flows.work()
    assert await flows.state(run_id) is RunState.FAILED
    result = await flows.runtime.client.redriving.redrive(TENANT, run_id)
    again = result.run_id
    assert again is not None
    await flows.work()
    assert await flows.steps(again) == [SUCCEEDED, SUCCEEDED, SUSPENDED, WAITING, WAITING]
    assert (await report(flows, again, "ok")).reason == f"taken over from {format_run_id(run_id)}"
    await answers.signal(TENANT, again, "go", data=b'"second"')
    await flows.work()
    assert flows.deeds.order == ["first", "c", "second", "c"]
    assert await flows.state(again) is RunState.SUCCEEDED
    await flows.check(again)
