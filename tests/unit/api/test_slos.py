"""Objectives over HTTP: they are set, count what is on record, and are a tenant's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from mainspring.core.usage import BOUNDS, Times, Usage, UsageLine, UsageStep
from mainspring.ports.telemetry import Distribution
from mainspring.registry import FunctionRegistry
from mainspring.testing.manual import ManualRuntime
from tests.unit.api.asgi import api_of, client_of

SLO = "/api/v1/slos/quick"
START = {"kind": "start", "queue": "mail", "objective": 0.9, "bound": "5s", "days": 10}
HOUR = timedelta(hours=1)


@pytest.fixture
async def runtime() -> AsyncIterator[ManualRuntime]:
    async with ManualRuntime(FunctionRegistry()) as runtime:
        yield runtime


@pytest.fixture
async def http(runtime: ManualRuntime) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(api_of(runtime)) as client:
        yield client


def starts(values: list[float]) -> Usage:
    distribution = Distribution(BOUNDS)
    distribution.add_all(values)
    return Usage(lags=Times(counts=distribution.read().counts, total=sum(values)))


async def record(
    runtime: ManualRuntime, usage: Usage, *, queue: str = "mail", tenant: str = "default"
) -> None:
    """Store usage of this minute and of its hour."""
    now = runtime.clock.now()
    for step in UsageStep:
        line = UsageLine(at=step.start_of(now), tenant=tenant, queue=queue, usage=usage)
        if step is UsageStep.MINUTE:
            await runtime.store.write_usage([line], process="p")
        else:
            epochs = {0: runtime.ownership.epochs[0]}
            assert await runtime.store.write_usage_hours([line], epochs=epochs)


async def test_an_objective_is_set_shown_replaced_and_deleted(http: httpx.AsyncClient) -> None:
    made = await http.put(SLO, json=START)
    assert made.status_code == 201, made.text
    shown = (await http.get(SLO)).json()
    assert shown == made.json()
    assert (shown["name"], shown["kind"], shown["queue"], shown["bound_seconds"]) == (
        "quick",
        "start",
        "mail",
        5,
    )
    assert (shown["share"], shown["budget_left"], shown["exhausted_at"]) == (None, 1, None)
    changed = await http.put(SLO, json={"kind": "success", "objective": 0.99})
    assert (changed.status_code, changed.json()["days"], changed.json()["queue"]) == (200, 30, None)
    assert [one["name"] for one in (await http.get("/api/v1/slos")).json()["items"]] == ["quick"]
    assert (await http.delete(SLO)).status_code == 200
    assert (await http.delete(SLO)).status_code == 404
    assert (await http.get(SLO)).status_code == 404


async def test_an_objective_counts_what_is_on_record(http: httpx.AsyncClient, runtime: ManualRuntime) -> None:
    runtime.clock.advance(10 * 86_400)
    await record(runtime, starts([0.1] * 99 + [10.0]))
    await record(runtime, starts([10.0] * 100), queue="web")
    runtime.clock.advance(7 * 3600)
    await record(runtime, starts([0.1] * 70 + [10.0] * 30))
    shown = (await http.put(SLO, json=START)).json()
    assert shown["within_days"] == {"total": 200, "bad": 31, "burn_rate": 1.55}
    assert shown["within_hour"] == shown["within_six_hours"] == {"total": 100, "bad": 30, "burn_rate": 3}
    assert (shown["share"], shown["budget_left"]) == (0.845, -0.55)
    assert shown["exhausted_at"] is not None
    everything = (await http.put("/api/v1/slos/all", json={**START, "queue": None})).json()
    assert everything["within_days"]["total"] == 300
    days = (await http.put("/api/v1/slos/short", json={**START, "days": 1})).json()
    assert days["within_days"]["total"] == 200
    runtime.clock.advance(86_400 + 3600)
    items = (await http.get("/api/v1/slos")).json()["items"]
    assert [one["within_days"]["total"] for one in items] == [300, 200, 0]


async def test_objectives_of_other_tenants_are_out_of_reach(
    http: httpx.AsyncClient, runtime: ManualRuntime
) -> None:
    await http.put(SLO, json=START)
    await record(runtime, starts([10.0] * 50))
    other = {"Mainspring-Tenant": "bank"}
    assert (await http.get(SLO, headers=other)).status_code == 404
    assert (await http.delete(SLO, headers=other)).status_code == 404
    assert (await http.get("/api/v1/slos", headers=other)).json() == {"items": []}
    made = await http.put(SLO, json=START, headers=other)
    assert (made.status_code, made.json()["within_days"]["total"]) == (201, 0)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({**START, "bound": "7s"}, "bound"),
        ({**START, "objective": 99}, "objective"),
        ({**START, "kind": "odd"}, "kind"),
        ({"kind": "start"}, "objective"),
    ],
)
async def test_wrong_objectives_are_refused(
    http: httpx.AsyncClient, body: dict[str, Any], field: str
) -> None:
    answer = await http.put(SLO, json=body)
    assert answer.status_code == 422, answer.text
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert (await http.get(SLO)).status_code == 404
    assert (await http.put("/api/v1/slos/a%20b", json=START)).status_code == 422


async def test_a_tenant_has_so_many_objectives_at_most(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.engine.usecases.objectives.MOST_OBJECTIVES", 1)
    await http.put(SLO, json=START)
    assert (await http.put("/api/v1/slos/more", json=START)).status_code == 409
    assert (await http.put(SLO, json=START)).status_code == 200
