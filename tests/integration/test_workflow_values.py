"""What steps decide by and pass on, on the whole engine and every store."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.ids import format_run_id
from mainspring.core.states import RunState
from mainspring.core.workflows.places import StepPlace
from mainspring.core.workflows.state import StepStatus
from mainspring.errors import InvalidFields
from mainspring.ports.store import Store
from mainspring.registry import FunctionRegistry
from mainspring.stores.memory import MemoryStore
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.manual import TENANT, ManualRuntime
from tests.support.workflows import Deeds, Flows

SUCCEEDED, FAILED = RunState.SUCCEEDED, RunState.FAILED
AWKWARD = {
    "text": "a\nü😀",
    "big": 2**70,
    "float": 1.0,
    "none": None,
    "list": [[], {}, [1, -0.5]],
    "z": 1,
    "a": 2,
}


class Steps:
    """Functions that return what they are told to, and note what they got."""

    def __init__(self) -> None:
        self.got: dict[str, Any] = {}

    async def give(self, name: str, value: Any = None) -> Any:
        """Return a value."""
        self.got[name] = value
        return value

    async def fail(self, why: str) -> None:
        """Fail."""
        raise ValueError(why)

    def registry(self) -> FunctionRegistry:
        """Return the functions of a worker."""
        registry = FunctionRegistry()
        registry.add("give", self.give)
        registry.add("fail", self.fail)
        return registry


@pytest.fixture
def steps() -> Steps:
    return Steps()


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def flows(request: pytest.FixtureRequest, tmp_path: Path, steps: Steps) -> AsyncIterator[Flows]:
    clock = FakeClock()
    stores: dict[str, Callable[[], Store]] = {
        "memory": lambda: MemoryStore(time=clock.now),
        "sqlite": lambda: SqliteStore(tmp_path / "mainspring.db"),
        "postgres": lambda: PostgresStore(
            request.getfixturevalue("migrated_database"), random=random.Random(1)
        ),
    }
    async with ManualRuntime(steps.registry(), store=stores[request.param](), clock=clock) as runtime:
        yield await Flows.begin(runtime, Deeds())


def give(name: str, value: object = None, **fields: object) -> dict[str, Any]:
    """Return a step that returns a value; an expression if that is text with a mark before it."""
    body: dict[str, Any] = {"name": name, "function": "give", "retry": {"max_retries": 0}, **fields}
    if isinstance(value, str) and value.startswith("="):
        body["with"] = {"name": name, "value": {"cel": value[1:]}}
    elif "with" not in fields:
        body["payload"] = {"name": name, "value": value}
    return body


def fail(name: str, why: str, **fields: object) -> dict[str, Any]:
    return {"name": name, "function": "fail", "payload": {"why": why}, "retry": {"max_retries": 0}, **fields}


async def start(flows: Flows, *bodies: dict[str, Any], payload: bytes | None = None, **more: object) -> Any:
    """Define a workflow as a user does, submit a run of it, and work until nothing is left to do."""
    jobs = flows.runtime.client.jobs
    job = await jobs.create(TENANT, {"name": "flow", "workflow": {"steps": list(bodies), **more}})
    run_id = await flows.submit(job.id, **({} if payload is None else {"payload": payload}))
    await flows.work()
    return run_id


async def reasons(flows: Flows, run_id: Any) -> dict[str, str | None]:
    found = await flows.runtime.client.workflows.steps(TENANT, run_id, after=None, limit=100)
    return {
        found.plan.workflow.steps[one.place].name: one.reason
        if one.error is None
        else f"{one.reason}: {one.error}"
        for one in found.steps
    }


async def test_a_step_gets_what_another_has_returned(flows: Flows, steps: Steps) -> None:
    run_id = await start(
        flows, give("one", AWKWARD), give("two", "=steps.one.result"), give("three", "=steps.two.result.list")
    )
    assert steps.got == {"one": AWKWARD, "two": AWKWARD, "three": AWKWARD["list"]}
    assert list(steps.got["two"]) == list(AWKWARD), "keys keep their order"
    assert await flows.state(run_id) is SUCCEEDED
    await flows.check(run_id)


async def test_values_of_long_ago_are_kept_for_the_flow_and_no_longer(flows: Flows, steps: Steps) -> None:
    run_id = await start(
        flows,
        give("one", {"n": 1}),
        give("two", 2, after=["one"]),
        give("three", "=steps.one.result.n + steps.two.result", after=["two"]),
        give("four", "=[steps.one.result, steps.three.result]"),
        give("other", "=steps.one.result.n"),
        result="{'sum': steps.three.result, 'all': steps.four.result}",
    )
    assert (steps.got["three"], steps.got["four"]) == (3, [{"n": 1}, 3])
    run = await flows.run(run_id)
    assert run.result is not None
    assert (run.state, json.loads(run.result)) == (SUCCEEDED, {"sum": 3, "all": [{"n": 1}, 3]})
    kept = await flows.runtime.store.read_flow_values([StepPlace(run_id, step) for step in range(5)])
    assert kept == [None] * 5
    await flows.check(run_id)


async def test_a_step_whose_when_is_false_is_skipped_alone(flows: Flows, steps: Steps) -> None:
    run_id = await start(
        flows,
        give("count", 0),
        give("load", after=["count"], when="steps.count.result > 0"),
        give("tell", after=["count"], when="steps.count.result == 0 && input.loud"),
        give("after_load", after=["load"]),
        give("anyway", "=steps.load.status", rule="all_done"),
        payload=b'{"loud": true}',
    )
    assert dict(
        zip(["count", "load", "tell", "after_load", "anyway"], await flows.steps(run_id), strict=True)
    ) == {
        "count": StepStatus.SUCCEEDED,
        "load": StepStatus.SKIPPED,
        "tell": StepStatus.SUCCEEDED,
        "after_load": StepStatus.SKIPPED,
        "anyway": StepStatus.SUCCEEDED,
    }
    assert steps.got["anyway"] == "skipped"
    told = await reasons(flows, run_id)
    assert told["load"] == "when is false: steps.count.result > 0"
    assert told["after_load"] == "load was skipped"
    assert await flows.state(run_id) is SUCCEEDED
    await flows.check(run_id)


async def test_a_step_without_parents_may_be_skipped_and_so_may_all(flows: Flows) -> None:
    run_id = await start(
        flows, give("one", when="input == 'never'"), give("two", after=["one"]), result="steps.one.status"
    )
    run = await flows.run(run_id)
    assert (run.state, run.result) == (SUCCEEDED, b'"skipped"')
    assert await reasons(flows, run_id) == {
        "one": "when is false: input == 'never'",
        "two": "one was skipped",
    }
    await flows.check(run_id)


async def test_an_expression_that_makes_nothing_fails_its_step(flows: Flows, steps: Steps) -> None:
    run_id = await start(
        flows,
        give("one", {"n": 1}),
        give("two", after=["one"], when="steps.one.result.m > 0"),
        give("three", "=1 / (steps.one.result.n - 1)", allow_failure=True),
        give("four", after=["one"], when="steps.one.result.n"),
        give("five", "=steps.two.error", rule="all_done"),
        give("six", after=["two"]),
    )
    told = await reasons(flows, run_id)
    assert told["two"] == 'its when cannot be evaluated: Key not found in map : "m"'
    assert told["three"] == "its with cannot be evaluated: divide by zero"
    assert told["four"] == "its when cannot be evaluated: makes a number, and not true or false"
    assert told["six"] == "two failed"
    assert steps.got["five"] == 'when: Key not found in map : "m"', "others can ask for the error"
    run = await flows.run(run_id)
    assert (run.state, run.error) == (FAILED, "steps two, four have not succeeded")
    await flows.check(run_id)


async def test_a_step_gets_the_error_of_another(flows: Flows, steps: Steps) -> None:
    run_id = await start(
        flows,
        fail("one", "no disk"),
        give("page", "='one: ' + steps.one.error", rule="one_failed"),
        give("nothing", "=steps.one.result", rule="all_done"),
    )
    assert (steps.got["page"], steps.got["nothing"]) == ("one: ValueError: no disk", None)
    assert await flows.state(run_id) is FAILED


async def test_a_result_that_cannot_be_made_fails_the_workflow(flows: Flows) -> None:
    run_id = await start(flows, give("one", 1), result="steps.one.result.n")
    run = await flows.run(run_id)
    assert (run.state, run.error) == (FAILED, "result: there is no 'n' in what is no object")
    await flows.check(run_id)


async def test_what_is_too_large_is_refused(flows: Flows) -> None:
    run_id = await start(
        flows, give("one", "x" * 40_000), give("two", "=[steps.one.result, steps.one.result]")
    )
    assert (await reasons(flows, run_id))["two"] == (
        "its with cannot be evaluated: makes 80030 bytes; at most 65536 fit, pass an artifact instead"
    )


async def test_a_whole_payload_may_be_passed_on(flows: Flows, steps: Steps) -> None:
    await start(
        flows,
        give("one", {"name": "two", "value": [1]}),
        give("two", **{"with": {"cel": "steps.one.result"}}),
    )
    assert steps.got["two"] == [1]


async def test_expressions_know_the_run(flows: Flows, steps: Steps) -> None:
    run_id = await start(flows, give("one", "=run"))
    assert steps.got["one"] == {"id": format_run_id(run_id), "job": "flow", "attempt": 1, "fire_at": None}


async def test_a_server_without_the_extra_leaves_the_flow_to_others(
    flows: Flows, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await flows.runtime.client.jobs.create(
        TENANT,
        {"name": "flow", "workflow": {"steps": [give("one", 1), give("two", "=steps.one.result + 1")]}},
    )
    other = await flows.runtime.client.jobs.create(
        TENANT, {"name": "plain", "workflow": {"steps": [give("plain")]}}
    )
    expressions = flows.runtime.services["flows"]._expressions  # type: ignore[attr-defined]
    expressions._compile.cache_clear()
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "cel_expr_python", None)
        run_id = await flows.submit(job.id)
        plain_id = await flows.submit(other.id)
        await flows.work()
        assert await flows.state(plain_id) is SUCCEEDED
        assert await flows.state(run_id) is RunState.RUNNING
        [why] = flows.runtime.services["flows"].unreadable.values()  # type: ignore[attr-defined]
        assert "pip install 'mainspring[cel]'" in why
    await flows.work()
    assert await flows.state(run_id) is SUCCEEDED
    assert steps.got["two"] == 2


async def test_a_server_without_the_extra_refuses_definitions_and_names_it(
    flows: Flows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    bodies = [give("one", "=[1, 2]"), give("two", when="input == 'not compiled before'")]
    with pytest.raises(InvalidFields) as caught:
        await start(flows, *bodies)
    [error] = caught.value.errors
    assert error.field == "workflow.steps[0].with.value.cel"
    assert error.message.startswith("this server evaluates no expressions")
    assert "pip install 'mainspring[cel]'" in error.message
    assert await start(flows, give("plain", 1)), "what uses none is taken"


async def test_all_that_is_wrong_with_expressions_is_told_at_once(flows: Flows) -> None:
    with pytest.raises(InvalidFields) as caught:
        await start(
            flows,
            give("one", "=steps.laod.result"),
            give("two", when="steps.three.result"),
            give("three", when="1 +"),
            give("four", "=steps.one.reslut", when="steps.one"),
            give("five", "=input", payload=1),
            give("six", **{"with": [1]}),
            give("seven", **{"with": {"a": {"cel": 1}}}),
            result="steps.seven.result.x +",
        )
    assert {error.field: error.message for error in caught.value.errors} == {
        "workflow.steps[4].with": "is instead of 'payload', which is given; put its fields in here, too",
        "workflow.steps[5].with": 'must be an object of values and of {"cel": "…"}, not a list',
        "workflow.steps[6].with.a.cel": "must be text of 1 to 2048 characters without NUL",
        "workflow.steps[0].with.value.cel": "at column 1: there is no step 'laod'",
        "workflow.steps[1].when": "at column 1: the step does not wait for 'three'; name that in 'after'",
        "workflow.steps[2].when": "at column 4: it ends too soon",
        "workflow.steps[3].when": (
            "at column 1: say what of the step: steps.one.status, steps.one.result or steps.one.error"
        ),
        "workflow.steps[3].with.value.cel": (
            "at column 1: there is no 'reslut' of a step;"
            " ask for steps.one.status, steps.one.result or steps.one.error"
        ),
        "workflow.result": "at column 23: it ends too soon",
    }


async def test_steps_that_ask_for_one_another_are_a_cycle(flows: Flows) -> None:
    with pytest.raises(InvalidFields) as caught:
        await start(flows, give("one", "=steps.two.result"), give("two", "=steps.one.result"))
    [error] = caught.value.errors
    assert (error.field, error.message) == ("workflow.steps[0].with", "cycle: one → two → one")


async def test_a_step_runs_for_each_item_of_what_another_has_returned(flows: Flows, steps: Steps) -> None:
    files = [{"name": f"f{place}", "value": place} for place in range(7)]
    run_id = await start(
        flows,
        give("list", {"files": files}),
        {
            **give("clean"),
            "payload": {"name": "none"},
            "map": {"over": "steps.list.result.files", "max_parallel": 2},
        },
        result="{'good': steps.clean.succeeded, 'bad': steps.clean.failed}",
    )
    assert steps.got == {"list": {"files": files}, **{f"f{place}": place for place in range(7)}}
    run = await flows.run(run_id)
    assert run.result is not None
    assert (run.state, json.loads(run.result)) == (SUCCEEDED, {"good": 7, "bad": 0})
    await flows.check(run_id)


async def test_what_each_item_gets_is_made_of_it(flows: Flows, steps: Steps) -> None:
    given = {"name": {"cel": "'at ' + string(index)"}, "value": {"cel": "item * steps.factor.result"}}
    own = {"over": "input.numbers.filter(n, n > 1)", "max_parallel": 1}
    each = {**give("each", **{"with": given}), "map": own}
    run_id = await start(flows, give("factor", 10), each, payload=b'{"numbers": [1, 2, 3]}')
    assert steps.got == {"factor": 10, "at 0": 20, "at 1": 30}
    await flows.check(run_id)


async def test_literal_items_make_payloads_too(flows: Flows, steps: Steps) -> None:
    given = {"name": {"cel": "item"}, "value": {"cel": "index"}}
    await start(flows, {**give("each", **{"with": given}), "map": {"over": ["a", "b"]}})
    assert steps.got == {"a": 0, "b": 1}


async def test_what_a_map_goes_over_may_be_no_list(flows: Flows, steps: Steps) -> None:
    run_id = await start(
        flows, give("list", {"n": 1}), {**give("each"), "map": {"over": "steps.list.result.n"}}
    )
    assert await flows.state(run_id) is FAILED
    assert (await reasons(flows, run_id))[
        "each"
    ] == "its map.over cannot be evaluated: makes a number, and not a list"
    assert list(steps.got) == ["list"]
    await flows.check(run_id)


async def test_a_job_runs_for_each_item_that_is_made(flows: Flows, steps: Steps) -> None:
    body = {"name": "keeper", "function": "give", "payload": {"name": "none", "value": "kept"}}
    await flows.runtime.client.jobs.create(TENANT, body)
    each = {"name": "each", "job": "keeper", "map": {"over": "steps.list.result"}}
    run_id = await start(flows, give("list", [{"name": "a"}, {"name": "b", "value": 2}]), each)
    assert (steps.got["a"], steps.got["b"]) == ("kept", 2)
    await flows.check(run_id)


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"map": {"over": "steps.lost.result"}}, "map.over", "there is no step 'lost'"),
        ({"map": {"over": "steps.list.succeeded"}}, "map.over", "'list' has no items to count"),
        ({"map": {"over": "1 +"}}, "map.over", ""),
        ({"map": {"over": "item.files"}}, "map.over", "item"),
        ({"map": {"over": 5}}, "map.over", "must be a list of items, or an expression that makes one"),
        ({"map": {"over": "steps.each.result"}}, "map.over", "cycle"),
        ({"with": {"x": {"cel": "item"}}}, "with.x.cel", "item"),
    ],
)
async def test_a_map_over_what_there_is_not_is_refused(
    flows: Flows, body: dict[str, Any], field: str, message: str
) -> None:
    steps = [give("list", [1]), {"name": "each", "function": "give", **body}]
    with pytest.raises(InvalidFields) as caught:
        await flows.runtime.client.jobs.create(TENANT, {"name": "flow", "workflow": {"steps": steps}})
    found = {error.field: error.message for error in caught.value.errors}
    assert message in found[f"workflow.steps[1].{field}"]
