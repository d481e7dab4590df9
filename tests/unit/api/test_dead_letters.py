"""Dead letters over HTTP: listed, grouped and discarded, and redriven no more than once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from httpx import AsyncClient

from mainspring.registry import FunctionRegistry
from mainspring.testing.manual import ManualRuntime
from tests.unit.api.asgi import api_of, client_of

DEAD = "/api/v1/dead-runs"
REDRIVES = "/api/v1/redrives"


@pytest.fixture
async def runtime() -> Any:
    def work(error: str = "boom") -> None:
        raise ValueError(error)

    registry = FunctionRegistry()
    registry.add("work", work)
    async with ManualRuntime(registry) as runtime:
        yield runtime


@pytest.fixture
async def http(runtime: ManualRuntime) -> Any:
    async with client_of(api_of(runtime)) as client:
        yield client


async def bury(http: AsyncClient, runtime: ManualRuntime, *errors: str, job: str = "pay") -> list[str]:
    """Make a run of a job for each error, and let it fail; return their ids."""
    body = {"name": job, "function": "work", "retry": {"max_retries": 0}}
    await http.put("/api/v1/jobs", json=body)
    made = [{"job": job, "payload": {"error": error}} for error in errors]
    ids = [one["run_id"] for one in (await http.post("/api/v1/runs/bulk", json=made)).json()]
    worker = await runtime.worker()
    while await worker.work():
        pass
    return ids


async def listed(http: AsyncClient, **query: Any) -> list[str]:
    answer = await http.get(DEAD, params=query)
    assert answer.status_code == 200, answer.text
    return [item["run_id"] for item in answer.json()["items"]]


async def test_a_dead_letter_is_shown_with_what_it_has_in_common_with_others(
    http: AsyncClient, runtime: ManualRuntime
) -> None:
    [run] = await bury(http, runtime, "order 17 is odd")
    [item] = (await http.get(DEAD)).json()["items"]
    assert (item["run_id"], item["job"], item["status"]) == (run, "pay", "FAILED")
    assert (item["error_group"], item["settled"]) == ("ValueError: order # is odd", None)
    assert "payload" not in item


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, [2, 1, 0]),
        ({"job": "pay"}, [1, 0]),
        ({"error": "no 2"}, [1]),
        ({"error_group": "ValueError: no #"}, [1, 0]),
        ({"since": "1h"}, [2, 1, 0]),
        ({"until": "1h"}, []),
        ({"queue": "other"}, []),
        ({"limit": 1}, [2]),
        ({"settled": "true"}, []),
        ({"settled": "false"}, [2, 1, 0]),
    ],
)
async def test_each_filter_chooses(
    http: AsyncClient, runtime: ManualRuntime, query: dict[str, Any], found: list[int]
) -> None:
    runs = await bury(http, runtime, "no 1", "no 2")
    runs += await bury(http, runtime, "timeout", job="mail")
    assert await listed(http, **query) == [runs[index] for index in found]
    job = (await http.get("/api/v1/jobs", params={"name": "pay"})).json()["items"][0]["job_id"]
    if "job" in query:
        assert await listed(http, job=job) == [runs[index] for index in found]


async def test_pages_go_on_where_they_stopped(http: AsyncClient, runtime: ManualRuntime) -> None:
    runs = await bury(http, runtime, "a", "b", "c")
    first = (await http.get(DEAD, params={"limit": 2})).json()
    assert first["next"] == runs[1]
    second = (await http.get(DEAD, params={"limit": 2, "before": first["next"]})).json()
    assert ([item["run_id"] for item in second["items"]], second["next"]) == ([runs[0]], None)


async def test_groups_are_the_largest_first(http: AsyncClient, runtime: ManualRuntime) -> None:
    runs = await bury(http, runtime, "no 1", "no 2", "timeout")
    groups = (await http.get(f"{DEAD}/groups")).json()["items"]
    assert [(each["job"], each["error_group"], each["count"], each["newest"]) for each in groups] == [
        ("pay", "ValueError: no #", 2, runs[1]),
        ("pay", "ValueError: timeout", 1, runs[2]),
    ]
    few = (await http.get(f"{DEAD}/groups", params={"error": "time"})).json()["items"]
    assert [each["count"] for each in few] == [1]


async def test_what_is_discarded_is_off_the_list_for_good(http: AsyncClient, runtime: ManualRuntime) -> None:
    runs = await bury(http, runtime, "no 1", "no 2", "timeout")
    body: dict[str, Any] = {"filter": {"error": "no"}, "reason": "customer gone", "dry_run": True}
    planned = (await http.post(f"{DEAD}/discard", json=body)).json()
    until = planned.pop("until")
    assert planned == {"total": 2, "first": [runs[1], runs[0]], "is_complete": True}
    await runtime.advance(1)
    later = await bury(http, runtime, "no 3")
    assert len(await listed(http)) == 4
    body["filter"]["until"] = until
    done = (await http.post(f"{DEAD}/discard", json={**body, "dry_run": False})).json()
    assert (done["total"], sorted(done["first"]), done["is_complete"]) == (2, runs[:2], True)
    assert await listed(http) == [*later, runs[2]]
    assert await listed(http, settled="true") == [runs[1], runs[0]]
    shown = (await http.get(f"/api/v1/runs/{runs[0]}")).json()
    assert shown["status"] == "FAILED"
    assert (shown["settled"]["settlement"], shown["settled"]["reason"]) == ("discarded", "customer gone")
    refused = await http.post(f"/api/v1/runs/{runs[0]}/redrive")
    assert refused.status_code == 409
    assert "was discarded at" in refused.json()["detail"]
    assert "customer gone" in refused.json()["detail"]


async def test_a_redriven_run_is_off_the_list_and_says_what_repeats_it(
    http: AsyncClient, runtime: ManualRuntime
) -> None:
    [run] = await bury(http, runtime, "boom")
    again = (await http.post(f"/api/v1/runs/{run}/redrive")).json()["run_id"]
    assert await listed(http) == []
    [item] = (await http.get(DEAD, params={"settled": "true"})).json()["items"]
    assert (item["settled"]["settlement"], item["settled"]["redriven_as"]) == ("redriven", again)
    assert (await http.get(f"/api/v1/runs/{run}")).json()["settled"] == item["settled"]
    body = {"filter": {"run_ids": [run]}, "reason": "late"}
    assert (await http.post(f"{DEAD}/discard", json=body)).json()["total"] == 0


async def test_the_same_redrive_is_known_after_its_key(http: AsyncClient, runtime: ManualRuntime) -> None:
    [run] = await bury(http, runtime, "boom")
    again = (await http.post(f"/api/v1/runs/{run}/redrive")).json()["run_id"]
    later = runtime.clock.now() + timedelta(days=31)
    assert await runtime.store.prune_keys(now=later, limit=100) == 1
    answer = await http.post(f"/api/v1/runs/{run}/redrive")
    assert (answer.status_code, answer.json()["run_id"], answer.json()["is_new"]) == (200, again, False)


async def test_a_tenant_sees_and_discards_its_own_only(http: AsyncClient, runtime: ManualRuntime) -> None:
    [run] = await bury(http, runtime, "boom")
    other = {"Mainspring-Tenant": "other"}
    assert (await http.get(DEAD, headers=other)).json()["items"] == []
    assert (await http.get(f"{DEAD}/groups", headers=other)).json()["items"] == []
    body = {"filter": {"run_ids": [run]}, "reason": "mine"}
    assert (await http.post(f"{DEAD}/discard", json=body, headers=other)).json()["total"] == 0
    assert await listed(http) == [run]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"reason": "x"}, "filter"),
        ({"filter": {}, "reason": "x"}, "filter"),
        ({"filter": {"job": "nothing"}, "reason": "x"}, "filter.job"),
        ({"filter": {"since": "yesterday"}, "reason": "x"}, "filter.since"),
        ({"filter": {"run_ids": ["run_1", "x"]}, "reason": "x"}, "filter.run_ids[0]"),
        ({"filter": {"run_ids": ["run_1"] * 1001}, "reason": "x"}, "filter.run_ids"),
        ({"filter": {"jbo": "pay"}, "reason": "x"}, "filter.jbo"),
        ({"filter": {"error": "x"}}, "reason"),
        ({"filter": {"error": "x"}, "reason": ""}, "reason"),
        ({"filter": {"error": "x"}, "reason": "x" * 501}, "reason"),
    ],
)
async def test_a_wrong_body_is_refused_by_its_field(
    http: AsyncClient, runtime: ManualRuntime, body: dict[str, Any], field: str
) -> None:
    [run] = await bury(http, runtime, "x")
    answer = await http.post(f"{DEAD}/discard", json=body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == field, answer.text
    assert await listed(http) == [run]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"settled": "maybe"}, "settled"),
        ({"job": "nothing"}, "job"),
        ({"before": "x"}, "before"),
        ({"state": "FAILED"}, "state"),
        ({"until": "x"}, "until"),
    ],
)
async def test_a_wrong_query_is_refused_by_its_field(
    http: AsyncClient, runtime: ManualRuntime, query: dict[str, str], field: str
) -> None:
    answer = await http.get(DEAD, params=query)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field), answer.text


async def test_a_redrive_goes_through_what_it_means(http: AsyncClient, runtime: ManualRuntime) -> None:
    dead = await bury(http, runtime, "order 1 is odd", "no answer", "order 3 is odd")
    body = {"filter": {"job": "pay", "error": "odd"}, "rate": 5}
    planned = await http.post(REDRIVES, json={**body, "dry_run": True})
    assert planned.status_code == 200
    plan = planned.json()
    assert (plan["total"], plan["first"], plan["redrive"]) == (2, [dead[2], dead[0]], None)
    assert [(one["job"], one["version"], one["count"]) for one in plan["versions"]] == [("pay", 1, 2)]
    assert (await http.get(REDRIVES)).json() == {"items": [], "next": None}

    answer = await http.post(REDRIVES, json=body)
    assert answer.status_code == 202
    made = answer.json()["redrive"]
    assert (made["state"], made["total"], made["done"]) == ("running", 2, 0)
    assert (made["rate"], made["definition"], made["filter"]["error"]) == (5, "newest", "odd")
    path = f"{REDRIVES}/{made['redrive_id']}"
    assert (await http.post(f"{path}/pause")).json()["state"] == "paused"
    await runtime.advance(2)
    assert len(await listed(http)) == 3
    assert (await http.post(f"{path}/resume")).json()["state"] == "running"
    await runtime.advance(2)
    ended = (await http.get(path)).json()
    assert (ended["state"], ended["done"], ended["closed_at"] is not None) == ("done", 2, True)
    assert await listed(http) == [dead[1]]
    refused = await http.post(f"{path}/cancel")
    assert (refused.status_code, refused.json()["detail"]) == (409, "state: the redrive is done already")
    assert (await http.get(REDRIVES, params={"limit": 1})).json() == {
        "items": [ended],
        "next": made["redrive_id"],
    }
    assert (await http.get(REDRIVES, params={"before": made["redrive_id"]})).json()["items"] == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"filter": {}}, "filter"),
        ({"filter": {"error": "nothing of the kind"}}, "filter"),
        ({"filter": {"job": "unknown"}}, "filter.job"),
        ({"filter": {"until": "0s"}, "rate": 0}, "rate"),
        ({"filter": {"until": "0s"}, "rate": 1001}, "rate"),
        ({"filter": {"until": "0s"}, "rate": "fast"}, "rate"),
        ({"filter": {"until": "0s"}, "definition": "old"}, "definition"),
        ({"filter": {"until": "0s"}, "speed": 1}, "speed"),
        ({"rate": 1}, "filter"),
    ],
)
async def test_a_wrong_redrive_is_refused_by_its_field(
    http: AsyncClient, runtime: ManualRuntime, body: dict[str, Any], field: str
) -> None:
    await bury(http, runtime, "boom")
    answer = await http.post(REDRIVES, json=body)
    assert answer.status_code == 422, answer.text
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert (await http.get(REDRIVES)).json()["items"] == []


async def test_another_tenants_redrive_is_unknown(http: AsyncClient, runtime: ManualRuntime) -> None:
    await bury(http, runtime, "boom")
    made = (await http.post(REDRIVES, json={"filter": {"error": "boom"}})).json()["redrive"]
    path = f"{REDRIVES}/{made['redrive_id']}"
    other = {"Mainspring-Tenant": "other"}
    for answer in (
        await http.get(path, headers=other),
        await http.post(f"{path}/cancel", headers=other),
        await http.get(f"{REDRIVES}/redrive_{'0' * 26}"),
        await http.get(f"{REDRIVES}/odd"),
    ):
        assert answer.status_code == 404
        assert answer.json()["detail"].endswith("; GET /api/v1/redrives lists them")
    assert (await http.get(path)).json()["state"] == "running"
