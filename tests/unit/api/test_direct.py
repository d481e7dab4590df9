"""Routes that are answered without the framework answer as it does."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import Response
from litestar import Litestar
from litestar.testing import AsyncTestClient

HEADERS = {"content-type": "application/json"}
BODIES = [
    b'{"name": "hook", "callback_url": "https://example.com/hook", "payload": {"n": 1.5}}',
    b'{"name": "hook", "cron": "*/5 * * * *", "function": "work"}',
    b'{"name": "hook", "run_at": "2020-01-01T00:00:00Z", "function": "work"}',
    b'{"name": "hook", "function": "unknown"}',
    b'{"nmae": "hook"}',
    b"{",
    b"[]",
    b"",
    b"[" * 100,
    b" " * (1024 * 1024 + 1),
]


async def ask(http: AsyncTestClient[Litestar], path: str, body: bytes, **headers: str) -> Response:
    return await http.post(path, content=body, headers={**HEADERS, **headers})


def told(response: Response) -> tuple[int, dict[str, str], Any]:
    """Return what must be the same; ids, instants and the path differ."""
    names = ("content-type", "retry-after")
    headers = {name: response.headers[name] for name in names if name in response.headers}
    assert response.headers["content-length"] == str(len(response.content))
    body = response.json()
    for name in ("job_id", "run_id", "created_at", "updated_at", "instance"):
        body.pop(name, None)
    return response.status_code, headers, body


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
async def test_job_is_created_as_by_the_framework(http: AsyncTestClient[Litestar], body: bytes) -> None:
    direct = await ask(http, "/api/v1/jobs", body)
    if direct.status_code == 201:
        await http.delete(f"/api/v1/jobs/{direct.json()['job_id']}")
    assert told(direct) == told(await ask(http, "/api/v1/jobs/", body))


@pytest.mark.parametrize("body", [b"{}", b'{"payload": [1]}', b'{"delay": "no"}', b'{"x": 1}'])
async def test_run_is_submitted_as_by_the_framework(http: AsyncTestClient[Litestar], body: bytes) -> None:
    job = await ask(http, "/api/v1/jobs", BODIES[0])
    path = f"/api/v1/jobs/{job.json()['job_id']}/runs"
    assert told(await ask(http, path, body)) == told(await ask(http, f"{path}/", body))


async def test_repeated_key_is_answered_as_by_the_framework(http: AsyncTestClient[Litestar]) -> None:
    job = await ask(http, "/api/v1/jobs", BODIES[0])
    path = f"/api/v1/jobs/{job.json()['job_id']}/runs"
    first = await ask(http, path, b"{}", **{"idempotency-key": "k"})
    again = [await ask(http, each, b"{}", **{"idempotency-key": "k"}) for each in (path, f"{path}/")]
    assert first.status_code == 202
    assert [each.status_code for each in again] == [200, 200]
    assert {each.json()["run_id"] for each in again} == {first.json()["run_id"]}
    assert (await ask(http, path, b'{"payload": 1}', **{"idempotency-key": "k"})).status_code == 409


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/api/v1/jobs?after=x", {}, 422),
        ("/api/v1/jobs/job_1/runs", {}, 404),
        ("/api/v1/jobs//runs", {}, 405),
        ("/api/v1/jobs", {"host": "evil.example"}, 403),
        ("/api/v1/jobs", {"origin": "https://evil.example"}, 403),
        ("/api/v1/jobs", {"content-type": "text/plain"}, 415),
    ],
)
async def test_what_is_not_plain_is_refused_as_before(
    http: AsyncTestClient[Litestar], path: str, headers: dict[str, str], status: int
) -> None:
    response = await ask(http, path, BODIES[0], **headers)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
