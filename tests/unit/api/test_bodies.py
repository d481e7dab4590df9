"""Bodies and addresses that no well-meaning client sends: a clear 4xx, never a traceback, nothing stored."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import AsyncClient
from openapi_spec_validator import validate

from mainspring.core.ids import RunId, format_run_id
from mainspring.errors import StoreUnavailable
from mainspring.ports.store import FailoverFacts
from mainspring.testing.factories import at
from mainspring.testing.manual import ManualRuntime
from tests.unit.api.asgi import api_of, client_of

Http = AsyncClient
JOBS = "/api/v1/jobs"
JSON = {"content-type": "application/json"}

BODIES: list[tuple[int, bytes]] = [
    (400, b"{"),
    (400, b'{"name": NaN}'),
    (400, b'{"name": "\xff\xfe"}'),
    (400, b"not json"),
    (422, b"[]"),
    (422, b'"text"'),
    (422, b"null"),
    (422, b"{}"),
    (422, b'{"name": "x", "function": "work", "payload": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    (422, b'{"name": "x", "function": "work", "payload": ' + b"[" * 70 + b"]" * 70 + b"}"),
    (422, b'{"name": "\\ud800", "function": "work"}'),
    (413, b'{"name": "x", "function": "work", "payload": "' + b"a" * 70_000 + b'"}'),
    (413, b'{"name": "' + b"a" * 2_000_000 + b'"}'),
]


@pytest.mark.parametrize(
    ("status", "body"), BODIES, ids=[f"{status}-{body[:24]!r}" for status, body in BODIES]
)
async def test_bad_body_is_a_problem_and_nothing_is_stored(http: Http, status: int, body: bytes) -> None:
    answer = await http.post(JOBS, content=body, headers=JSON)
    assert answer.status_code in {status, 400 if b"ud800" in body else status}, answer.text[:500]
    assert answer.headers["content-type"] == "application/problem+json"
    assert "Traceback" not in answer.text
    assert (await http.get(JOBS)).json()["items"] == []


async def test_payload_within_the_limits_is_kept_exactly(http: Http) -> None:
    payload = {"big": 2**63, "text": "Grüße 🚀\u2028", "deep": [[[[1.5, None, True]]]], "empty": {}}
    job = (await http.post(JOBS, json={"name": "x", "function": "work", "payload": payload})).json()
    assert job["payload"] == payload
    assert (await http.get(f"{JOBS}/{job['job_id']}")).json()["payload"] == payload


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/api/v1/jobs/job_nonsense", 404),
        ("GET", "/api/v1/jobs/..%2f..%2fetc", 404),
        ("GET", "/api/v1/runs/run_zzzzzzzzzzzzz", 404),
        ("DELETE", "/api/v1/jobs", 405),
        ("GET", "/api/v1/jobs?limit=0", 422),
        ("GET", "/api/v1/jobs?limit=many", 422),
        ("GET", "/api/v1/jobs?limit=5&limit=6", 422),
        ("GET", "/api/v1/jobs?page=2", 422),
        ("GET", "/api/v1/jobs?after=xyz", 422),
        ("GET", "/api/v1/runs?state=DONE", 422),
        ("GET", "/api/v1/runs?before=job_1", 422),
        ("GET", "/api/v1/cron/next", 404),
        ("GET", "/api/v1/calendars/none", 404),
        ("GET", "/api/v1/calendars/none/days", 404),
        ("GET", "/api/v1/calendars/none/versions", 404),
    ],
)
async def test_bad_address_is_a_problem(http: Http, method: str, path: str, status: int) -> None:
    answer = await http.request(method, path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status


async def test_other_content_type_is_refused(http: Http) -> None:
    answer = await http.post(
        JOBS, content=b"name=x", headers={"content-type": "application/x-www-form-urlencoded"}
    )
    assert answer.status_code == 415


async def test_store_that_does_not_answer_is_503(runtime: ManualRuntime) -> None:
    async def unavailable() -> None:
        raise StoreUnavailable("gone")

    async with client_of(api_of(runtime, ping=unavailable)) as http:
        answer = await http.get("/health")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


async def test_health_shows_what_failovers_have_cost(runtime: ManualRuntime) -> None:
    facts = FailoverFacts(
        noticed_at=at(0),
        from_timeline=1,
        to_timeline=2,
        last_position=0x1_0300_0148,
        shared_position=0x1_0300_0048,
        missing_wal=256,
        runs_checked=40,
        are_all_checked=True,
        runs_lost=1,
        lost_run_ids=(RunId(256),),
    )
    async with client_of(api_of(runtime, failovers=lambda: [facts])) as http:
        body = (await http.get("/health")).json()
    assert body["status"] == "ok"
    assert body["failovers"] == [
        {
            "noticed_at": at(0).isoformat().replace("+00:00", "Z"),
            "from_timeline": 1,
            "to_timeline": 2,
            "last_position": "1/3000148",
            "shared_position": "1/3000048",
            "missing_wal_bytes": 256,
            "runs_checked": 40,
            "are_all_checked": True,
            "runs_lost": 1,
            "lost_run_ids": [format_run_id(RunId(256))],
        }
    ]


async def test_health(http: Http) -> None:
    body = (await http.get("/health")).json()
    assert body["status"] == "ok"
    assert (body["access"], body["failovers"]) == ("loopback", [])
    assert body["scheduler"] == {
        "shards": 256,
        "nodes": 1,
        "refusal": None,
        "clock_skew": 0.0,
        "tzdata": "test",
        "recorded_tzdata": "test",
        "taken": 256,
        "released": 0,
        "fenced": 0,
    }


async def test_openapi_is_valid_and_complete(http: Http) -> None:
    schema: dict[str, Any] = (await http.get("/openapi.json")).json()
    validate(schema)
    assert schema["openapi"].startswith("3.1")
    operations = [
        operation
        for path in schema["paths"].values()
        for operation in path.values()
        if isinstance(operation, dict) and "operationId" in operation
    ]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names)) >= 25
    assert all(operation.get("summary") and operation.get("description") for operation in operations)


async def test_preview_of_a_cron_expression(http: Http) -> None:
    answer = await http.post(
        "/api/v1/triggers/preview",
        params={"count": 2, "from": "2026-03-07T12:00:00Z"},
        json={"cron": "30 2 * * *", "tz": "America/New_York"},
    )
    fires = answer.json()["fires"]
    assert [fire["fire_at"] for fire in fires] == ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"]
    assert [fire["dst"] for fire in fires] == ["gap", None]
    assert answer.json()["explanation"] == "at 02:30, every day (America/New_York)"
