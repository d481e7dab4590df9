"""A shop on Flask whose jobs run in the processes of the web server.

Try it in this folder: `flask --app flask_shop run --debug` or `gunicorn flask_shop:web --workers 2`, then
`curl -X POST localhost:5000/orders/7` (gunicorn: port 8000).
"""

from flask import Flask, abort

from mainspring import App, NotFound

jobs = App(name="shop")
web = Flask(__name__)


@jobs.job(retries=5)
def confirm(order: int) -> str:
    print(f"order {order}: your order is confirmed")
    return f"order {order} is confirmed"


@jobs.job(cron="0 7 * * *", tz="Europe/Berlin")
def report() -> None:
    print("the orders of yesterday")


@web.post("/orders/<int:order>")
def place(order: int) -> tuple[dict[str, str], int]:
    run = confirm.enqueue_sync(order)
    return {"run": run.id}, 202


@web.get("/runs/<run_id>")
def look(run_id: str) -> dict[str, object]:
    try:
        run = jobs.sync.get_run(run_id)
    except NotFound:
        abort(404)
    return {"status": run.status, "result": run.result}


jobs.embedded().start()

if __name__ == "__main__":
    web.run(debug=True)
