"""Tenants over HTTP: whom a request acts for, and what is set for them."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import AsyncClient

from mainspring.testing.manual import ManualRuntime

ACME = {"Mainspring-Tenant": "acme"}


async def test_a_request_acts_for_the_tenant_that_it_names(http: AsyncClient, job: dict[str, Any]) -> None:
    body = {"name": "report", "function": "work"}
    answer = await http.post("/api/v1/jobs", json=body, headers=ACME)
    assert answer.status_code == 201, answer.text
    own = answer.json()["job_id"]
    run = await http.post(f"/api/v1/jobs/{own}/runs", headers=ACME)
    assert run.status_code == 201
    listed = await http.get("/api/v1/jobs", headers=ACME)
    assert [item["job_id"] for item in listed.json()["items"]] == [own]
    assert [item["job_id"] for item in (await http.get("/api/v1/jobs")).json()["items"]] == [job["job_id"]]
    for path in (f"/api/v1/jobs/{own}", f"/api/v1/runs/{run.json()['run_id']}"):
        assert (await http.get(path, headers=ACME)).status_code == 200
        assert (await http.get(path)).status_code == 404
        assert (await http.get(path, headers={"Mainspring-Tenant": "other"})).status_code == 404


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "ümlaut", "a/b"])
async def test_what_cannot_be_a_tenant_is_refused(http: AsyncClient, name: str) -> None:
    answer = await http.get("/api/v1/jobs", headers=[(b"Mainspring-Tenant", name.encode())])
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "Mainspring-Tenant"


UNSET = {
    "reserved": 0,
    "max_running": None,
    "running": None,
    "max_queued": None,
    "max_jobs": None,
    "submit_rate": None,
}


async def test_a_share_is_set_and_shown(http: AsyncClient) -> None:
    assert (await http.get("/api/v1/tenants")).json() == {"items": [], "next": None}
    assert (await http.get("/api/v1/tenants/acme")).json() == {"name": "acme", "weight": 1, **UNSET}
    first = await http.put("/api/v1/tenants/acme", json={"weight": 7})
    assert (first.status_code, first.json()) == (201, {"name": "acme", "weight": 7, **UNSET})
    again = await http.put("/api/v1/tenants/acme", json={"weight": 3})
    assert (again.status_code, again.json()) == (200, {"name": "acme", "weight": 3, **UNSET})
    assert (await http.get("/api/v1/tenants/acme")).json() == {"name": "acme", "weight": 3, **UNSET}
    reset = await http.put("/api/v1/tenants/acme", json={})
    assert (reset.status_code, reset.json()) == (200, {"name": "acme", "weight": 1, **UNSET})


async def test_a_reserve_is_set_and_shown(http: AsyncClient) -> None:
    answer = await http.put("/api/v1/tenants/acme", json={"reserved": 10})
    assert answer.json() == {"name": "acme", "weight": 1, **UNSET, "reserved": 10}
    assert (await http.get("/api/v1/tenants")).json()["items"][0]["reserved"] == 10
    assert (await http.put("/api/v1/tenants/acme", json={"weight": 2})).json()["reserved"] == 0


async def test_tenants_are_listed_page_by_page(http: AsyncClient) -> None:
    for name in ("shop", "acme", "mill"):
        await http.put(f"/api/v1/tenants/{name}", json={"weight": 2})
    first = (await http.get("/api/v1/tenants", params={"limit": 2})).json()
    assert [item["name"] for item in first["items"]] == ["acme", "mill"]
    rest = (await http.get("/api/v1/tenants", params={"limit": 2, "after": first["next"]})).json()
    assert ([item["name"] for item in rest["items"]], rest["next"]) == (["shop"], None)


@pytest.mark.parametrize(
    "body",
    [
        {"weight": 0},
        {"weight": 1001},
        {"weight": "7"},
        {"weight": None},
        {"wait": 1},
        {"reserved": -1},
        {"reserved": 100_001},
        {"reserved": 1.5},
        {"reserved": None},
    ],
)
async def test_a_wrong_share_is_refused_and_nothing_is_stored(
    http: AsyncClient, runtime: ManualRuntime, body: dict[str, Any]
) -> None:
    answer = await http.put("/api/v1/tenants/acme", json=body)
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == list(body)
    policies = await runtime.store.read_policies()
    assert policies is not None
    assert policies.tenants == {}


async def test_a_name_that_cannot_be_a_tenants_is_refused(http: AsyncClient) -> None:
    answer = await http.put("/api/v1/tenants/a%20b", json={"weight": 1})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "tenant")
