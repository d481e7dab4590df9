"""What users write by mistake. mypy and pyright name each line that ends in `typo`, and no other line."""

from __future__ import annotations

from decimal import Decimal

from mainspring import App, Limit
from mainspring.sdk.runs import RunHandle

app = App()


@app.job()
async def bill(customer: str, amount: Decimal) -> Decimal:
    return amount


@app.job(retrys=3)  # typo
def misspelled_option() -> None: ...


@app.job(retries="3")  # typo
def option_of_a_wrong_type() -> None: ...


LIMIT = Limit(keys="$.customer", limit=2)  # typo


async def submit(run: RunHandle[int]) -> None:
    await bill.enqueue("ann", "1.50")  # typo
    await bill.enqueue(custommer="ann", amount=Decimal(1))  # typo
    await bill.enqueue("ann")  # typo
    await bill.options(prority="HIGH").enqueue("ann", Decimal(1))  # typo
    await bill.delay(5).enqueue("ann", Decimal(1))  # typo
    await bill.delay("5m").enqueue(Decimal(1), "ann")  # typo
    await bill.at("2026-12-01T09:00:00Z").enqueu("ann", Decimal(1))  # typo
    print((await run.result()).upper())  # typo
    total: str = await (await bill.enqueue("ann", Decimal(1))).result()  # typo
    print(total, await run.results())  # typo


def look() -> None:
    print(app.sync.count_run())  # typo
    print(app.sync.list_runs(stat="FAILED"))  # typo
    print(app.sync.get_run(5))  # typo
    print(app.sync.count_runs().FALED)  # typo
    bill.enqueue_sync("ann", amount=1.5)  # typo


def flow() -> None:
    app.workflow("early", corn="@daily")  # typo
    app.workflow("late", timeout="5m")  # typo
    etl = app.workflow("etl")
    load = etl.step("load", bill, retires=3)  # typo
    etl.step("page", bill, after=load, rule="one_fail")  # typo
    etl.step("tell", bill, after=5)  # typo
    etl.stp("tell", bill)  # typo
    print(app.sync.get_job_graph("job").lvels)  # typo
    print(app.sync.list_steps("run").items[0].statu)  # typo
