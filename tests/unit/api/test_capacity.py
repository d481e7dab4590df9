"""Capacity over HTTP: the tenant's or the cluster's, from the past, the schedules, the workers and the backlog."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from mainspring.core.rights import ALL_RIGHTS, NO_RIGHTS, Principal, Right
from mainspring.core.usage import Times, Usage, UsageLine, UsageStep
from mainspring.engine.usecases.submissions import Submission
from mainspring.registry import FunctionRegistry
from mainspring.testing.manual import ManualRuntime
from tests.unit.api.asgi import api_of, client_of

CAPACITY = "/api/v1/capacity"
HOUR = timedelta(hours=1)


@pytest.fixture
async def runtime() -> AsyncIterator[ManualRuntime]:
    registry = FunctionRegistry()
    registry.add("work", lambda **_: None)
    async with ManualRuntime(registry) as runtime:
        yield runtime


@pytest.fixture
async def http(runtime: ManualRuntime) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(api_of(runtime)) as client:
        yield client


async def record(runtime: ManualRuntime, runs: int, *, queue: str = "mail", tenant: str = "default") -> None:
    """Put so many runs of 2 s on record, for each of the last 24 hours."""
    this_hour = UsageStep.HOUR.start_of(runtime.clock.now())
    usage = Usage(submitted=runs, succeeded=runs, durations=Times(total=runs * 2.0))
    lines = [
        UsageLine(at=this_hour - ago * HOUR, tenant=tenant, queue=queue, usage=usage) for ago in range(1, 25)
    ]
    assert await runtime.store.write_usage_hours(lines, epochs={0: runtime.ownership.epochs[0]})


async def ask(http: httpx.AsyncClient, scope: str = "tenant", **headers: str) -> Any:
    answer = await http.get(CAPACITY, params={"scope": scope}, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_nothing_is_known_at_first(http: httpx.AsyncClient) -> None:
    assert await ask(http) == {"queues": [], "disk": None}


async def test_what_was_submitted_and_what_is_waiting(
    runtime: ManualRuntime, http: httpx.AsyncClient
) -> None:
    await record(runtime, 9000)
    await runtime.worker(slots=10)
    job = await runtime.client.jobs.create("default", {"name": "send", "function": "work", "queue": "mail"})
    for _ in range(3):
        await runtime.client.runs.submit("default", Submission(job_id=job.id))
    await runtime.tick("census")
    [mail] = (await ask(http))["queues"]
    assert (mail["queue"], mail["slots"], mail["runs_per_hour"], mail["seconds_per_run"]) == (
        "mail",
        10.0,
        9000.0,
        2.0,
    )
    assert (mail["utilisation"], mail["peak"], mail["slots_needed"]) == (0.5, 0.5, 7)
    assert (mail["waiting"], mail["drain_seconds"]) == (3, 1.2)


async def test_the_fires_to_come_are_in_it(runtime: ManualRuntime, http: httpx.AsyncClient) -> None:
    await record(runtime, 1800)
    await runtime.worker(slots=10)
    peak = UsageStep.HOUR.start_of(runtime.clock.now()) + 5 * HOUR
    for number in range(60):
        body = {"name": f"report-{number}", "function": "work", "queue": "mail"}
        await runtime.client.jobs.create("default", {**body, "cron": f"* {peak.hour} * * *"})
    [mail] = (await ask(http))["queues"]
    assert (mail["utilisation"], mail["peak"]) == (0.1, 0.3)
    assert mail["peak_at"] == peak.isoformat().replace("+00:00", "Z")


async def test_a_calendar_keeps_fires_out(runtime: ManualRuntime, http: httpx.AsyncClient) -> None:
    await record(runtime, 10)
    today = runtime.clock.now().date()
    days = [(today + timedelta(days=number)).isoformat() for number in range(3)]
    await runtime.client.calendars.put("default", "closed", {"rules": [{"date": day} for day in days]})
    body = {"name": "report", "function": "work", "queue": "mail", "cron": "* * * * *"}
    await runtime.client.jobs.create("default", {**body, "calendars": {"exclude": ["closed"]}})
    assert (await ask(http))["queues"][0]["runs_per_hour"] == 10.0


async def test_a_tenant_sees_its_own_and_the_cluster_all_and_the_disk(
    runtime: ManualRuntime, http: httpx.AsyncClient
) -> None:
    await record(runtime, 100)
    await record(runtime, 50, tenant="bank")
    body = {"name": "hourly", "function": "work", "queue": "mail", "cron": "0 * * * *"}
    await runtime.client.jobs.create("bank", body)
    [own] = (await ask(http))["queues"]
    [banks] = (await ask(http, **{"Mainspring-Tenant": "bank"}))["queues"]
    cluster = await ask(http, "cluster")
    [all_of_them] = cluster["queues"]
    found = [one["runs_per_hour"] for one in (own, banks, all_of_them)]
    assert found == [100.0, 51.0, 151.0]
    assert cluster["disk"]["keep_days"] == 30


async def test_the_cluster_is_for_those_who_may_see_it(runtime: ManualRuntime) -> None:
    reader = Principal(name="ann", tenant="default", rights=frozenset({Right.READ}), shared_rights=NO_RIGHTS)
    async with client_of(api_of(runtime, identify=lambda _: reader)) as http:
        refused = await http.get(CAPACITY, params={"scope": "cluster"})
        assert refused.status_code == 403
        assert "ann may not do this for the cluster: it needs the right 'read'" in refused.text
        assert (await http.get(CAPACITY)).status_code == 200
        assert (await http.get(CAPACITY, params={"scope": "planet"})).status_code == 422
    assert Right.READ in ALL_RIGHTS
