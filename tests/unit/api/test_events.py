"""Events over HTTP: kept once, and what they start is there with the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from mainspring.core.fields import decode_payload
from mainspring.core.ids import parse_run_id
from mainspring.core.model import RunKind
from mainspring.core.states import RunState
from mainspring.ports.store.events import EventStatus
from mainspring.registry import FunctionRegistry
from mainspring.testing.manual import TENANT, ManualRuntime
from tests.unit.api.asgi import api_of, client_of

EVENTS = "/api/v1/events"
PAID = {"topic": "orders.paid", "key": "4711", "data": {"cents": 4200}, "id": "pay-4711"}
LARGE = {"data": {"cents": [{"numeric": [">", 100000]}]}}


@pytest.fixture
async def runtime() -> AsyncIterator[ManualRuntime]:
    registry = FunctionRegistry()
    registry.add("ship", lambda event: event["key"])
    async with ManualRuntime(registry) as runtime:
        yield runtime


@pytest.fixture
async def http(runtime: ManualRuntime) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(api_of(runtime)) as client:
        yield client


async def add(http: httpx.AsyncClient, name: str = "ship", **fields: Any) -> str:
    """Make a job that listens, and return its id."""
    body = {"name": name, "function": "ship", "on_event": "orders.paid", **fields}
    if "trigger" in fields:
        del body["on_event"]
    made = await http.post("/api/v1/jobs", json=body)
    assert made.status_code == 201, made.text
    job_id: str = made.json()["job_id"]
    return job_id


async def send(http: httpx.AsyncClient, status: int = 202, **fields: Any) -> dict[str, Any]:
    """Send an event, and return the answer."""
    answer = await http.post(EVENTS, json={**PAID, **fields})
    assert answer.status_code == status, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def runs_of(runtime: ManualRuntime) -> list[Any]:
    return await runtime.store.list_runs(TENANT)


async def test_event_starts_a_run_that_gets_it(runtime: ManualRuntime, http: httpx.AsyncClient) -> None:
    job_id = await add(http)
    sent = await send(http)
    assert (sent["event_id"], sent["status"]) == ("pay-4711", "added")
    [run] = await runs_of(runtime)
    assert (run.id, run.kind, run.state) == (
        parse_run_id(sent["run_ids"][0]),
        RunKind.EVENT,
        RunState.PENDING,
    )
    assert decode_payload(run.payload or b"")["event"] == {
        "specversion": "1.0",
        "id": "pay-4711",
        "source": "/tenants/default",
        "type": "orders.paid",
        "time": decode_payload(run.payload or b"")["event"]["time"],
        "key": "4711",
        "data": {"cents": 4200},
    }
    shown = (await http.get(f"/api/v1/jobs/{job_id}")).json()
    assert shown["trigger"] == {"type": "event", "topic": "orders.paid", "pattern": None}
    assert shown["next_fire_time"] is None


async def test_worker_carries_it_out(runtime: ManualRuntime, http: httpx.AsyncClient) -> None:
    await add(http)
    sent = await send(http)
    worker = await runtime.worker()
    await worker.work()
    run = (await http.get(f"/api/v1/runs/{sent['run_ids'][0]}")).json()
    assert (run["status"], run["result"]) == ("SUCCEEDED", "4711")


async def test_pattern_says_which_are_meant(runtime: ManualRuntime, http: httpx.AsyncClient) -> None:
    await add(http, trigger={"type": "event", "topic": "orders.paid", "pattern": LARGE})
    assert (await send(http))["run_ids"] == []
    assert len((await send(http, id="b", data={"cents": 200000}))["run_ids"]) == 1


async def test_known_id_starts_nothing(runtime: ManualRuntime, http: httpx.AsyncClient) -> None:
    await add(http)
    await send(http)
    assert await send(http, status=200) == {"event_id": "pay-4711", "status": "known", "run_ids": []}
    assert len(await runs_of(runtime)) == 1
    refused = await http.post(EVENTS, json={**PAID, "data": 5})
    assert refused.status_code == 409
    assert "sent before, with another topic, key or data" in refused.text


async def test_without_an_id_each_is_another(runtime: ManualRuntime, http: httpx.AsyncClient) -> None:
    await add(http)
    first, second = await send(http, id=None), await send(http, id=None)
    assert first["event_id"] != second["event_id"]
    assert first["event_id"].startswith("evt_")
    assert len(await runs_of(runtime)) == 2


async def test_many_at_once(runtime: ManualRuntime, http: httpx.AsyncClient) -> None:
    await add(http, overlap="cancel_running")
    items = [PAID, {**PAID, "id": "b"}, PAID, {**PAID, "id": "b", "key": "x"}, {"topic": "other"}]
    answer = await http.post(f"{EVENTS}/bulk", json=items)
    assert answer.status_code == 202
    statuses = [one["status"] for one in answer.json()]
    assert statuses == ["added", "added", "known", "mismatch", "added"]
    assert sorted(run.state for run in await runs_of(runtime)) == [RunState.CANCELLED, RunState.PENDING]


async def test_paused_job_leaves_a_record(runtime: ManualRuntime, http: httpx.AsyncClient) -> None:
    job_id = await add(http)
    await http.post(f"/api/v1/jobs/{job_id}/pause")
    assert (await send(http))["run_ids"] == []
    [run] = await runs_of(runtime)
    assert (run.state, run.reason) == (RunState.SKIPPED, "paused")


async def test_pause_of_a_queue_that_skips(runtime: ManualRuntime, http: httpx.AsyncClient) -> None:
    await add(http)
    paused = await http.post("/api/v1/queues/default/pause", json={"mode": "skip"})
    assert paused.status_code == 200, paused.text
    runtime.clock.advance(1)
    assert (await send(http))["run_ids"] == []
    [run] = await runs_of(runtime)
    assert (run.state, run.reason) == (RunState.SKIPPED, "paused")


async def test_key_of_a_limit_comes_from_the_event(runtime: ManualRuntime, http: httpx.AsyncClient) -> None:
    await add(http, concurrency={"limit": 1, "key": "$.event.key"})
    await send(http)
    assert (await send(http, id="b", key=None))["run_ids"] == []
    states = {(run.state, run.reason) for run in await runs_of(runtime)}
    assert states == {(RunState.PENDING, None), (RunState.SKIPPED, "no_key")}


async def test_decided_anew_if_the_job_changes_meanwhile(
    runtime: ManualRuntime, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await add(http)
    add_events, calls = runtime.store.add_events, list[EventStatus]()

    async def edit_first(events: Any, *, now: Any) -> Any:
        if not calls:
            await http.patch(f"/api/v1/jobs/{job_id}", json={"queue": "slow"})
        results = await add_events(events, now=now)
        calls.extend(result.status for result in results)
        return results

    monkeypatch.setattr(runtime.store, "add_events", edit_first)
    await send(http)
    assert calls == [EventStatus.MOVED, EventStatus.ADDED]
    [run] = await runs_of(runtime)
    assert (run.version, run.lane.queue) == (2, "slow")


async def test_senders_at_once_share_a_call(runtime: ManualRuntime, http: httpx.AsyncClient) -> None:
    await add(http)
    sent = await asyncio.gather(*(send(http, id=f"pay-{number}") for number in range(20)))
    assert len({one["run_ids"][0] for one in sent}) == 20


async def test_tenant_is_that_of_the_request(runtime: ManualRuntime, http: httpx.AsyncClient) -> None:
    await add(http)
    answer = await http.post(EVENTS, json=PAID, headers={"Mainspring-Tenant": "other"})
    assert answer.json()["run_ids"] == []
    assert (await http.get(EVENTS)).json() == {"items": [], "next": None}


async def test_pages(runtime: ManualRuntime, http: httpx.AsyncClient) -> None:
    for number in range(3):
        await send(http, id=f"pay-{number}")
    await send(http, topic="other", id="o", data=None, key=None)
    page = (await http.get(f"{EVENTS}?limit=2")).json()
    assert [one["event_id"] for one in page["items"]] == ["o", "pay-2"]
    rest = (await http.get(f"{EVENTS}?limit=2&before={page['next']}")).json()
    assert [(one["event_id"], one["key"], one["data"]) for one in rest["items"]] == [
        ("pay-1", "4711", {"cents": 4200}),
        ("pay-0", "4711", {"cents": 4200}),
    ]
    other = (await http.get(f"{EVENTS}?topic=other")).json()
    assert [(one["event_id"], one["key"], one["data"]) for one in other["items"]] == [("o", None, None)]


async def test_too_large(http: httpx.AsyncClient) -> None:
    answer = await http.post(EVENTS, json={**PAID, "data": "x" * 66000})
    assert answer.status_code == 413
    assert "data" in answer.text


async def test_rate_of_the_tenant_holds(runtime: ManualRuntime, http: httpx.AsyncClient) -> None:
    await runtime.client.tenants.put(TENANT, {"submit_rate": "1/h"})
    await runtime.tick("policies")
    await send(http)
    await send(http, status=429, id="b")


async def test_old_events_go(runtime: ManualRuntime, http: httpx.AsyncClient) -> None:
    await send(http)
    runtime.clock.advance(8 * 86400)
    await runtime.tick("janitor")
    assert (await http.get(EVENTS)).json()["items"] == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"calendars": {"exclude": ["days"]}}, "calendars"),
        ({"max_fires": 3}, "max_fires"),
        ({"starts_at": "2027-01-01T00:00:00Z"}, "starts_at"),
        ({"on_event": " a"}, "on_event"),
        ({"trigger": {"type": "event"}}, "trigger.topic"),
        ({"trigger": {"type": "event", "topic": "a", "pattern": {"data": 5}}}, "trigger.pattern.data"),
        ({"trigger": {"type": "any_of", "triggers": [{"on_event": "a"}]}}, "trigger.triggers[0]"),
    ],
)
async def test_what_does_not_go_with_events(
    http: httpx.AsyncClient, fields: dict[str, Any], field: str
) -> None:
    body = {
        "name": "ship",
        "function": "ship",
        **({} if "trigger" in fields else {"on_event": "a"}),
        **fields,
    }
    answer = await http.post("/api/v1/jobs", json=body)
    assert answer.status_code == 422, answer.text
    assert field in answer.text
