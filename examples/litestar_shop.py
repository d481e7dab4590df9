"""A shop on Litestar whose jobs run in the processes of the web server.

Try it in this folder: `uvicorn litestar_shop:web --workers 2`, then `curl -X POST localhost:8000/orders/7`.
"""

from litestar import Litestar, get, post
from litestar.exceptions import NotFoundException

from mainspring import App, NotFound

jobs = App(name="shop")


@jobs.job(retries=5)
async def confirm(order: int) -> str:
    print(f"order {order}: your order is confirmed")
    return f"order {order} is confirmed"


@jobs.job(cron="0 7 * * *", tz="Europe/Berlin")
def report() -> None:
    print("the orders of yesterday")


@post("/orders/{order:int}", status_code=202)
async def place(order: int) -> dict[str, str]:
    run = await confirm.enqueue(order)
    return {"run": run.id}


@get("/runs/{run_id:str}")
async def look(run_id: str) -> dict[str, object]:
    try:
        run = await jobs.client.get_run(run_id)
    except NotFound:
        raise NotFoundException from None
    return {"status": run.status, "result": run.result}


web = Litestar([place, look], lifespan=[jobs.embedded()])
