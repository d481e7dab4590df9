"""Whatever the description allows, and what it does not, gets an answer that the description tells."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from mainspring.registry import FunctionRegistry
from mainspring.testing.manual import ManualRuntime
from tests.unit.api.asgi import HERE, client_of
from tests.unit.api.serving import make_api

CHECKS: list[Any] = [
    not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
]
EXAMPLES = 20


def make_runtime() -> ManualRuntime:
    registry = FunctionRegistry()
    registry.add("work", lambda **_: "done")
    return ManualRuntime(registry)


class Blocking:
    """Asks an API from outside of an event loop; everything is carried out on one loop of its own."""

    def __init__(self, runner: asyncio.Runner, runtime: ManualRuntime) -> None:
        self._run = runner.run
        self._run(runtime.store.open())
        self._http = client_of(make_api(runtime))

    def ask(self, method: str, url: str, **given: Any) -> httpx.Response:
        return self._run(self._http.request(method, url, **given))


def read_schema() -> dict[str, Any]:
    with asyncio.Runner() as runner:
        schema: dict[str, Any] = Blocking(runner, make_runtime()).ask("GET", "/openapi.json").json()
    return schema


SCHEMA = schemathesis.openapi.from_dict(read_schema())


@pytest.fixture(scope="module")
def ids() -> dict[str, str]:
    return {}


@pytest.fixture(scope="module")
def client(ids: dict[str, str]) -> Iterator[Blocking]:
    with asyncio.Runner() as runner:
        client = Blocking(runner, make_runtime())
        job = {"name": "report", "cron": "0 9 * * *", "function": "work", "payload": {"a": [1, None]}}
        ids["job_id"] = client.ask("POST", "/api/v1/jobs", json=job).json()["job_id"]
        ids["run_id"] = client.ask("POST", f"/api/v1/jobs/{ids['job_id']}/runs").json()["run_id"]
        ids["tenant"] = "acme"
        ids["limit"] = "crm"
        ids["class"] = "night"
        ids["queue"] = "mail"
        ids["label"] = "gpu"
        ids["calendar"] = "holidays"
        ids["owner"] = "shop"
        client.ask("PUT", "/api/v1/calendars/holidays", json={"rules": [{"yearly": "12-25"}]})
        body = {"from": "2025-11-01T00:00Z", "to": "2025-12-01T00:00Z"}
        made = client.ask("POST", f"/api/v1/jobs/{ids['job_id']}/backfills", json=body).json()
        ids["backfill_id"] = made["backfill"]["backfill_id"]
        ids["account"], ids["token"] = "ann", "k3v9q2xa"
        ids["redrive_id"] = f"redrive_{'0' * 26}"
        ids["rule"], ids["channel"], ids["alert_id"], ids["silence_id"] = "many", "ops", "1", "1"
        body = {"every": "1h"}
        made = client.ask("PUT", "/api/v1/monitors/dump", json=body).json()
        slo = {"kind": "success", "objective": 0.99}
        assert client.ask("PUT", "/api/v1/slos/good", json=slo).status_code == 201
        ids["slo"] = "good"
        ids["artifact_id"] = f"art_{'0' * 13}"
        ids["monitor"], ids["key"] = "dump", made["ping_path"].rpartition("/")[2]
        yield client


@pytest.mark.timeout(240)  # an operation whose body has many fields takes long on a busy machine
@SCHEMA.parametrize()
@settings(
    max_examples=EXAMPLES,
    phases=[Phase.explicit, Phase.generate],
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_answers_are_as_described(
    case: schemathesis.Case[Any], client: Blocking, ids: dict[str, str]
) -> None:
    if len(case.id) and case.id[-1] in "02468":  # half of them about what exists
        for name in case.path_parameters or {}:
            case.path_parameters[name] = ids[name]
    # httpx names a raw body differently from requests, and no operation takes cookies.
    names = {
        "method": "method",
        "url": "url",
        "headers": "headers",
        "params": "params",
        "json": "json",
        "data": "content",
    }
    given = case.as_transport_kwargs(base_url=HERE)
    wanted = {names[name]: value for name, value in given.items() if name in names and value is not None}
    # A header's bytes stand for Latin-1 (RFC 9110, 5.5), which httpx leaves to its callers.
    wanted["headers"] = [(name, value.encode("latin-1")) for name, value in wanted["headers"].items()]
    answer = client.ask(**wanted)
    case.validate_response(Response.from_any(answer), checks=CHECKS)
