"""Running an ended run again over HTTP: once each, with the old or the new definition."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from httpx import AsyncClient

from mainspring.registry import FunctionRegistry
from mainspring.testing.manual import ManualRuntime
from tests.unit.api.asgi import api_of, client_of


@pytest.fixture
async def runtime() -> Any:
    seen: list[Any] = []

    def work(n: int = 0) -> int:
        seen.append(n)
        if n:
            raise ValueError(f"{n} is not zero")
        return n

    registry = FunctionRegistry()
    registry.add("work", work)
    async with ManualRuntime(registry) as runtime:
        runtime.seen = seen  # type: ignore[attr-defined]  # what the function was called with
        yield runtime


@pytest.fixture
async def http(runtime: ManualRuntime) -> Any:
    async with client_of(api_of(runtime)) as client:
        yield client


async def make_run(http: AsyncClient, runtime: ManualRuntime, n: int = 1, **fields: Any) -> str:
    """Carry out a run of a new job, and return its id: it fails unless `n` is 0."""
    body = {"name": "pay", "function": "work", "retry": {"max_retries": 0}, **fields}
    job = (await http.post("/api/v1/jobs", json=body)).json()
    submitted = await http.post(f"/api/v1/jobs/{job['job_id']}/runs", json={"payload": {"n": n}})
    await (await runtime.worker()).work()
    run_id: str = submitted.json()["run_id"]
    return run_id


async def test_a_failed_run_is_run_again_with_its_payload_and_key(
    http: AsyncClient, runtime: ManualRuntime
) -> None:
    old = await make_run(http, runtime)
    answer = await http.post(f"/api/v1/runs/{old}/redrive")
    assert (answer.status_code, answer.json()["is_new"]) == (201, True)
    new = (await http.get(f"/api/v1/runs/{answer.json()['run_id']}")).json()
    assert (new["kind"], new["redrive_of"], new["payload"], new["idempotency_key"]) == (
        "redrive",
        old,
        {"n": 1},
        old,
    )
    await (await runtime.worker()).work()
    ended = (await http.get(f"/api/v1/runs/{new['run_id']}")).json()
    assert (ended["status"], ended["redrive_of"]) == ("FAILED", old)
    assert (await http.get(f"/api/v1/runs/{old}")).json()["status"] == "FAILED"


async def test_of_many_calls_one_makes_a_run(http: AsyncClient, runtime: ManualRuntime) -> None:
    old = await make_run(http, runtime)
    answers = await asyncio.gather(*(http.post(f"/api/v1/runs/{old}/redrive") for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [201]
    assert len({answer.json()["run_id"] for answer in answers}) == 1
    later = await http.post(f"/api/v1/runs/{old}/redrive", json={"definition": "newest"})
    assert (later.status_code, later.json()["run_id"]) == (200, answers[0].json()["run_id"])


async def test_another_payload_is_other_work(http: AsyncClient, runtime: ManualRuntime) -> None:
    old = await make_run(http, runtime)
    answer = await http.post(f"/api/v1/runs/{old}/redrive", json={"payload": {"n": 0}})
    new = answer.json()["run_id"]
    await (await runtime.worker()).work()
    found = (await http.get(f"/api/v1/runs/{new}")).json()
    assert (found["status"], found["result"], found["idempotency_key"]) == ("SUCCEEDED", 0, None)
    other = await http.post(f"/api/v1/runs/{old}/redrive")
    assert other.status_code == 409
    assert f"{old} was redriven as {new}, with another definition or payload" in other.text


async def test_where_a_workflow_is_taken_up_again(http: AsyncClient, runtime: ManualRuntime) -> None:
    body = {
        "steps": [
            {"name": "a", "function": "work", "payload": {"n": 0}},
            {
                "name": "b",
                "function": "work",
                "payload": {"n": 1},
                "after": ["a"],
                "retry": {"max_retries": 0},
            },
        ]
    }
    job = (await http.post("/api/v1/jobs", json={"name": "flow", "workflow": body})).json()
    worker = await runtime.worker()

    async def work() -> None:
        for _ in range(6):
            for name in ("flow_starts", "flows"):
                await runtime.services[name].tick(runtime.clock.now())
            await worker.work()

    submitted = await http.post(f"/api/v1/jobs/{job['job_id']}/runs", json={})
    old = submitted.json()["run_id"]
    await work()
    assert runtime.seen == [0, 1]  # type: ignore[attr-defined]
    url = f"/api/v1/runs/{old}/redrive"
    for given, words in (
        ("middle", "from: must be 'failed', 'start' or a list of steps' names, not 'middle'"),
        ([], "from: names no step"),
        (["c"], "from[0]: there is no step 'c'"),
        (7, "from"),
    ):
        answer = await http.post(url, json={"from": given})
        assert (answer.status_code, words in answer.text) == (422, True), answer.text
    answer = await http.post(url, json={"from": ["b"]})
    assert answer.status_code == 201
    await work()
    assert runtime.seen == [0, 1, 1]  # type: ignore[attr-defined]
    steps = (await http.get(f"/api/v1/runs/{answer.json()['run_id']}/steps")).json()
    assert [one["reason"] for one in steps["items"]] == [f"taken over from {old}", "retries_exhausted"]
    dead = [one["run_id"] for one in steps["items"] if one["run_id"]]
    refused = await http.post(f"/api/v1/runs/{dead[0]}/redrive")
    assert (refused.status_code, "redrive that run" in refused.text) == (409, True)


async def test_the_definition_is_the_newest_or_the_one_of_the_run(
    http: AsyncClient, runtime: ManualRuntime
) -> None:
    one = await make_run(http, runtime)
    job_id = (await http.get(f"/api/v1/runs/{one}")).json()["job_id"]
    edited = await http.patch(f"/api/v1/jobs/{job_id}", json={"queue": "mail"})
    assert edited.json()["version"] == 2
    kept = await http.post(f"/api/v1/runs/{one}/redrive", json={"definition": "kept"})
    run = (await http.get(f"/api/v1/runs/{kept.json()['run_id']}")).json()
    assert (run["job_version"], run["queue"]) == (1, "default")
    await (await runtime.worker()).work()
    newest = await http.post(f"/api/v1/runs/{run['run_id']}/redrive")
    run = (await http.get(f"/api/v1/runs/{newest.json()['run_id']}")).json()
    assert (run["job_version"], run["queue"]) == (2, "mail")


async def test_a_cancelled_run_is_run_again(http: AsyncClient, runtime: ManualRuntime) -> None:
    await make_run(http, runtime, 0)
    job = (await http.get("/api/v1/jobs?name=pay")).json()["items"][0]["job_id"]
    waiting = (await http.post(f"/api/v1/jobs/{job}/runs", json={"delay": "1h"})).json()["run_id"]
    refused = await http.post(f"/api/v1/runs/{waiting}/redrive")
    assert (refused.status_code, f"{waiting} has not ended; it is PENDING" in refused.text) == (409, True)
    await http.post(f"/api/v1/runs/{waiting}/cancel")
    assert (await http.post(f"/api/v1/runs/{waiting}/redrive")).status_code == 201
    await (await runtime.worker()).work()
    assert runtime.seen == [0, 0]  # type: ignore[attr-defined]


async def test_what_cannot_be_run_again_is_refused_with_a_reason(
    http: AsyncClient, runtime: ManualRuntime
) -> None:
    done = await make_run(http, runtime, 0)
    refused = await http.post(f"/api/v1/runs/{done}/redrive")
    assert refused.status_code == 409
    assert "only FAILED and CANCELLED runs are redriven" in refused.text
    wrong = await http.post(f"/api/v1/runs/{done}/redrive", json={"definition": "latest"})
    assert (wrong.status_code, "definition" in wrong.text) == (422, True)
    assert (await http.post("/api/v1/runs/run_0000000000zzz/redrive")).status_code == 404
    foreign = await http.post(f"/api/v1/runs/{done}/redrive", headers={"Mainspring-Tenant": "other"})
    assert foreign.status_code == 404


async def test_a_run_of_a_deleted_job_cannot_be_run_again(http: AsyncClient, runtime: ManualRuntime) -> None:
    old = await make_run(http, runtime)
    job = (await http.get(f"/api/v1/runs/{old}")).json()["job_id"]
    await http.delete(f"/api/v1/jobs/{job}")
    refused = await http.post(f"/api/v1/runs/{old}/redrive")
    assert (refused.status_code, "was deleted" in refused.text) == (409, True)


async def test_own_priority_of_a_run_stays_its_own(http: AsyncClient, runtime: ManualRuntime) -> None:
    await make_run(http, runtime, 0)
    job = (await http.get("/api/v1/jobs?name=pay")).json()["items"][0]["job_id"]
    urgent = await http.post(f"/api/v1/jobs/{job}/runs", json={"priority": "HIGH", "payload": {"n": 3}})
    await (await runtime.worker()).work()
    again = await http.post(f"/api/v1/runs/{urgent.json()['run_id']}/redrive")
    run = (await http.get(f"/api/v1/runs/{again.json()['run_id']}")).json()
    assert run["priority"] == "HIGH"


async def test_a_rule_about_submissions_does_not_hold_a_redrive_back(
    http: AsyncClient, runtime: ManualRuntime
) -> None:
    old = await make_run(http, runtime, unique={"key": "$.n"})
    answer = await http.post(f"/api/v1/runs/{old}/redrive")
    assert (answer.status_code, answer.json()["is_new"]) == (201, True)


async def test_a_redrive_stands_in_the_line_of_its_job(http: AsyncClient, runtime: ManualRuntime) -> None:
    old = await make_run(http, runtime, overlap="queue_all")
    again = (await http.post(f"/api/v1/runs/{old}/redrive", json={"payload": {"n": 0}})).json()["run_id"]
    await (await runtime.worker()).work()
    assert (await http.get(f"/api/v1/runs/{again}")).json()["status"] == "SUCCEEDED"
