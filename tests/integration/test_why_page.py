"""docs/howto/see-why-a-run-waits.md, done: each of its sentences comes from the real engine on a real store.

A case brings about what one row of its table shows, and returns the run to ask. Who adds a code to `WhyCode`, or a row
to the page, is told here to add the case.
"""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.ids import RunId
from mainspring.core.outcomes import Failure
from mainspring.core.pauses import PauseScope
from mainspring.core.why import WhyCode
from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.executor import Snooze, Success
from mainspring.ports.gateway import HandedBack, Lease, Report
from mainspring.ports.store import Store
from mainspring.registry import FunctionRegistry
from mainspring.stores.memory import MemoryStore
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.manual import ManualRuntime, ManualWorker

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "see-why-a-run-waits.md"
TENANT = "default"


class Stage:
    """One server and one worker, with what cases are made of."""

    def __init__(self, runtime: ManualRuntime, worker: ManualWorker) -> None:
        self.runtime = runtime
        self.worker = worker

    async def submit(
        self, count: int = 1, *, tenant: str = TENANT, seconds: float = 0.0, **job: Any
    ) -> list[RunId]:
        """Make a job in the queue `mail`, and submit so many runs of it, due in so many seconds."""
        body = {"name": f"job of {tenant}", "function": "work", "queue": "mail"} | job
        job_id = (await self.runtime.client.jobs.create(tenant, body)).id
        due_at = self.runtime.clock.now() + timedelta(seconds=seconds) if seconds else None
        one = Submission(job_id=job_id, payload=b'{"customer":"acme"}', run_at=due_at)
        results = await self.runtime.client.runs.submit_many(tenant, [one] * count)
        return [result.run_id for result in results if result.run_id is not None]

    async def claim(self, limit: int) -> list[Lease]:
        """Have the worker claim so many runs."""
        leases = await self.worker.claim(limit)
        assert len(leases) == limit
        return leases

    async def report(self, lease: Lease, ending: Any) -> None:
        """Have the worker report an end."""
        await self.worker.report(Report(run_id=lease.run_id, token=lease.token, ending=ending))


async def ended(stage: Stage) -> RunId:
    [run_id] = await stage.submit()
    [lease] = await stage.claim(1)
    await stage.report(lease, Success())
    return run_id


async def running(stage: Stage) -> RunId:
    [run_id] = await stage.submit()
    await stage.claim(1)
    return run_id


async def not_due(stage: Stage) -> RunId:
    [run_id] = await stage.submit(seconds=60)
    return run_id


async def backing_off(stage: Stage) -> RunId:
    retry = {"max_retries": 1, "backoff": "fixed", "delay": "30s", "jitter": 0}
    [run_id] = await stage.submit(retry=retry)
    [lease] = await stage.claim(1)
    await stage.report(lease, Failure(error="no"))
    return run_id


async def snoozed(stage: Stage) -> RunId:
    [run_id] = await stage.submit()
    [lease] = await stage.claim(1)
    await stage.report(lease, Snooze(timedelta(minutes=10)))
    return run_id


async def paused(stage: Stage) -> RunId:
    [run_id] = await stage.submit()
    until = stage.runtime.clock.now() + timedelta(hours=1)
    body = {"note": "db upgrade", "until": until.isoformat()}
    await stage.runtime.client.pauses.pause(PauseScope.QUEUE, "mail", body, made_by="ops")
    return run_id


async def blackout(stage: Stage) -> RunId:
    client = stage.runtime.client
    await client.calendars.put(TENANT, "month-end", {"tz": "UTC", "rules": [{"date": "2026-01-05"}]})
    items = {"items": [{"calendar": "month-end", "note": "the books"}]}
    await client.blackouts.put(PauseScope.QUEUE, "mail", items, tenant=TENANT, made_by="ops")
    return (await stage.submit())[0]


async def no_worker(stage: Stage) -> RunId:
    [run_id] = await stage.submit()
    await stage.runtime.gateway.leave(stage.worker.session_id)
    return run_id


async def batch(stage: Stage) -> RunId:
    return (await stage.submit(2, batch={"size": 10, "wait": "5s"}))[0]


async def limit_full(stage: Stage) -> RunId:
    await stage.runtime.client.limits.put(TENANT, "crm", {"max_running": 2})
    run_ids = await stage.submit(3, concurrency=[{"use": "crm", "key": "$.customer"}])
    await stage.claim(2)
    return run_ids[2]


async def line_full(stage: Stage) -> RunId:
    first, second = await stage.submit(2, overlap="queue_all")
    await stage.claim(1)
    assert first != second
    return second


async def rate(stage: Stage) -> RunId:
    _, second = await stage.submit(2, concurrency=[{"rate": "1/m", "burst": 1}])
    await stage.claim(1)
    return second


async def queue_full(stage: Stage) -> RunId:
    await stage.runtime.client.queues.put("mail", {"max_running": 1})
    _, second = await stage.submit(2)
    await stage.claim(1)
    return second


async def tenant_full(stage: Stage) -> RunId:
    await stage.runtime.client.tenants.put(TENANT, {"max_running": 1})
    _, second = await stage.submit(2)
    await stage.claim(1)
    return second


async def label_full(stage: Stage) -> RunId:
    await stage.runtime.client.labels.put("gpu", {"max_running": 1})
    stage.worker = await stage.runtime.worker(labels=("gpu",))
    _, second = await stage.submit(2, labels=["gpu"])
    await stage.claim(1)
    return second


async def quarantined(stage: Stage) -> RunId:
    [run_id] = await stage.submit()
    await stage.claim(1)
    await stage.runtime.gateway.leave(stage.worker.session_id)
    await stage.runtime.tick("reaper")
    await stage.runtime.worker()
    return run_id


async def behind(stage: Stage) -> RunId:
    return (await stage.submit(3))[2]


async def behind_with_a_reserve(stage: Stage) -> RunId:
    await stage.runtime.client.tenants.put(TENANT, {"reserved": 3})
    return await behind(stage)


async def ready(stage: Stage) -> RunId:
    return (await stage.submit())[0]


async def ready_beside_a_reserve(stage: Stage) -> RunId:
    await stage.runtime.client.tenants.put("acme", {"reserved": 3})
    await stage.submit(tenant="acme")
    return await ready(stage)


async def ready_again(stage: Stage) -> RunId:
    await stage.runtime.client.queues.put("alerts", {"preempt_after": "10s"})
    await stage.runtime.gateway.leave(stage.worker.session_id)
    stage.worker = await stage.runtime.worker(slots=1)
    [run_id] = await stage.submit(priority="LOW", preemptible=True)
    [lease] = await stage.claim(1)
    await stage.submit(name="alert", queue="alerts", priority="HIGH")
    await stage.runtime.advance(11)
    reply = await stage.runtime.gateway.beat(stage.worker.session_id, ((lease.run_id, lease.token),))
    assert reply.preempt == ((lease.run_id, lease.token),)
    await stage.report(lease, HandedBack(was_started=True, is_preempted=True))
    return run_id


CASES: Sequence[tuple[WhyCode, Callable[[Stage], Awaitable[RunId]]]] = (
    (WhyCode.ENDED, ended),
    (WhyCode.RUNNING, running),
    (WhyCode.NOT_DUE, not_due),
    (WhyCode.BACKING_OFF, backing_off),
    (WhyCode.SNOOZED, snoozed),
    (WhyCode.PAUSED, paused),
    (WhyCode.BLACKOUT, blackout),
    (WhyCode.NO_WORKER, no_worker),
    (WhyCode.BATCH, batch),
    (WhyCode.KEY_FULL, limit_full),
    (WhyCode.KEY_FULL, line_full),
    (WhyCode.RATE, rate),
    (WhyCode.QUEUE_FULL, queue_full),
    (WhyCode.TENANT_FULL, tenant_full),
    (WhyCode.LABEL_FULL, label_full),
    (WhyCode.QUARANTINED, quarantined),
    (WhyCode.BEHIND, behind),
    (WhyCode.BEHIND, behind_with_a_reserve),
    (WhyCode.READY, ready),
    (WhyCode.READY, ready_beside_a_reserve),
    (WhyCode.READY, ready_again),
)
"""In the order of the page's rows."""


def rows() -> list[tuple[str, str]]:
    """Return the code and the sentence of each row of the page."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    cells = [line.split(" | ") for line in lines if "what you read" not in line]
    return [(code.strip("|` "), sentence.strip("` ")) for code, sentence, _ in cells]


def test_each_code_has_a_case_and_a_row() -> None:
    assert {code for code, _ in CASES} == set(WhyCode)
    assert [code for code, _ in rows()] == [code.value for code, _ in CASES]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    clock = FakeClock()
    stores: dict[str, Callable[[], Store]] = {
        "memory": lambda: MemoryStore(time=clock.now),
        "sqlite": lambda: SqliteStore(tmp_path / "mainspring.db"),
        "postgres": lambda: PostgresStore(
            request.getfixturevalue("migrated_database"), random=random.Random(1)
        ),
    }
    registry = FunctionRegistry()
    registry.add("work", lambda: None)
    async with ManualRuntime(registry, store=stores[request.param](), clock=clock) as runtime:
        yield Stage(runtime, await runtime.worker())


@pytest.mark.parametrize("place", range(len(CASES)), ids=[case.__name__ for _, case in CASES])
async def test_the_page_shows_what_the_engine_says(stage: Stage, place: int) -> None:
    code, case = CASES[place]
    run_id = await case(stage)
    answer = await stage.runtime.client.runs.why(TENANT, run_id)
    assert answer.code is code
    _, sentence = rows()[place]
    assert re.sub(r"run_[0-9a-z]+", "run_…", answer.sentence) == sentence
