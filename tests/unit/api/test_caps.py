"""Caps of queues, tenants and labels, and limits that all tenants share, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import AsyncClient

from mainspring.core.ids import parse_run_id
from mainspring.core.limits import CLUSTER
from mainspring.testing.manual import ManualRuntime

JOB = {"name": "send", "function": "work", "queue": "mail", "labels": ["gpu"]}
CAPPED = {"queue_full": "/queues/mail", "tenant_full": "/tenants/default", "label_full": "/labels/gpu"}


async def submit(http: AsyncClient, job: dict[str, Any], count: int, tenant: str = "default") -> list[str]:
    headers = {"Mainspring-Tenant": tenant}
    created = await http.post("/api/v1/jobs", json=job, headers=headers)
    assert created.status_code == 201, created.text
    job_id = created.json()["job_id"]
    answers = [await http.post(f"/api/v1/jobs/{job_id}/runs", json={}, headers=headers) for _ in range(count)]
    return [answer.json()["run_id"] for answer in answers]


@pytest.mark.parametrize("target", CAPPED.values())
async def test_a_cap_is_set_shown_and_listed(http: AsyncClient, target: str) -> None:
    noun, name = target.split("/")[1:]
    for most, status in ((40, 201), (4, 200)):
        put = await http.put(f"/api/v1{target}", json={"max_running": most})
        assert (put.status_code, put.json()["max_running"], put.json()["running"]) == (status, most, 0)
    shown = (await http.get(f"/api/v1{target}")).json()
    assert (shown["name"], shown["max_running"], shown["running"]) == (name, 4, 0)
    assert (await http.get(f"/api/v1/{noun}")).json() == {"items": [shown], "next": None}
    unset = await http.put(f"/api/v1{target}", json={})
    assert (unset.json()["max_running"], unset.json()["running"]) == (None, None)


@pytest.mark.parametrize("target", CAPPED.values())
@pytest.mark.parametrize("most", [0, -1, "4", 1.5, 100_001])
async def test_a_wrong_cap_is_refused_and_nothing_is_stored(
    http: AsyncClient, runtime: ManualRuntime, target: str, most: Any
) -> None:
    answer = await http.put(f"/api/v1{target}", json={"max_running": most})
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == ["max_running"]
    found = await runtime.store.read_restrictions()
    assert found is not None
    assert (found.epoch, bool(found.caps)) == (0, False)


async def test_labels_are_listed_page_by_page_and_deleted(http: AsyncClient) -> None:
    for name in ("gpu", "arm", "big"):
        await http.put(f"/api/v1/labels/{name}", json={"max_running": 1})
    first = (await http.get("/api/v1/labels", params={"limit": 2})).json()
    assert [item["name"] for item in first["items"]] == ["arm", "big"]
    rest = (await http.get("/api/v1/labels", params={"limit": 2, "after": first["next"]})).json()
    assert ([item["name"] for item in rest["items"]], rest["next"]) == (["gpu"], None)
    for _ in range(2):
        assert (await http.delete("/api/v1/labels/gpu")).status_code == 200
    assert (await http.get("/api/v1/labels/gpu")).json() == {
        "name": "gpu",
        "max_running": None,
        "running": None,
    }
    refused = await http.put("/api/v1/labels/a%20b", json={"max_running": 1})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "label")


@pytest.mark.parametrize("code", CAPPED)
async def test_a_run_says_which_cap_it_waits_for(
    http: AsyncClient, runtime: ManualRuntime, code: str
) -> None:
    await http.put(f"/api/v1{CAPPED[code]}", json={"max_running": 1})
    first, _, third = await submit(http, JOB, 3)
    worker = await runtime.worker(labels=("gpu",))
    await runtime.tick("restrictions")
    assert [lease.run_id for lease in await worker.claim()] == [parse_run_id(first)]
    why = (await http.get(f"/api/v1/runs/{third}/why")).json()
    assert (why["code"], why["run_ids"], why["ahead"]) == (code, [first], 1)
    noun, name = CAPPED[code].split("/")[1:]
    taken = f"1 of 1 places of {noun[:-1]} {name!r} are taken by {first}; 1 waits before it."
    assert why["sentence"] == taken
    assert (await http.get(f"/api/v1{CAPPED[code]}")).json()["running"] == 1


async def test_runs_of_other_tenants_are_counted_and_not_named(
    http: AsyncClient, runtime: ManualRuntime
) -> None:
    await http.put("/api/v1/queues/mail", json={"max_running": 1})
    await submit(http, JOB, 1, "acme")
    worker = await runtime.worker(labels=("gpu",))
    await runtime.tick("restrictions")
    assert len(await worker.claim()) == 1
    [mine] = await submit(http, JOB, 1)
    why = (await http.get(f"/api/v1/runs/{mine}/why")).json()
    assert why["run_ids"] == []
    assert why["sentence"] == (
        "1 of 1 places of queue 'mail' are taken by runs of other tenants; it is the next one."
    )


async def test_a_limit_of_the_cluster_is_shared_by_all_tenants(
    http: AsyncClient, runtime: ManualRuntime
) -> None:
    body = {"max_running": 2, "rate": "10/s"}
    job = {"name": "send", "function": "work", "concurrency": [{"use": "crm"}]}
    unknown = await http.post("/api/v1/jobs", json=job)
    assert unknown.json()["errors"][0]["field"] == "concurrency[0].use"
    cluster = {"scope": "cluster"}
    put = await http.put("/api/v1/limits/crm", json=body, params=cluster)
    assert (put.status_code, put.json()["max_running"]) == (201, 2)
    assert (await http.get("/api/v1/limits")).json()["items"] == []
    assert (await http.get("/api/v1/limits/crm")).status_code == 404
    assert (await http.get("/api/v1/limits/crm", params=cluster)).json() == put.json()
    assert (await http.get("/api/v1/limits", params=cluster)).json()["items"] == [put.json()]
    runs = [run for tenant in ("acme", "default") for run in await submit(http, job, 2, tenant)]
    worker = await runtime.worker()
    assert len([*await worker.claim(), *await worker.claim()]) == 2
    keys = (await http.get("/api/v1/limits/crm/keys", params=cluster)).json()["items"]
    assert keys[0]["held"] == 2
    waiting = [run for run in runs if run not in keys[0]["run_ids"]]
    whys = [
        await http.get(f"/api/v1/runs/{run}/why", headers={"Mainspring-Tenant": tenant})
        for run in waiting
        for tenant in ("acme", "default")
    ]
    codes = [why.json()["code"] for why in whys if why.status_code == 200]
    assert set(codes) <= {"key_full", "rate"}
    assert "the cluster's limit crm" in next(why.json()["sentence"] for why in whys if why.status_code == 200)
    refused = await http.delete("/api/v1/limits/crm", params=cluster)
    assert refused.status_code == 409


async def test_caps_are_no_limits_that_can_be_read_or_deleted_by_name(
    http: AsyncClient, runtime: ManualRuntime
) -> None:
    await http.put("/api/v1/queues/mail", json={"max_running": 2})
    for name in ("queue:mail", "queue%3Amail"):
        for answer in (
            await http.get(f"/api/v1/limits/{name}", params={"scope": "cluster"}),
            await http.delete(f"/api/v1/limits/{name}", params={"scope": "cluster"}),
        ):
            assert answer.status_code == 404
    assert (await http.get("/api/v1/limits", params={"scope": "cluster"})).json()["items"] == []
    assert await runtime.store.list_limits(CLUSTER) == []


async def test_an_unknown_scope_is_refused(http: AsyncClient) -> None:
    answer = await http.get("/api/v1/limits", params={"scope": "all"})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "scope")
