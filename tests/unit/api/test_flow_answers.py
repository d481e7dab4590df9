"""Answers to steps that wait, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from httpx import AsyncClient

from mainspring.registry import FunctionRegistry
from mainspring.testing.manual import ManualRuntime
from tests.unit.api.asgi import api_of, client_of

STEPS: list[dict[str, Any]] = [
    {"name": "one", "wait": {"signal": "go", "timeout": "1h"}},
    {"name": "two", "wait": {"approval": {"by": ["anna"]}}},
    {"name": "three", "wait": {"sleep": "1d"}},
    {"name": "work", "function": "work", "after": ["one"]},
]


class Answers:
    """A run of a workflow, and what is sent to it."""

    def __init__(self, http: AsyncClient, runtime: ManualRuntime) -> None:
        self.http, self.runtime = http, runtime
        self.run_id = ""

    async def start(self) -> None:
        body = {"name": "waits", "workflow": {"steps": STEPS}}
        job = (await self.http.post("/api/v1/jobs", json=body)).json()
        (made,) = (await self.http.post("/api/v1/runs/bulk", json=[{"job": job["name"]}])).json()
        self.run_id = made["run_id"]
        await self.runtime.tick("flow_starts")

    async def send(self, verb: str, **body: Any) -> tuple[int, dict[str, Any]]:
        answer = await self.http.post(f"/api/v1/runs/{self.run_id}/{verb}", json=body)
        await self.runtime.tick("flows")
        return answer.status_code, answer.json()

    async def steps(self) -> dict[str, dict[str, Any]]:
        page = (await self.http.get(f"/api/v1/runs/{self.run_id}/steps")).json()
        return {one["name"]: one for one in page["items"]}


@pytest.fixture
async def answers() -> AsyncIterator[Answers]:
    registry = FunctionRegistry()
    registry.add("work", lambda **_: "done")
    async with ManualRuntime(registry) as runtime, client_of(api_of(runtime)) as http:
        answers = Answers(http, runtime)
        await answers.start()
        yield answers


async def test_steps_show_what_they_wait_for(answers: Answers) -> None:
    steps = await answers.steps()
    assert {name: one["status"] for name, one in steps.items()} == {
        **dict.fromkeys(("one", "two", "three"), "suspended"),
        "work": "waiting",
    }
    assert (steps["one"]["type"], steps["one"]["wait"]["kind"]) == ("wait", "signal")
    assert steps["one"]["wait"]["until"] is not None
    assert steps["two"]["wait"]["approvers"] == ["anna"]
    assert steps["work"]["wait"] is None


async def test_an_answer_is_shown_and_a_repeated_one_changes_nothing(answers: Answers) -> None:
    assert await answers.send("signals", name="go", data={"a": 1}) == (
        202,
        {"run_id": answers.run_id, "is_new": True},
    )
    assert (await answers.send("signals", name="go"))[0] == 200
    assert (await answers.send("approve", step="two", comment="fine"))[0] == 202
    assert (await answers.send("approve", step="two")) == (200, {"run_id": answers.run_id, "is_new": False})
    code, body = await answers.send("reject", step="two")
    assert (code, body["errors"][0]["message"]) == (409, "step 'two' was approved by local already")
    assert (await answers.send("complete", step="three", comment="no time"))[0] == 202
    steps = await answers.steps()
    assert steps["work"]["status"] == "live"
    two = steps["two"]["wait"]
    assert (two["answer"], two["answered_by"], two["comment"]) == ("approve", "local", "fine")
    assert steps["three"]["wait"]["answer"] == "complete"


@pytest.mark.parametrize(
    ("verb", "body", "code", "field"),
    [
        ("signals", {"name": "stop"}, 422, "name"),
        ("signals", {"name": "not a name"}, 422, "name"),
        ("signals", {}, 422, "name"),
        ("approve", {"step": "none"}, 422, "step"),
        ("approve", {"step": "one"}, 409, "step"),
        ("approve", {"step": "two", "comment": ""}, 422, "comment"),
        ("reject", {"step": "two", "comment": "x" * 501}, 422, "comment"),
        ("complete", {"step": "work"}, 409, "step"),
        ("complete", {"step": "one", "data": "x" * 70_000}, 413, "data"),
        ("approve", {"steps": ["two"]}, 422, "steps"),
    ],
)
async def test_what_is_wrong_is_named(
    answers: Answers, verb: str, body: dict[str, Any], code: int, field: str
) -> None:
    status, answer = await answers.send(verb, **body)
    assert (status, answer["errors"][0]["field"]) == (code, field)


async def test_a_run_that_does_not_exist_is_not_found(answers: Answers) -> None:
    answer = await answers.http.post("/api/v1/runs/run_0000000000001/signals", json={"name": "go"})
    assert answer.status_code == 404
