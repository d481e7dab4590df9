"""Monitors over HTTP: they are set, pinged and judged."""

from __future__ import annotations

from base64 import b32encode
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from mainspring.api.ping_gate import UNKNOWN_IN_ALL, UNKNOWN_OF_ADDRESS, PingGate
from mainspring.errors import TooMany
from mainspring.ports.store.monitors import StoredMonitor
from mainspring.registry import FunctionRegistry
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.factories import START
from mainspring.testing.manual import ManualRuntime
from tests.unit.api.asgi import api_of, client_of

MONITOR = "/api/v1/monitors/dump"


@pytest.fixture
async def runtime() -> AsyncIterator[ManualRuntime]:
    async with ManualRuntime(FunctionRegistry()) as runtime:
        yield runtime


@pytest.fixture
async def http(runtime: ManualRuntime) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(api_of(runtime)) as client:
        yield client


async def make(http: httpx.AsyncClient, **body: Any) -> str:
    """Make a monitor and return where its pings go."""
    made = await http.put(MONITOR, json={"every": "1h", "start_grace": "5m", "run_grace": "10m", **body})
    assert made.status_code == 201, made.text
    path: str = made.json()["ping_path"]
    return path


async def state(http: httpx.AsyncClient) -> tuple[str, bool]:
    shown = (await http.get(MONITOR)).json()
    return shown["state"], shown["is_broken"]


async def test_a_monitor_is_set_shown_changed_and_deleted(http: httpx.AsyncClient) -> None:
    path = await make(http)
    shown = (await http.get(MONITOR)).json()
    assert (shown["name"], shown["state"], shown["ping_path"]) == ("dump", "NEW", None)
    assert (shown["start_grace_seconds"], shown["run_grace_seconds"], shown["tolerance"]) == (300, 600, 1)
    assert shown["trigger"]["type"] == "interval"
    changed = await http.put(MONITOR, json={"cron": "0 2 * * *", "tolerance": 2})
    assert (changed.status_code, changed.json()["ping_path"]) == (200, None)
    assert changed.json()["tolerance"] == 2
    assert (await http.post(path)).json() == {"state": "UP"}  # the key is the same
    listed = (await http.get("/api/v1/monitors")).json()["items"]
    assert [one["name"] for one in listed] == ["dump"]
    assert [ping["kind"] for ping in listed[0]["recent"]] == ["success"]
    assert (await http.delete(MONITOR)).status_code == 200
    assert (await http.delete(MONITOR)).status_code == 404
    assert (await http.get(MONITOR)).status_code == 404
    assert (await http.post(path)).status_code == 404


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_pings_say_what_the_job_does(
    http: httpx.AsyncClient, runtime: ManualRuntime, method: str
) -> None:
    path = await make(http)
    story = [
        (f"{path}/start", "RUNNING"),
        (f"{path}/extend", "RUNNING"),
        (f"{path}?exit_code=0", "UP"),
        (f"{path}?exit_code=7", "FAILED"),
        (f"{path}/start", "RUNNING"),
        (path, "UP"),
        (f"{path}/fail", "FAILED"),
    ]
    for url, expected in story:
        runtime.clock.advance(1)
        answer = await http.request(method, url)
        assert (answer.status_code, answer.json()) == (200, {"state": expected}), url
        assert (await state(http))[0] == expected
    recent = (await http.get(MONITOR)).json()["recent"]
    assert [(ping["kind"], ping["exit_code"]) for ping in recent] == [
        ("fail", None),
        ("success", None),
        ("start", None),
        ("fail", 7),
        ("success", 0),
        ("extend", None),
        ("start", None),
    ]


async def test_a_ping_that_does_not_come_is_late_without_anything_that_runs(
    http: httpx.AsyncClient, runtime: ManualRuntime
) -> None:
    path = await make(http)
    runtime.clock.advance(3600 + 300)
    assert await state(http) == ("NEW", False)
    runtime.clock.advance(1)
    assert await state(http) == ("LATE", True)
    await http.post(path)
    assert await state(http) == ("UP", False)


@pytest.mark.parametrize("key", ["x", "a" * 32, "A" * 32, "a" * 33, "../x", "%00"])
@pytest.mark.parametrize("end", ["", "/start", "/extend", "/fail"])
async def test_unknown_keys_find_nothing_and_are_not_repeated(
    http: httpx.AsyncClient, key: str, end: str
) -> None:
    answer = await http.post(f"/ping/{key}{end}")
    assert answer.status_code == 404
    assert "a" * 32 not in answer.json().get("detail", "")


@pytest.mark.parametrize(("code", "status"), [("256", 422), ("-1", 422), ("x", 422), ("255", 200)])
async def test_exit_codes_are_checked(http: httpx.AsyncClient, code: str, status: int) -> None:
    path = await make(http)
    assert (await http.post(f"{path}?exit_code={code}")).status_code == status


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "trigger"),
        ({"cron": "x"}, "cron"),
        ({"every": "1h", "tolerance": 0}, "tolerance"),
        ({"evry": 1}, "evry"),
    ],
)
async def test_wrong_monitors_are_refused(http: httpx.AsyncClient, body: dict[str, Any], field: str) -> None:
    answer = await http.put(MONITOR, json=body)
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert (await http.get(MONITOR)).status_code == 404
    assert (await http.put("/api/v1/monitors/a%20b", json={"every": "1h"})).status_code == 422


async def test_monitors_of_other_tenants_are_out_of_reach(http: httpx.AsyncClient) -> None:
    await make(http)
    other = {"Mainspring-Tenant": "bank"}
    assert (await http.get(MONITOR, headers=other)).status_code == 404
    assert (await http.delete(MONITOR, headers=other)).status_code == 404
    assert (await http.get("/api/v1/monitors", headers=other)).json() == {"items": []}
    made = await http.put(MONITOR, json={"every": "1h"}, headers=other)
    assert made.status_code == 201


async def test_pings_need_no_token_where_all_else_does(runtime: ManualRuntime) -> None:
    identities = runtime._engine.identities
    await identities.refresh()
    async with client_of(api_of(runtime, identities=identities)) as http:
        path = await make(http)
        made = await http.post("/api/v1/tokens", json={"name": "mine", "role": "admin"})
        await identities.refresh()
        assert (await http.get(MONITOR)).status_code == 401
        assert (await http.post(path)).json() == {"state": "UP"}
        assert (await http.post("/ping/" + "a" * 32)).status_code == 404
        known = {"Authorization": f"Bearer {made.json()['token']}"}
        assert (await http.get(MONITOR, headers=known)).json()["state"] == "UP"


class Reading(MemoryStore):
    """A store that counts how often keys are looked up."""

    looked_up = 0

    async def find_monitor(self, key_hash: bytes) -> StoredMonitor | None:
        self.looked_up += 1
        return await super().find_monitor(key_hash)


def unknown_key(number: int) -> str:
    return b32encode(number.to_bytes(20)).decode().lower()


async def test_a_stranger_who_guesses_keys_loads_the_store_only_so_much() -> None:
    clock = FakeClock()
    store = Reading(time=clock.now)
    async with (
        ManualRuntime(FunctionRegistry(), clock=clock, store=store) as runtime,
        client_of(api_of(runtime)) as http,
    ):
        path = await make(http)
        assert (await http.post(path)).status_code == 200
        store.looked_up = 0
        answers = [await http.post(f"/ping/{unknown_key(number)}") for number in range(200)]
        most = UNKNOWN_OF_ADDRESS.count
        assert [answer.status_code for answer in answers] == [404] * most + [429] * (200 - most)
        assert store.looked_up == most
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert "limit of unknown ping keys" in answers[-1].json()["detail"]
        assert unknown_key(199) not in answers[-1].json()["detail"]
        assert (await http.post(path)).json() == {"state": "UP"}  # what is known goes on
        clock.advance(60)
        assert (await http.post(f"/ping/{unknown_key(1)}")).status_code == 404


async def test_keys_that_exist_do_not_count_however_many_they_are() -> None:
    clock = FakeClock()
    async with (
        ManualRuntime(FunctionRegistry(), clock=clock) as runtime,
        client_of(api_of(runtime)) as http,
        client_of(api_of(runtime)) as after_a_restart,
    ):
        paths = []
        for number in range(UNKNOWN_OF_ADDRESS.count + 5):
            made = await http.put(f"/api/v1/monitors/m{number}", json={"every": "1h"})
            paths.append(made.json()["ping_path"])
        for path in paths:
            assert (await after_a_restart.post(path)).status_code == 200


async def test_the_key_of_a_deleted_monitor_is_unknown(runtime: ManualRuntime) -> None:
    async with client_of(api_of(runtime)) as http:
        path = await make(http)
        assert (await http.post(path)).status_code == 200
        await http.delete(MONITOR)
        answers = [(await http.post(path)).status_code for _ in range(UNKNOWN_OF_ADDRESS.count + 2)]
    assert answers == [404] * (UNKNOWN_OF_ADDRESS.count + 1) + [429]


def test_many_addresses_together_have_a_limit_too() -> None:
    gate = PingGate()
    for number in range(UNKNOWN_IN_ALL.count):
        gate.let_in(unknown_key(number), f"2001:db8::{number:x}", now=START)
    with pytest.raises(TooMany):
        gate.let_in(unknown_key(0), "2001:db8::ffff", now=START)
    gate.let_in("no key", "2001:db8::ffff", now=START)  # it is not looked up


async def test_a_tenant_has_only_so_many_monitors(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.engine.usecases.monitors.MOST_MONITORS_OF_TENANT", 1)
    await make(http)
    refused = await http.put("/api/v1/monitors/other", json={"every": "1h"})
    assert refused.status_code == 409
    assert "tenant 'default' has 1 of at most 1 monitors; delete some first" in refused.text
    assert (await http.put(MONITOR, json={"every": "2h"})).status_code == 200  # what is there can be changed
    bank = {"Mainspring-Tenant": "bank"}
    assert (await http.put("/api/v1/monitors/other", json={"every": "1h"}, headers=bank)).status_code == 201
