"""Refusals for the time being, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import AsyncClient

from mainspring.core.rates import parse_rate
from mainspring.testing.manual import ManualRuntime
from tests.unit.api.asgi import api_of, client_of


async def put(http: AsyncClient, runtime: ManualRuntime, path: str, body: dict[str, Any]) -> None:
    answer = await http.put(f"/api/v1/{path}", json=body)
    assert answer.status_code in {200, 201}, answer.text
    await runtime.tick("policies")


async def test_a_full_queue_answers_429_and_says_when_to_come_again(
    http: AsyncClient, runtime: ManualRuntime, job: dict[str, Any]
) -> None:
    await put(http, runtime, "queues/default", {"max_queued": 1})
    path = f"/api/v1/jobs/{job['job_id']}/runs"
    assert (await http.post(path)).status_code == 201
    runtime.clock.advance(1)
    for refused in (await http.post(path), await http.post("/api/v1/runs/bulk", json=[{"job": "report"}])):
        problem = refused.json()
        assert (refused.status_code, problem["title"]) == (429, "Too Many Requests")
        assert problem["errors"] == [
            {"field": "max_queued", "message": "1 run of queue 'default' waits, and its max_queued is 1"}
        ]
        assert refused.headers["retry-after"] == str(problem["retry_after_seconds"])
        assert 1 <= problem["retry_after_seconds"] <= 60
    assert len((await http.get("/api/v1/runs")).json()["items"]) == 1


async def test_a_wrong_submission_is_told_so_even_if_the_queue_is_full(
    http: AsyncClient, runtime: ManualRuntime, job: dict[str, Any]
) -> None:
    await put(http, runtime, "queues/default", {"max_queued": 1})
    path = f"/api/v1/jobs/{job['job_id']}/runs"
    await http.post(path)
    runtime.clock.advance(1)
    assert (await http.post(path, json={"delay": "soon"})).status_code == 422
    assert (await http.post(path, json={})).status_code == 429


async def test_a_rate_that_is_used_up_answers_429(
    http: AsyncClient, runtime: ManualRuntime, job: dict[str, Any]
) -> None:
    await put(http, runtime, "tenants/default", {"submit_rate": "1/m"})
    path = f"/api/v1/jobs/{job['job_id']}/runs"
    assert (await http.post(path)).status_code == 201
    runtime.clock.advance(20)
    refused = await http.post(path)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "40")
    assert refused.json()["errors"][0]["field"] == "submit_rate"


async def test_one_job_too_many_answers_409(
    http: AsyncClient, runtime: ManualRuntime, job: dict[str, Any]
) -> None:
    await put(http, runtime, "tenants/default", {"max_jobs": 1})
    body = {"name": "second", "function": "work"}
    for refused in (
        await http.post("/api/v1/jobs", json=body),
        await http.put("/api/v1/jobs", json=body),
        await http.post("/api/v1/jobs/bulk", json=[body]),
    ):
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (409, "max_jobs")
    assert len((await http.get("/api/v1/jobs")).json()["items"]) == 1


async def test_why_is_asked_no_more_often_than_its_rate_allows(
    runtime: ManualRuntime, job: dict[str, Any]
) -> None:
    async with client_of(api_of(runtime, why_rate=parse_rate("2/s"))) as http:
        run_id = (await http.post(f"/api/v1/jobs/{job['job_id']}/runs")).json()["run_id"]
        path = f"/api/v1/runs/{run_id}/why"
        assert [(await http.get(path)).status_code for _ in range(3)] == [200, 200, 429]
        refused = await http.get(path)
        assert (refused.headers["retry-after"], refused.json()["errors"][0]["field"]) == ("1", "why.rate")
        assert "asks more often than why.rate allows, 2/s" in refused.json()["detail"]
        assert (await http.get(f"/api/v1/runs/{run_id}")).status_code == 200
        runtime.clock.advance(0.5)
        assert (await http.get(path)).status_code == 200


async def test_twenty_questions_a_second_are_usual(http: AsyncClient, job: dict[str, Any]) -> None:
    run_id = (await http.post(f"/api/v1/jobs/{job['job_id']}/runs")).json()["run_id"]
    answers = [(await http.get(f"/api/v1/runs/{run_id}/why")).status_code for _ in range(21)]
    assert answers == [200] * 20 + [429]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("queues/mail", {"max_queued": 0}, "max_queued"),
        ("queues/mail", {"expires_after": "0s"}, "expires_after"),
        ("tenants/acme", {"max_queued": "many"}, "max_queued"),
        ("tenants/acme", {"max_jobs": 0}, "max_jobs"),
        ("tenants/acme", {"submit_rate": "500 a second"}, "submit_rate"),
    ],
)
async def test_wrong_caps_are_refused(http: AsyncClient, path: str, body: dict[str, Any], field: str) -> None:
    answer = await http.put(f"/api/v1/{path}", json=body)
    assert (answer.status_code, [error["field"] for error in answer.json()["errors"]]) == (422, [field])


async def test_caps_are_shown_and_null_takes_them_away(http: AsyncClient) -> None:
    body = {"max_queued": 50, "max_jobs": 9, "submit_rate": "500/s"}
    shown = (await http.put("/api/v1/tenants/acme", json=body)).json()
    assert shown == {"name": "acme", "weight": 1, "reserved": 0, "max_running": None, "running": None, **body}
    queue = (await http.put("/api/v1/queues/mail", json={"max_queued": 7, "expires_after": "1d"})).json()
    assert (queue["max_queued"], queue["expires_after_seconds"]) == (7, 86400)
    queue = (await http.put("/api/v1/queues/mail", json={"max_queued": None})).json()
    assert (queue["max_queued"], queue["expires_after_seconds"]) == (None, None)
