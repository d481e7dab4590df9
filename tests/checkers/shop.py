"""What users write; each line fits. `test_type_checkers.py` has mypy and pyright check it, and nothing runs it."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal

from mainspring import App, Batch, Call, Done, Limit, Outcome, Priority, RunCancelled, RunFailed

app = App()


@app.job(retries=3, timeout="10m", concurrency=Limit(key="$.customer", limit=2))
async def bill(customer: str, amount: Decimal, due: date | None = None) -> Decimal:
    return amount


@app.job(name="sweep", every=timedelta(hours=1), priority=Priority.LOW)
def sweep(folder: str = "/tmp") -> int:
    return len(folder)


@app.job(batch=Batch(size=100, wait="2s"))
async def mail(calls: list[Call[str]]) -> list[Outcome]:
    return [Done(call.payload.upper()) for call in calls]


@app.job(batch={"size": 10})
def index(calls: list[Call]) -> None: ...


async def submit() -> Decimal:
    run = await bill.enqueue("ann", Decimal(1), due=date(2026, 12, 1))
    total: Decimal = await run.result(timeout=60)
    later = await bill.delay("5m").enqueue("ann", amount=Decimal(2))
    await bill.at("2026-12-01T09:00:00+01:00").enqueue("ann", Decimal(3))
    await bill.options(priority="HIGH", delay=timedelta(minutes=5)).enqueue("ann", Decimal(4))
    await bill.enqueue_many([{"customer": "ann", "amount": Decimal(5)}, ["bob", Decimal(6)]])
    await mail.enqueue("ann@example.com")
    try:
        total += await later.result()
    except RunCancelled as error:
        print(error.run_id)
    except RunFailed as error:
        print(error.status, error.error)
    return total + await bill("ann", Decimal(7))


def submit_sync() -> int:
    run = sweep.enqueue_sync(folder="/var/tmp")
    for one in app.sync.runs(state="FAILED", since="2h"):
        print(one.error, one.run_id)
    print(app.sync.count_runs().FAILED, app.sync.get_run(run.id).attempts[0].error)
    return run.result_sync(timeout=5) + sweep()


async def look() -> None:
    async for brief in app.client.briefs(state="FAILED"):
        print(brief.job)
    print((await app.client.get_health()).status)


def flow() -> list[str]:
    etl = app.workflow("etl", cron="@daily", tz="Europe/Berlin", overlap="skip")
    first = etl.step("bill", bill, retries=5, timeout=timedelta(minutes=5))
    clean = etl.step("sweep", sweep, after=first, allow_failure=True, payload={"folder": "/var/tmp"})
    etl.step("page", "their.page", after=[first, clean, "sweep"], rule="one_failed")
    graph = app.sync.check_workflow(etl.definition)
    run = etl.enqueue_sync({"folder": "/tmp"})
    found = app.sync.list_steps(run.id)
    return [*graph.order, *(step.status for step in found.items)]
