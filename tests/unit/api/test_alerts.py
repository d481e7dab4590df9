"""Rules, channels and silences over HTTP: whose they are, who may set them, what is shown, and what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from httpx import AsyncClient

from mainspring.core.rates import parse_rate
from mainspring.registry import FunctionRegistry
from mainspring.testing.manual import ManualRuntime
from tests.unit.api.asgi import api_of, client_of

RULE = "/api/v1/alert-rules/many"
CHANNEL = "/api/v1/channels/ops"
HOOK: dict[str, Any] = {"kind": "webhook", "config": {"url": "https://hooks.example.com/secret?key=secret"}}
MANY: dict[str, Any] = {"kind": "dead_letters"}


@pytest.fixture
async def runtime() -> AsyncIterator[ManualRuntime]:
    async with ManualRuntime(FunctionRegistry()) as runtime:
        yield runtime


@pytest.fixture
async def http(runtime: ManualRuntime) -> AsyncIterator[AsyncClient]:
    async with client_of(api_of(runtime)) as http:
        yield http


def of(tenant: str) -> dict[str, str]:
    return {"mainspring-tenant": tenant}


async def names(http: AsyncClient, what: str, tenant: str = "default", scope: str = "tenant") -> list[str]:
    answer = await http.get(f"/api/v1/{what}?scope={scope}", headers=of(tenant))
    return [one["name"] for one in answer.json()["items"]]


async def test_a_rule_is_set_shown_and_deleted(http: AsyncClient) -> None:
    await http.put(CHANNEL, json=HOOK)
    body = {
        **MANY,
        "queue": "mail",
        "threshold": 7,
        "hold": "2m",
        "channels": ["ops"],
        "severity": "critical",
    }
    made = await http.put(RULE, json=body)
    assert made.status_code == 201
    assert made.json() == {
        "name": "many",
        "tenant": "default",
        "kind": "dead_letters",
        "queue": "mail",
        "threshold": 7,
        "period_seconds": None,
        "hold_seconds": 120,
        "severity": "critical",
        "channels": ["ops"],
        "enabled": True,
        "is_default": False,
    }
    assert (await http.get(RULE)).json() == made.json()
    assert (await http.put(RULE, json=MANY)).status_code == 200
    usual = (await http.get(RULE)).json()
    assert (usual["threshold"], usual["hold_seconds"], usual["severity"]) == (100, 60, "warning")
    assert (await http.delete(RULE)).json() == {"deleted": True}
    assert (await http.get(RULE)).status_code == (await http.delete(RULE)).status_code == 404


async def test_tenants_have_rules_channels_and_silences_of_their_own(http: AsyncClient) -> None:
    for path, body in ((RULE, MANY), (CHANNEL, HOOK)):
        await http.put(path, json=body, headers=of("shop"))
    await http.post("/api/v1/silences", json={"period": "1h", "reason": "x"}, headers=of("shop"))
    assert await names(http, "alert-rules", "shop") == ["many"]
    assert await names(http, "channels", "shop") == ["ops"]
    assert await names(http, "alert-rules") == await names(http, "channels") == []
    assert (await http.get("/api/v1/silences")).json() == {"items": []}
    assert (await http.delete("/api/v1/silences/1")).status_code == 404
    assert "ops" not in await names(http, "channels", scope="cluster")


async def test_the_rules_of_the_cluster_are_there_from_the_start(http: AsyncClient) -> None:
    assert "no_workers" in await names(http, "alert-rules", scope="cluster")
    answer = await http.delete("/api/v1/alert-rules/no_workers?scope=cluster")
    assert answer.status_code == 409
    changed = await http.put("/api/v1/alert-rules/no_workers?scope=cluster", json={"enabled": False})
    assert (changed.json()["kind"], changed.json()["enabled"]) == ("no_workers", False)


async def test_a_channel_shows_nothing_that_may_be_secret(http: AsyncClient) -> None:
    made = await http.put(
        CHANNEL, json={**HOOK, "config": {**HOOK["config"], "headers": {"X-Key": "secret"}}}
    )
    assert made.json()["config"] == {"url": "https://hooks.example.com/***", "headers": {"X-Key": "***"}}
    assert "secret" not in (await http.get(CHANNEL)).text
    assert "secret" not in (await http.get("/api/v1/channels")).text


async def test_a_server_that_delivers_nothing_says_so(http: AsyncClient) -> None:
    await http.put(CHANNEL, json=HOOK)
    assert (await http.post(f"{CHANNEL}/test")).status_code == 409


async def test_channels_are_tested_no_more_often_than_their_rate_allows(runtime: ManualRuntime) -> None:
    async with client_of(api_of(runtime, test_rate=parse_rate("2/m"))) as http:
        await http.put(CHANNEL, json=HOOK)
        tries = [await http.post(f"{CHANNEL}/test") for _ in range(3)]
        assert [one.status_code for one in tries] == [409, 409, 429]
        assert tries[2].json()["errors"][0]["field"] == "channels.test_rate"
        runtime.clock.advance(30)
        assert (await http.post(f"{CHANNEL}/test")).status_code == 409


async def test_ten_tests_a_minute_are_usual(http: AsyncClient) -> None:
    tries = [(await http.post(f"{CHANNEL}/test")).status_code for _ in range(11)]
    assert tries == [404] * 10 + [429]


async def test_a_silence_is_made_and_ended(http: AsyncClient) -> None:
    body = {"period": "2h", "reason": "moving", "rule": "many", "subject": "queue:*"}
    made = await http.post("/api/v1/silences", json=body)
    assert made.status_code == 201
    silence = made.json()
    assert (silence["rule"], silence["subject"], silence["reason"]) == ("many", "queue:*", "moving")
    assert (await http.get("/api/v1/silences")).json() == {"items": [silence]}
    assert (await http.delete(f"/api/v1/silences/{silence['silence_id']}")).json() == {"deleted": True}
    assert (await http.get("/api/v1/silences")).json() == {"items": []}


@pytest.mark.parametrize(
    ("method", "path", "body", "field", "said"),
    [
        ("PUT", RULE, {}, "kind", "is missing"),
        ("PUT", RULE, {"kind": "odd"}, "kind", "must be one of dead_letters, no_workers"),
        ("PUT", RULE, {**MANY, "treshold": 1}, "treshold", "did you mean 'threshold'?"),
        ("PUT", RULE, {**MANY, "threshold": -1}, "threshold", "-1 is not between 0 and"),
        ("PUT", RULE, {**MANY, "period": "5m"}, "period", "a rule of kind dead_letters judges by no period"),
        ("PUT", RULE, {**MANY, "channels": ["opps"]}, "channels[0]", "there is no channel 'opps'"),
        ("PUT", RULE, {"kind": "no_workers"}, "kind", "let it be a shared rule"),
        ("PUT", f"{RULE}?scope=all", MANY, "scope", "must be tenant or cluster"),
        ("PUT", "/api/v1/alert-rules/a%20b", MANY, "rule", "must be 1 to 64 of"),
        (
            "PUT",
            "/api/v1/alert-rules/no_workers?scope=cluster",
            MANY,
            "kind",
            "the rule 'no_workers' watches no_workers; give it another name",
        ),
        ("PUT", CHANNEL, {"config": {}}, "kind", "is missing"),
        ("PUT", CHANNEL, {"kind": "webhook"}, "config", "is missing"),
        ("PUT", CHANNEL, {"kind": "fax", "config": {}}, "kind", "must be one of webhook, slack"),
        ("PUT", CHANNEL, {"kind": "webhook", "config": {}}, "config.url", "is missing"),
        ("PUT", CHANNEL, {**HOOK, "repeat": 1}, "repeat", "must be between 1m and 30d"),
        ("POST", "/api/v1/silences", {"reason": "x"}, "period", "is missing"),
        ("POST", "/api/v1/silences", {"period": "soon", "reason": "x"}, "period", "'90s', '5m', '1h30m'"),
        ("POST", "/api/v1/silences", {"period": "1h"}, "reason", "is missing"),
        ("POST", "/api/v1/silences", {"period": "1h", "reason": ""}, "reason", "1 to 500 characters"),
        (
            "POST",
            "/api/v1/silences",
            {"period": "1h", "reason": "x", "from_time": "2001-01-01T00:00Z"},
            "from_time",
            "the silence would be over already",
        ),
        ("GET", "/api/v1/alerts?state=bad", None, "state", "must be one of open, firing, resolved"),
        ("GET", "/api/v1/alerts?before=x", None, "before", "is not an alert's id like 17"),
    ],
)
async def test_what_is_wrong_is_named(
    http: AsyncClient, method: str, path: str, body: Any, field: str, said: str
) -> None:
    answer = await http.request(method, path, json=body)
    assert answer.status_code == 422, answer.text
    [error] = answer.json()["errors"]
    assert error["field"] == field
    assert said in error["message"]


async def test_ids_that_are_none_are_not_found(http: AsyncClient) -> None:
    assert (await http.post("/api/v1/alerts/x/acknowledge")).status_code == 404
    assert (await http.post("/api/v1/alerts/7/acknowledge")).status_code == 404
    assert (await http.delete("/api/v1/silences/7")).status_code == 404
