"""What runs once, over HTTP: statuses of answers, alone and among many."""

from __future__ import annotations

from typing import Any

import msgspec
from httpx import AsyncClient

from mainspring.wire.views import JobView


async def make_job(http: AsyncClient, **fields: Any) -> str:
    answer = await http.post("/api/v1/jobs", json={"name": "sync", "function": "work", **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["job_id"])


async def submit(http: AsyncClient, job_id: str, key: str = "", **payload: Any) -> tuple[int, dict[str, Any]]:
    headers = {"Idempotency-Key": key} if key else {}
    answer = await http.post(f"/api/v1/jobs/{job_id}/runs", json={"payload": payload}, headers=headers)
    return answer.status_code, answer.json()


async def test_answer_says_which_run_there_is(http: AsyncClient) -> None:
    job_id = await make_job(http, unique={"key": "$.order"})
    status, first = await submit(http, job_id, "a", order=1)
    assert (status, first["is_new"], first["status"]) == (201, True, "submitted")
    held = {"run_id": first["run_id"], "is_new": False, "status": "existing"}
    assert await submit(http, job_id, "b", order=1) == (200, held)
    assert await submit(http, job_id, "b", order=1) == (200, held)
    assert await submit(http, job_id, "a", order=1) == (200, {**first, "is_new": False})


async def test_rejected_run_answers_409(http: AsyncClient) -> None:
    job_id = await make_job(http, unique={"key": "$.order", "on_conflict": "reject"})
    _, first = await submit(http, job_id, order=1)
    status, problem = await submit(http, job_id, order=1)
    assert status == 409
    [error] = problem["errors"]
    assert error["field"] == "unique"
    assert first["run_id"] in error["message"]


async def test_missing_part_answers_422_with_its_path(http: AsyncClient) -> None:
    job_id = await make_job(http, throttle={"key": "$.customer.id", "limit": 1, "per": "1h"})
    status, problem = await submit(http, job_id, customer={})
    assert status == 422
    message = "is missing; throttle.key needs it"
    assert problem["errors"] == [{"field": "payload.customer.id", "message": message}]


async def test_many_answer_alike(http: AsyncClient) -> None:
    await make_job(http, unique={"key": "$.order", "scope": "queued", "on_conflict": "replace"})
    items = [
        {"job": "sync", "payload": {"order": 1, "text": text}, "idempotency_key": key}
        for text, key in (("a", "a"), ("b", "b"), ("b", "b"), ("a", "a"))
    ]
    answer = await http.post("/api/v1/runs/bulk", json=items)
    assert answer.status_code == 200, answer.text
    results = answer.json()
    assert [result["status"] for result in results] == ["submitted", "replaced", "replaced", "duplicate"]
    assert len({result["run_id"] for result in results}) == 1
    run = await http.get(f"/api/v1/runs/{results[0]['run_id']}")
    assert run.json()["payload"] == {"order": 1, "text": "b"}


async def test_rejected_among_many_is_a_status(http: AsyncClient) -> None:
    await make_job(http, unique={"on_conflict": "reject"})
    items = [{"job": "sync", "payload": payload} for payload in (1, 1, 2)]
    results = (await http.post("/api/v1/runs/bulk", json=items)).json()
    assert [result["status"] for result in results] == ["submitted", "rejected", "submitted"]


async def test_rule_is_shown_in_full_form(http: AsyncClient) -> None:
    job_id = await make_job(http, debounce={"wait": "5s"})
    shown = (await http.get(f"/api/v1/jobs/{job_id}")).json()
    assert shown["debounce"] == {"key": None, "wait_seconds": 5, "max_wait_seconds": None}
    assert (shown["unique"], shown["throttle"]) == (None, None)


async def test_client_reads_a_job_of_a_server_that_does_not_know_the_rules(http: AsyncClient) -> None:
    job_id = await make_job(http)
    shown = (await http.get(f"/api/v1/jobs/{job_id}")).json()
    for rule in ("unique", "debounce", "throttle"):
        assert shown.pop(rule) is None
    read = msgspec.json.decode(msgspec.json.encode(shown), type=JobView)
    assert (read.unique, read.debounce, read.throttle) == (None, None, None)
