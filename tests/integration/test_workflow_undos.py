"""What a workflow has done is undone if it does not succeed, on the whole engine and every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.ids import RunId, format_run_id
from mainspring.core.states import RunState
from mainspring.core.workflows.model import WorkflowStep
from mainspring.core.workflows.state import StepStatus
from mainspring.errors import InvalidInput
from mainspring.testing.clock import FakeClock
from mainspring.testing.manual import TENANT, ManualRuntime
from tests.support.workflows import STORES, TWICE, Deeds, Flows, make_store, step

FAILED, SUCCEEDED, CANCELLED = RunState.FAILED, RunState.SUCCEEDED, RunState.CANCELLED


@pytest.fixture(params=STORES)
async def flows(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Flows]:
    clock, deeds = FakeClock(), Deeds()
    store = make_store(request, tmp_path, clock)
    async with ManualRuntime(deeds.registry(), store=store, clock=clock) as runtime:
        yield await Flows.begin(runtime, deeds)


def undo(name: str, **fields: Any) -> WorkflowStep:
    return step(f"un{name}", undoes=name, **fields)


SAGA = (
    step("book", ""),
    undo("book"),
    step("pay", "book"),
    undo("pay", given=b'{"step": "unpay", "paid": {"cel": "steps.pay.result"}}', payload=None),
    step("ship", "pay"),
    step("tell", at_end=True),
)


async def reasons(flows: Flows, run_id: RunId) -> dict[str, str | None]:
    page = await flows.runtime.client.workflows.steps(TENANT, run_id, after=None, limit=100)
    return {page.plan.workflow.steps[one.place].name: one.reason for one in page.steps}


async def test_what_had_succeeded_is_undone_backwards(flows: Flows) -> None:
    flows.deeds.failures = {"ship": 1}
    run_id = await flows.start(*SAGA)
    await flows.work()
    assert flows.deeds.order == ["book", "pay", "ship", "unpay", "unbook", "tell"]
    assert ("unpay", {"paid": "pay done by 1"}) in flows.deeds.calls
    run = await flows.run(run_id)
    assert (run.state, run.error) == (FAILED, "step ship has not succeeded")
    keys = {one.idempotency_key for one in await flows.runs(run_id)}
    assert f"{format_run_id(run_id)}.unpay" in keys
    await flows.check(run_id)


async def test_a_success_undoes_nothing(flows: Flows) -> None:
    run_id = await flows.start(*SAGA)
    await flows.work()
    assert flows.deeds.order == ["book", "pay", "ship", "tell"]
    assert await flows.state(run_id) is SUCCEEDED
    assert (await reasons(flows, run_id))["unpay"] == "nothing had to be undone"
    await flows.check(run_id)


async def test_a_cancel_undoes_what_was_done(flows: Flows) -> None:
    run_id = await flows.start(*SAGA)
    await flows.turn()
    await flows.worker.work()
    await flows.runtime.client.runs.cancel(TENANT, run_id)
    await flows.work()
    assert flows.deeds.order == ["book", "unbook", "tell"]
    assert await flows.state(run_id) is CANCELLED
    await flows.check(run_id)


async def test_an_undo_is_tried_again_and_if_it_fails_the_others_run(flows: Flows) -> None:
    flows.deeds.failures = {"ship": 9, "unpay": 9}
    saga = [undo("pay", retry=TWICE) if one.name == "unpay" else one for one in SAGA]
    run_id = await flows.start(*saga)
    await flows.work()
    flows.runtime.clock.advance(10)
    await flows.work()
    assert flows.deeds.order == ["book", "pay", "ship", "unpay", "unpay", "unbook", "tell"]
    run = await flows.run(run_id)
    assert (run.state, run.error) == (FAILED, "steps ship, unpay have not succeeded")
    await flows.check(run_id)


async def test_what_was_undone_runs_again_in_a_redrive(flows: Flows) -> None:
    flows.deeds.failures = {"ship": 1}
    saga = [one for one in SAGA if one.name != "unbook"]
    run_id = await flows.start(*saga)
    await flows.work()
    flows.deeds.calls.clear()
    for name in ("tell", "unpay"):
        with pytest.raises(InvalidInput, match=rf"from\[0\]: '{name}' is no step to begin with"):
            await flows.runtime.client.redriving.redrive(TENANT, run_id, begin=(name,))
    result = await flows.runtime.client.redriving.redrive(TENANT, run_id)
    assert result.run_id is not None
    await flows.work()
    assert flows.deeds.order == ["pay", "ship", "tell"], "the booking stands, and the payment was undone"
    assert await flows.state(result.run_id) is SUCCEEDED
    assert (await flows.steps(result.run_id))[2] is StepStatus.SKIPPED
