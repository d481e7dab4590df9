"""Random workflows on the whole engine end as an oracle says, whatever fails, and wherever a process crashes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.core.states import RunState
from mainspring.core.workflows.model import WorkflowStep
from mainspring.core.workflows.rules import StepRule
from mainspring.errors import StoreUnavailable
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.manual import ManualRuntime
from tests.support.workflows import Deeds, Flows, foretell, step
from tests.unit.core.workflows.graphs import acyclic_links

VERBS = ("start_flows", "read_mail", "read_flows", "turn_flows", "drop_mail", "claim_runs", "apply")
"""Where a process may crash: what begins flows, takes their turns, and ends their steps."""


@st.composite
def graphs(draw: st.DrawFn) -> list[WorkflowStep]:
    """Return steps with random parents and rules."""
    steps = []
    for place, parents in enumerate(draw(acyclic_links(most_steps=9, most_parents=4))):
        rules = [rule for rule in StepRule if parents or not rule.needs_parents]
        steps.append(
            step(
                f"s{place}",
                " ".join(f"s{parent}" for parent in parents),
                rule=draw(st.sampled_from(rules)),
                allow_failure=draw(st.booleans()),
            )
        )
    return steps


@dataclass(frozen=True, slots=True)
class Crash:
    """A crash at the n-th call of a verb, before or after its commit.

    Attributes:
        is_restart: the whole process ends; else only the answer is lost.
    """

    verb: str
    count: int
    is_after: bool
    is_restart: bool


crashes = st.builds(
    Crash, st.sampled_from(VERBS), st.integers(1, 6), is_after=st.booleans(), is_restart=st.booleans()
)


class Frail:
    """A store at whose verbs processes crash."""

    def __init__(self, store: MemoryStore, planned: Sequence[Crash]) -> None:
        self._store = store
        self._planned = list(planned)
        self._calls: dict[str, int] = {}
        self.crashed: Crash | None = None
        self.is_over = False

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if name not in VERBS or self.is_over:
            return verb

        async def call(*args: Any, **given: Any) -> Any:
            count = self._calls[name] = self._calls.get(name, 0) + 1
            due = next((one for one in self._planned if (one.verb, one.count) == (name, count)), None)
            if due is None:
                return await verb(*args, **given)
            self._planned.remove(due)
            if due.is_after:
                await verb(*args, **given)
            self.crashed = due
            raise StoreUnavailable(f"crash at {name}")

        return call


async def play(steps: Sequence[WorkflowStep], failing: set[str], planned: Sequence[Crash]) -> None:
    clock, deeds = FakeClock(), Deeds()
    deeds.failures = dict.fromkeys(failing, 1000)
    frail: Any = Frail(MemoryStore(time=clock.now), planned)
    run_id, flows = None, await boot(frail, clock, deeds)
    for _ in range(60):
        run_id = run_id or await flows.start(*steps)
        try:
            await flows.work()
            if await flows.state(run_id) is not RunState.RUNNING and await flows.mail() == 0:
                break
            await lose_silent(flows)
        except StoreUnavailable:  # it may strike while a crash before is mended, too
            if frail.crashed.is_restart:
                flows = await boot(frail, clock, deeds)
            else:  # what the worker was told is in doubt, so it gives up
                await flows.runtime.gateway.leave(flows.worker.session_id)
                flows.worker = await flows.runtime.worker()
    else:
        raise AssertionError("the flow does not end")
    assert run_id is not None
    frail.is_over = True
    ends, end = foretell(steps, failing)
    assert (await flows.run(run_id)).state is end
    assert dict(zip([one.name for one in steps], await flows.steps(run_id), strict=True)) == ends
    await flows.check(run_id)
    ran = {name for name, status in ends.items() if status.name in {"SUCCEEDED", "FAILED"}}
    runs = await flows.runs(run_id)
    assert {steps[run.place.step].name for run in runs if run.place is not None} == ran
    if not any(crash.verb in {"claim_runs", "apply"} for crash in planned):
        assert sorted(deeds.order) == sorted(ran), "each step was carried out once"


async def boot(store: Any, clock: FakeClock, deeds: Deeds) -> Flows:
    """Start a process. The one before is gone, and so is its worker."""
    store.crashed = None
    runtime = ManualRuntime(deeds.registry(), store=store, clock=clock)
    await runtime.tick("shards")
    return await Flows.begin(runtime, deeds)


async def lose_silent(flows: Flows) -> None:
    """Let time pass until whoever is gone is found out."""
    for _ in range(9):
        flows.runtime.clock.advance(5)
        await flows.worker.beat()
        await flows.runtime.tick("shards", "reaper")


@settings(max_examples=40, deadline=None)
@given(graphs(), st.data())
def test_a_flow_ends_as_the_oracle_says(steps: list[WorkflowStep], data: st.DataObject) -> None:
    failing = {one.name for one in steps if data.draw(st.integers(0, 3)) == 0}
    asyncio.run(play(steps, failing, ()))


@settings(max_examples=60, deadline=None)
@given(graphs(), st.lists(crashes, min_size=1, max_size=3), st.data())
def test_a_crash_at_any_point_loses_and_doubles_nothing(
    steps: list[WorkflowStep], planned: list[Crash], data: st.DataObject
) -> None:
    failing = {one.name for one in steps if data.draw(st.integers(0, 3)) == 0}
    asyncio.run(play(steps, failing, planned))
