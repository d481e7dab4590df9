"""Messages link to what their alerts are about, and each link leads to something that the server shows."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from mainspring.channels.senders import Senders
from mainspring.core.rights import ALL_TENANTS
from mainspring.engine.usecases.submissions import Submission
from mainspring.registry import FunctionRegistry
from mainspring.testing.clock import FakeClock
from mainspring.testing.manual import TENANT, ManualRuntime
from tests.unit.api.asgi import HERE, api_of, client_of
from tests.unit.channels.messages import LOOPBACK, Receiver, make_secrets, running_receiver

KINDS = ("webhook", "slack", "alertmanager")


def fail() -> None:
    raise ValueError("no customer")


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with running_receiver() as receiver:
        yield receiver


@pytest.fixture
async def runtime(receiver: Receiver) -> AsyncIterator[ManualRuntime]:
    clock, registry = FakeClock(), FunctionRegistry()
    registry.add("work", fail)
    senders = Senders(secrets=make_secrets(), clock=clock, allow=("127.0.0.1", *LOOPBACK))
    await senders.start()
    async with ManualRuntime(registry, clock=clock, sender=senders, public_url=HERE) as runtime:
        for kind in KINDS:
            config = {"url": f"http://127.0.0.1:{receiver.port}/{kind}"}
            body = {"kind": kind, "config": config, "group_wait": 0}
            await runtime.client.channels.put(ALL_TENANTS, kind, body)
        yield runtime
    await senders.stop()


async def tell(runtime: ManualRuntime, receiver: Receiver) -> dict[str, Any]:
    """Judge twice and deliver; return what each kind of channel got."""
    receiver.requests.clear()
    runtime.clock.advance(10)
    for _ in range(2):
        await runtime.tick("watchdog")
    await runtime.services["notifier"].tick(runtime.clock.now())
    return {path.split("/")[1]: json.loads(body) for path, _, body in receiver.requests}


def links_in(got: dict[str, Any]) -> set[str | None]:
    [alert] = got["webhook"]["data"]["alerts"]
    [firing] = got["alertmanager"]
    found = re.search(r"<(\S+)\|open>", got["slack"]["text"])
    return {alert["url"], firing.get("generatorURL"), None if found is None else found[1]}


async def follow(runtime: ManualRuntime, links: set[str | None]) -> Any:
    """Return what the one link of all channels leads to."""
    [link] = links
    assert link is not None
    async with client_of(api_of(runtime)) as http:
        answer: httpx.Response = await http.get(link)
    assert answer.status_code == 200, link
    return answer.json()


async def test_a_job_that_failed_links_to_its_run(runtime: ManualRuntime, receiver: Receiver) -> None:
    body = {"name": "report", "function": "work", "retry": {"max_retries": 0}, "notify": {"to": list(KINDS)}}
    job = await runtime.client.jobs.create(TENANT, body)
    await runtime.client.runs.submit(TENANT, Submission(job_id=job.id))
    await (await runtime.worker()).work()
    shown = await follow(runtime, links_in(await tell(runtime, receiver)))
    assert (shown["job"], shown["status"]) == ("report", "FAILED")


async def test_a_job_that_is_late_without_a_run_links_to_itself(
    runtime: ManualRuntime, receiver: Receiver
) -> None:
    notify = {"to": list(KINDS), "on": ["late"], "late_after": "1m"}
    body = {"name": "nightly", "function": "work", "every": "1h", "notify": notify}
    await runtime.client.jobs.create(TENANT, body)
    runtime.clock.advance(timedelta(hours=1, minutes=2).total_seconds())
    shown = await follow(runtime, links_in(await tell(runtime, receiver)))
    assert [job["name"] for job in shown["items"]] == ["nightly"]


async def test_a_monitor_links_to_itself(runtime: ManualRuntime, receiver: Receiver) -> None:
    await runtime.client.alert_rules.put(
        ALL_TENANTS, "monitor", {"kind": "monitor", "hold": 0, "channels": list(KINDS)}
    )
    await runtime.client.monitors.put(TENANT, "dump", {"every": "1h", "start_grace": "5m"})
    runtime.clock.advance(2 * 3600)
    shown = await follow(runtime, links_in(await tell(runtime, receiver)))
    assert (shown["name"], shown["state"]) == ("dump", "LATE")


async def test_an_alert_of_a_queue_has_no_link(runtime: ManualRuntime, receiver: Receiver) -> None:
    await runtime.client.alert_rules.put(
        ALL_TENANTS,
        "dead_letters",
        {"kind": "dead_letters", "hold": 0, "threshold": 0, "channels": list(KINDS)},
    )
    body = {"name": "report", "function": "work", "retry": {"max_retries": 0}}
    job = await runtime.client.jobs.create(TENANT, body)
    await runtime.client.runs.submit(TENANT, Submission(job_id=job.id))
    await (await runtime.worker()).work()
    await runtime.tick("census")
    assert links_in(await tell(runtime, receiver)) == {None}
