"""What the admission step does for every request, whatever it asks for."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest
import structlog

from mainspring.api.principals import identify_anybody
from mainspring.api.routing import Routes
from mainspring.core.ids import DEFAULT_TENANT
from mainspring.core.rights import ALL_RIGHTS, Principal, Right
from mainspring.testing.manual import ManualRuntime
from mainspring.wire.operation import Operation
from mainspring.wire.operations import OPERATIONS
from tests.unit.api.asgi import api_of, client_of

JOBS = "/api/v1/jobs"
HOOK = {"name": "hook", "callback_url": "https://example.com/hook"}


def url_of(operation: Operation[Any]) -> str:
    return operation.url("x" if operation.variable else None)


# -- paths and methods -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [f"{JOBS}/", "/api//v1/jobs", f"{JOBS}//"])
async def test_further_slashes_change_nothing(http: httpx.AsyncClient, path: str) -> None:
    assert (await http.post(path, json=HOOK)).status_code == 201
    assert (await http.get(JOBS)).json()["items"][0]["name"] == "hook"


@pytest.mark.parametrize("path", ["/", "/api", "/api/v1", f"{JOBS}/a/b", f"{JOBS}/a/runs/b", "/favicon.ico"])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "HEAD"])
async def test_nothing_there_is_a_problem(http: httpx.AsyncClient, method: str, path: str) -> None:
    answer = await http.request(method, path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    if method != "HEAD":
        assert answer.json()["detail"] == f"there is nothing at {path}; see /openapi.json"


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        (JOBS, "GET, OPTIONS, POST, PUT"),
        (f"{JOBS}/x", "DELETE, GET, OPTIONS, PATCH, PUT"),
        (f"{JOBS}/bulk", "OPTIONS, POST"),
        (f"{JOBS}//runs", "DELETE, GET, OPTIONS, PATCH, PUT"),
        ("/health", "GET, OPTIONS"),
        ("/openapi.json", "GET, OPTIONS"),
    ],
)
async def test_other_methods_are_told_which_there_are(
    http: httpx.AsyncClient, path: str, methods: str
) -> None:
    for method in {"HEAD", "POST", "PATCH", "TRACE"} - set(methods.split(", ")):
        answer = await http.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, methods)
        if method != "HEAD":
            assert answer.json()["detail"] == f"{method} is not allowed here; see /openapi.json"
    options = await http.request("OPTIONS", path)
    assert (options.status_code, options.headers["allow"], options.content) == (204, methods, b"")


def test_path_beside_all_patterns_is_not_found() -> None:
    routes = Routes([])
    assert routes.find("/health") is None


# -- request ids -------------------------------------------------------------------------------------------------------


async def test_request_id_is_given_back_and_stands_in_problems(http: httpx.AsyncClient) -> None:
    headers = {"x-request-id": "trace/17.a:b"}
    found = await http.get(JOBS, headers=headers)
    missing = await http.get("/nowhere", headers=headers)
    assert found.headers["x-request-id"] == missing.headers["x-request-id"] == "trace/17.a:b"
    assert missing.json()["request_id"] == "trace/17.a:b"


@pytest.mark.parametrize("given", [None, "", "a b", "x" * 129, 'a"b', "ä".encode("latin-1")])
async def test_request_id_is_made_where_none_can_be_used(
    http: httpx.AsyncClient, given: str | bytes | None
) -> None:
    headers = None if given is None else {"x-request-id": given}
    first, second = [await http.get("/nowhere", headers=headers) for _ in range(2)]  # type: ignore[arg-type]
    for answer in (first, second):
        assert answer.headers["x-request-id"].startswith("req_")
        assert answer.json()["request_id"] == answer.headers["x-request-id"]
    assert first.headers["x-request-id"] != second.headers["x-request-id"]


async def test_log_of_a_fault_tells_the_request_id(runtime: ManualRuntime) -> None:
    async def fail() -> None:
        raise RuntimeError("a fault")

    with structlog.testing.capture_logs() as logs:
        async with client_of(api_of(runtime, ping=fail)) as http:
            answer = await http.get("/health", headers={"x-request-id": "abc"})
    assert answer.status_code == 500
    assert "a fault" not in answer.text
    (entry,) = [entry for entry in logs if entry["event"] == "request_failed"]
    assert (entry["request_id"], entry["path"]) == ("abc", "/health")
    assert str(entry["exc_info"]) == "a fault"


# -- rights ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
async def test_operation_takes_its_right_and_no_other(
    runtime: ManualRuntime, operation: Operation[Any]
) -> None:
    def status_with(rights: frozenset[Right]) -> Any:
        principal = Principal(name="somebody", tenant=DEFAULT_TENANT, rights=rights, shared_rights=rights)
        return ask(api_of(runtime, identify=lambda _: principal))

    async def ask(api: Any) -> int:
        async with client_of(api) as http:
            answer = await http.request(operation.method, url_of(operation), content=b"[")
        if answer.status_code == 403:
            assert (
                answer.json()["detail"] == f"somebody may not do this: it needs the right '{operation.right}'"
            )
        return answer.status_code

    assert await status_with(ALL_RIGHTS - {operation.right}) == 403
    assert await status_with(frozenset({operation.right})) != 403


@pytest.mark.parametrize(
    ("wanted", "field", "setting"),
    [
        ({"rate": "51/s"}, "rate", "`backfill.rate`, 50/s"),
        ({"rate": "4000/m"}, "rate", "`backfill.rate`, 50/s"),
        ({"max_live": 101}, "max_live", "`backfill.max_live`, 100"),
        ({"max_live": 101, "dry_run": True}, "max_live", "`backfill.max_live`, 100"),
    ],
)
async def test_a_backfill_above_the_settings_needs_another_right(
    runtime: ManualRuntime, job: dict[str, Any], wanted: dict[str, Any], field: str, setting: str
) -> None:
    def with_rights(rights: frozenset[Right]) -> Any:
        principal = Principal(name="somebody", tenant=DEFAULT_TENANT, rights=rights, shared_rights=rights)
        return api_of(runtime, identify=lambda _: principal)

    now = runtime.clock.now()
    body = {"from": (now - timedelta(days=3)).isoformat(), "to": now.isoformat()}
    path = f"/api/v1/jobs/{job['job_id']}/backfills"
    async with client_of(with_rights(ALL_RIGHTS - {Right.ADMIN})) as http:
        refused = await http.post(path, json=body | wanted)
        assert refused.status_code == 403
        [error] = refused.json()["errors"]
        assert error["field"] == field
        assert f"above the setting {setting}; only callers with the right 'admin'" in error["message"]
        assert (await http.get("/api/v1/backfills")).json()["items"] == []
        taken = await http.post(path, json=body | {"rate": "3000/m", "max_live": 100, "dry_run": True})
        assert taken.status_code == 200
    async with client_of(with_rights(ALL_RIGHTS)) as http:
        assert (await http.post(path, json=body | wanted)).status_code in {200, 202}


async def test_work_is_done_for_the_principals_tenant(runtime: ManualRuntime) -> None:
    other = replace(identify_anybody({}), tenant="other")
    async with (
        client_of(api_of(runtime)) as mine,
        client_of(api_of(runtime, identify=lambda _: other)) as theirs,
    ):
        job = (await mine.post(JOBS, json=HOOK)).json()["job_id"]
        assert (await theirs.get(JOBS)).json()["items"] == []
        assert (await theirs.get(f"{JOBS}/{job}")).status_code == 404
        assert (await mine.get(f"{JOBS}/{job}")).status_code == 200


@pytest.mark.parametrize("path", [JOBS, "/health", "/openapi.json", "/nowhere"])
@pytest.mark.parametrize("method", ["GET", "OPTIONS", "TRACE"])
async def test_stranger_is_told_nothing_whatever_is_asked(
    http: httpx.AsyncClient, method: str, path: str
) -> None:
    answer = await http.request(method, path, headers={"host": "evil.example"})
    assert answer.status_code == 403


# -- what is refused before a handler ----------------------------------------------------------------------------------


async def test_body_is_read_in_pieces_up_to_its_limit(http: httpx.AsyncClient) -> None:
    async def pieces(count: int) -> Any:
        yield b'{"name": "hook", "callback_url": "https://example.com/hook"'
        for _ in range(count):
            yield b" " * 1000
        yield b"}"

    headers = {"content-type": "application/json"}
    assert (await http.post(JOBS, content=pieces(1000), headers=headers)).status_code == 201
    answer = await http.post(JOBS, content=pieces(1100), headers=headers)
    assert (answer.status_code, answer.json()["detail"]) == (413, "the body has more than 1048576 bytes")


async def test_body_that_is_cut_off_stores_nothing(runtime: ManualRuntime, http: httpx.AsyncClient) -> None:
    sent: list[dict[str, Any]] = []
    events = iter([{"type": "http.request", "body": b"{}", "more_body": True}, {"type": "http.disconnect"}])

    async def receive() -> Any:
        return next(events)

    async def send(event: Any) -> None:
        sent.append(event)

    scope = {"type": "http", "method": "POST", "path": JOBS, "query_string": b"", "headers": []}
    await api_of(runtime)(scope, receive, send)
    assert sent[0]["status"] == 400
    assert b"closed before the whole body arrived" in sent[1]["body"]


BODILESS = [operation for operation in OPERATIONS if operation.body is None]


@pytest.mark.parametrize("operation", BODILESS, ids=lambda operation: operation.id)
@pytest.mark.parametrize(
    ("content", "detail"),
    [
        (
            b'{"until": "tomorrow"}',
            "this operation takes no body, so there is no field 'until'; send no body",
        ),
        (
            b'{"a\\u0000b": 1, "c": 2}',
            "this operation takes no body, so there is no field 'a\\x00b'; send no body",
        ),
        (b"until tomorrow", "this operation takes no body; send none"),
        (b"[]", "this operation takes no body; send none"),
        (b"null", "this operation takes no body; send none"),
        (b"\xff", "this operation takes no body; send none"),
        (b"[" * 100_000, "this operation takes no body; send none"),
        (b" ", "this operation takes no body; send none"),
    ],
    ids=["field", "odd field", "text", "list", "null", "not UTF-8", "deep", "blank"],
)
async def test_body_is_refused_where_the_operation_takes_none(
    http: httpx.AsyncClient, operation: Operation[Any], content: bytes, detail: str
) -> None:
    query = {parameter.name: "* * * * *" for parameter in operation.query if parameter.is_required}
    answer = await http.request(operation.method, url_of(operation), params=query, content=content)
    assert (answer.status_code, answer.json()["detail"]) == (400, detail)


@pytest.mark.parametrize("content", [b"", b"{}", b" { } "])
async def test_body_that_says_nothing_counts_as_none(http: httpx.AsyncClient, content: bytes) -> None:
    job_id = (await http.post(JOBS, json=HOOK)).json()["job_id"]
    assert (await http.post(f"{JOBS}/{job_id}/pause", content=content)).json()["is_paused"] is True
    assert (await http.request("DELETE", f"{JOBS}/{job_id}", content=content)).status_code == 200


async def test_body_beyond_the_limit_is_not_read_even_where_the_operation_takes_none(
    http: httpx.AsyncClient,
) -> None:
    answer = await http.request("GET", JOBS, content=b" " * 2_000_000)
    assert (answer.status_code, answer.json()["detail"]) == (413, "the body has more than 1048576 bytes")


async def test_body_in_pieces_is_refused_where_the_operation_takes_none(http: httpx.AsyncClient) -> None:
    async def pieces() -> Any:
        for piece in (b"{", b'"until": ', b'"tomorrow"}'):
            yield piece

    job_id = (await http.post(JOBS, json=HOOK)).json()["job_id"]
    answer = await http.post(f"{JOBS}/{job_id}/pause", content=pieces())
    assert answer.status_code == 400
    assert "'until'" in answer.json()["detail"]
    assert (await http.get(f"{JOBS}/{job_id}")).json()["is_paused"] is False


# -- headers that are given twice --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("Host", ("localhost", "evil.example")),
        ("Host", ("localhost", "localhost")),
        ("Origin", ("http://localhost", "http://evil.example")),
        ("Idempotency-Key", ("a", "b")),
        ("Content-Type", ("application/json", "text/plain")),
        ("Content-Length", ("2", "3")),
    ],
)
async def test_header_that_is_given_twice_is_refused_by_name(
    runtime: ManualRuntime, name: str, values: tuple[str, str]
) -> None:
    sent: list[dict[str, Any]] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"{}"}

    async def send(event: Any) -> None:
        sent.append(event)

    headers = [(b"x-request-id", b"abc"), *((name.lower().encode(), value.encode()) for value in values)]
    scope = {"type": "http", "method": "POST", "path": JOBS, "query_string": b"", "headers": headers}
    await api_of(runtime)(scope, receive, send)
    assert sent[0]["status"] == 400
    problem = json.loads(sent[1]["body"])
    assert problem["detail"] == f"the header {name} is given twice; give it once"
    assert problem["request_id"] == "abc"


async def test_other_headers_may_be_given_twice(http: httpx.AsyncClient) -> None:
    headers = [("x-request-id", "a"), ("x-request-id", "b"), ("accept", "a/b"), ("accept", "c/d")]
    answer = await http.get(JOBS, headers=headers)
    assert (answer.status_code, answer.headers["x-request-id"]) == (200, "a")


# -- timing and the end ------------------------------------------------------------------------------------------------


async def test_observer_is_told_of_every_request_once(runtime: ManualRuntime) -> None:
    seen: list[tuple[str, int, float]] = []
    api = api_of(runtime, observe=lambda *facts: seen.append(facts))
    async with client_of(api) as http:
        await http.post(JOBS, json=HOOK)
        await http.get(f"{JOBS}?limit=0")
        await http.get("/nowhere")
        await http.get(JOBS, headers={"host": "evil.example"})
    assert [(operation, status) for operation, status, _ in seen] == [
        ("create_job", 201),
        ("list_jobs", 422),
        ("", 404),
        ("", 403),
    ]
    assert all(0 <= seconds < 60 for _, _, seconds in seen)


async def test_request_that_the_stop_cuts_off_is_told_to_come_back(runtime: ManualRuntime) -> None:
    asked = asyncio.Event()

    async def wait() -> None:
        asked.set()
        await asyncio.Event().wait()

    async with client_of(api_of(runtime, ping=wait)) as http:
        request = asyncio.create_task(http.get("/health"))
        await asked.wait()
        request.cancel()
        answer = await request
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["detail"] == "the server is stopping; try again"


async def test_key_in_a_header_is_the_same_text_as_in_a_body(http: httpx.AsyncClient) -> None:
    job_id = (await http.post(JOBS, json=HOOK)).json()["job_id"]
    for key in ("señal-9", "ключ1"):
        alone = await http.post(f"{JOBS}/{job_id}/runs", headers=[(b"Idempotency-Key", key.encode())])
        assert alone.status_code == 201, alone.text
        again = await http.post("/api/v1/runs/bulk", json=[{"job": "hook", "idempotency_key": key}])
        assert again.json()[0]["run_id"] == alone.json()["run_id"]


async def test_header_that_is_not_utf_8_is_read_all_the_same(http: httpx.AsyncClient) -> None:
    job_id = (await http.post(JOBS, json=HOOK)).json()["job_id"]
    headers = [(b"Idempotency-Key", "señal".encode("latin-1"))]
    ids = [(await http.post(f"{JOBS}/{job_id}/runs", headers=headers)).json()["run_id"] for _ in range(2)]
    assert ids[0] == ids[1]
