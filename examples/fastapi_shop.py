"""A shop on FastAPI whose jobs run in the processes of the web server.

Try it in this folder: `uvicorn fastapi_shop:web --workers 2`, then `curl -X POST localhost:8000/orders/7`.
"""

from fastapi import FastAPI, HTTPException

from mainspring import App, NotFound

jobs = App(name="shop")


@jobs.job(retries=5)
async def confirm(order: int) -> str:
    print(f"order {order}: your order is confirmed")
    return f"order {order} is confirmed"


@jobs.job(cron="0 7 * * *", tz="Europe/Berlin")
def report() -> None:
    print("the orders of yesterday")


web = FastAPI(lifespan=jobs.embedded())


@web.post("/orders/{order}", status_code=202)
async def place(order: int) -> dict[str, str]:
    run = await confirm.enqueue(order)
    return {"run": run.id}


@web.get("/runs/{run_id}")
async def look(run_id: str) -> dict[str, object]:
    try:
        run = await jobs.client.get_run(run_id)
    except NotFound:
        raise HTTPException(404) from None
    return {"status": run.status, "result": run.result}
