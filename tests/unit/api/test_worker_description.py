"""What the API description says of the worker protocol is what a worker is answered, errors among it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from httpx import AsyncClient
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from mainspring.errors import StoreUnavailable
from mainspring.testing.manual import ManualRuntime
from tests.unit.api.asgi import client_of
from tests.unit.api.serving import PromptGateway, make_api

CHECKS: list[Any] = [
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]
VERBS = ["register", "claim", "beat", "report", "leave"]
RUN = "run_00000000001yf"
MINIMAL: dict[str, dict[str, Any]] = {
    "register": {"protocol": 2, "name": "described"},
    "claim": {"session_id": "ses_1", "number": 1, "limit": 1},
    "beat": {"session_id": "ses_1"},
    "report": {"session_id": "ses_1", "reports": [{"run_id": RUN, "token": 1, "outcome": "success"}]},
    "leave": {"session_id": "ses_1"},
}


class Described:
    """Makes calls, and holds every answer against the description."""

    def __init__(self, http: AsyncClient, description: dict[str, Any]) -> None:
        self.http = http
        self.description = description
        self._operations = schemathesis.openapi.from_dict(description)

    async def ask(
        self, method: str, route: str, status: int, body: object = None, *, of: str = "", **given: Any
    ) -> Any:
        """Send a call and return its answer, which is one that the description lists by its status.

        `of` is the id that stands in the route.
        """
        names = dict.fromkeys(re.findall(r"\{(\w+)\}", route), of)
        sent = given if body is None else {"json": body, **given}
        answer: httpx.Response = await self.http.request(method, route.format(**names), **sent)
        assert answer.status_code == status, answer.text
        assert str(status) in self.description["paths"][route][method.lower()]["responses"]
        case = self._operations[route][method].Case(path_parameters=names)
        case.validate_response(Response.from_any(answer), checks=CHECKS)
        return answer.json() if answer.content else None

    async def call(self, verb: str, status: int = 200, body: object = None, **given: Any) -> Any:
        """Send one of a worker's calls."""
        return await self.ask("POST", f"/api/v1/worker/{verb}", status, body, **given)


@pytest.fixture
async def api(runtime: ManualRuntime) -> AsyncIterator[Described]:
    async with client_of(make_api(runtime)) as http:
        yield Described(http, (await http.get("/openapi.json")).json())


def resolve(description: dict[str, Any], shape: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in shape:
        shape = description["components"]["schemas"][shape["$ref"].rpartition("/")[2]]
    return shape


def fields(description: dict[str, Any], shape: dict[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    """Yield every field below a shape with its path."""
    shape = resolve(description, shape)
    for name, inner in shape.get("properties", {}).items():
        yield f"{where}.{name}", inner
        yield from fields(description, inner, f"{where}.{name}")
    if shape.get("type") == "array":
        yield from fields(description, shape["items"], f"{where}[]")


@pytest.mark.parametrize("verb", VERBS)
async def test_every_field_of_the_protocol_is_explained(api: Described, verb: str) -> None:
    operation = api.description["paths"][f"/api/v1/worker/{verb}"]["post"]
    body = operation["requestBody"]["content"]["application/json"]["schema"]
    found = list(fields(api.description, body, verb))
    for status, answer in operation["responses"].items():
        if status in {"200", "201"}:
            shape = answer["content"]["application/json"]["schema"]
            assert set(resolve(api.description, shape)["required"]) == set(
                resolve(api.description, shape)["properties"]
            )
            found += fields(api.description, shape, f"answer of {verb}")
    assert found
    assert [where for where, shape in found if not shape.get("description")] == []


async def test_words_of_the_protocol_are_listed(api: Described) -> None:
    schemas = api.description["components"]["schemas"]
    outcomes = schemas["ReportItem"]["properties"]["outcome"]["enum"]
    assert outcomes == ["success", "failure", "snooze", "handed_back", "stopped"]
    assert schemas["ReportView"]["properties"]["results"]["items"]["enum"] == ["applied", "stale", "missing"]
    for outcome in outcomes:
        report = {"run_id": RUN, "token": 1, "outcome": outcome, "delay_seconds": 1}
        await api.call("report", 200, {"session_id": "ses_1", "reports": [report]})
    assert schemas["LeaseView"]["properties"]["is_cancel_requested"]["type"] == "boolean"
    assert "is_cancel_requested" in schemas["LeaseView"]["required"]


async def test_life_of_a_worker_is_as_described(api: Described) -> None:
    offer = {**MINIMAL["register"], "host": "here", "pid": 4711, "slots": 2, "functions": ["work"]}
    session = {"session_id": (await api.call("register", 201, offer))["session_id"]}
    empty = await api.call("claim", 200, {**session, "number": 1, "limit": 1, "is_idle": True})
    assert (empty["leases"], empty["definitions"]) == ([], [])

    body = {"name": "described", "function": "work", "payload": {"x": [1, None]}}
    job_id = (await api.ask("POST", "/api/v1/jobs", 201, body))["job_id"]
    route = "/api/v1/jobs/{job_id}/runs"
    for _ in range(4):
        await api.ask("POST", route, 201, of=job_id)
    claim = {**session, "number": 2, "limit": 2}
    answer = await api.call("claim", 200, claim)
    first, second = answer["leases"]
    assert len(answer["definitions"]) == 1
    assert first["payload"] == {"x": [1, None]}
    route = "/api/v1/runs/{run_id}/cancel"
    await api.ask("POST", route, 200, of=second["run_id"])
    assert [lease["is_cancel_requested"] for lease in (await api.call("claim", 200, claim))["leases"]] == [
        False,
        True,
    ]

    keys = [{"run_id": lease["run_id"], "token": lease["token"]} for lease in (first, second)]
    foreign = {"run_id": RUN, "token": 7}
    told = await api.call("beat", 200, {**session, "held": [*keys, foreign], "answered": 2})
    assert told == {"is_session_live": True, "lost": [foreign], "cancel": [keys[1]], "preempt": []}

    success = {**keys[0], "outcome": "success", "result": {"ä": [None, 0.5]}, "output": "done\n"}
    stopped = {**keys[1], "outcome": "stopped", "error": "asked to", "output": None}
    stale = {**keys[0], "token": 9, "outcome": "failure", "error": "?", "retry_after_seconds": 1}
    missing = {**foreign, "outcome": "handed_back", "was_started": False}
    reports = {**session, "reports": [success, stopped, stale, missing]}
    assert (await api.call("report", 200, reports))["results"] == ["applied", "applied", "stale", "missing"]
    assert await api.call("leave", 204, session) is None
    dead = await api.call("claim", 200, {**session, "number": 3, "limit": 1})
    assert dead["is_session_live"] is False
    assert (await api.call("beat", 200, session))["is_session_live"] is False


@pytest.mark.parametrize("verb", VERBS)
async def test_errors_of_a_call_are_as_described(
    api: Described, verb: str, runtime: ManualRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    json_type = {"content-type": "application/json"}
    body = MINIMAL[verb]
    await api.call(verb, 400, content=b"{", headers=json_type)
    await api.call(verb, 403, body, headers={"host": "example.org"})
    await api.call(verb, 413, content=b" " * 5_000_000 + b"{}", headers=json_type)
    await api.call(verb, 415, content=b"<a/>", headers={"content-type": "text/xml"})
    refused = await api.call(verb, 422, {**body, "surprise": 1})
    assert refused["errors"][0]["field"] == "surprise"

    async def fail(*args: object, **named: object) -> None:
        raise errors.pop()

    errors: list[Exception] = [StoreUnavailable("gone"), RuntimeError("a fault")]
    # What the gateway asks the store for, whichever verb it is.
    monkeypatch.setattr(PromptGateway, verb, fail)
    await api.call(verb, 500, body)
    await api.call(verb, 503, body)


async def test_conflicts_and_what_is_missing_are_as_described(api: Described) -> None:
    job = {"name": "described", "cron": "0 9 * * *", "callback_url": "https://example.com/"}
    job_id = (await api.ask("POST", "/api/v1/jobs", 201, job))["job_id"]
    await api.ask("POST", "/api/v1/jobs", 409, job)
    route = "/api/v1/jobs/{job_id}/runs"
    key = {"Idempotency-Key": "order-17"}
    await api.ask("POST", route, 201, {"payload": 1}, of=job_id, headers=key)
    await api.ask("POST", route, 200, {"payload": 1}, of=job_id, headers=key)
    await api.ask("POST", route, 409, {"payload": 2}, of=job_id, headers=key)
    for method, route in (
        ("GET", "/api/v1/jobs/{job_id}"),
        ("DELETE", "/api/v1/jobs/{job_id}"),
        ("POST", "/api/v1/jobs/{job_id}/pause"),
        ("POST", "/api/v1/jobs/{job_id}/runs"),
        ("GET", "/api/v1/runs/{run_id}"),
        ("POST", "/api/v1/runs/{run_id}/cancel"),
    ):
        await api.ask(method, route, 404, of=RUN if "run_id" in route else "job_01m7yv7wr6e6nrt8p6jmm2gz6f")
