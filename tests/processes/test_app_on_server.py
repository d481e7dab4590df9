"""`enqueue` and its kin against a real server."""

import asyncio
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from mainspring import (
    App,
    Conflict,
    InvalidInput,
    NotFound,
    PayloadTooLarge,
    RunCancelled,
    RunFailed,
    Unique,
    Unreachable,
)
from mainspring.sdk.function import Function
from tests.processes.processes import server

APP = """
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from mainspring import App, Unique

app = App()


@dataclass
class Bill:
    total: Decimal
    due: date | None


@app.job()
def add(x: int, y: int = 1) -> int:
    return x + y


@app.job(retries=0)
async def bill(price: Decimal, due: date | None = None) -> Bill:
    if price < 0:
        raise ValueError("less than nothing")
    return Bill(price * 2, due)


@app.job(unique=Unique("$.order", scope="period", period="1h"))
def sync(order: str) -> None: ...


@app.job(unique={"key": "$.order", "on_conflict": "reject"})
def pay(order: str) -> None: ...
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("sdk")
    (folder / "adding.py").write_text(APP)
    with server("adding:app", "--store", "memory://", cwd=folder) as (_, address):
        yield address


@pytest.fixture
def app(url: str) -> Iterator[App]:
    app = App(url)
    yield app
    app.close()


def adder(app: App) -> Any:  # some calls below are wrong on purpose
    @app.job()
    def add(x: int, y: int | str = 1) -> int:
        return x + int(y)

    return add


async def test_enqueue_and_wait(app: App) -> None:
    add = adder(app)
    run = await add.enqueue(2, y=3)
    done = await run.wait(timeout=20)
    assert (done.status, done.result, done.payload) == ("SUCCEEDED", 5, {"x": 2, "y": 3})
    assert (await run.get()).status == "SUCCEEDED"


def test_the_same_without_a_loop(app: App) -> None:
    add = adder(app)
    run = add.enqueue_sync(x=5)
    assert run.wait_sync(timedelta(seconds=20)).result == 6
    assert run.get_sync().job_id == app.sync.list_jobs(name="add").items[0].job_id
    assert len(add.enqueue_many_sync([[1], {"x": 2}])) == 2


@dataclass
class Bill:
    total: Decimal
    due: date | None


def biller(app: App) -> Function[[Decimal, date | None], Coroutine[Any, Any, Bill], Bill]:
    @app.job()
    async def bill(price: Decimal, due: date | None = None) -> Bill:
        raise AssertionError("a worker runs it")

    return bill


async def test_a_result_has_the_type_of_its_annotation(app: App) -> None:
    bill = biller(app)
    run = await bill.enqueue(Decimal("1.50"), date(2026, 12, 1))
    assert await run.result(timeout=30) == Bill(Decimal("3.00"), date(2026, 12, 1))
    assert await asyncio.to_thread(run.result_sync, 30) == Bill(Decimal("3.00"), date(2026, 12, 1))
    with pytest.raises(InvalidInput, match="price: must be Decimal, not 'cheap'"):
        await bill.enqueue("cheap", None)  # type: ignore[arg-type] # on purpose


async def test_a_run_that_fails_has_no_result(app: App) -> None:
    run = await biller(app).enqueue(Decimal(-1), None)
    with pytest.raises(RunFailed, match=f"{run.id} is FAILED: ValueError: less than nothing") as failed:
        await run.result(30)
    assert (failed.value.run_id, failed.value.status) == (run.id, "FAILED")


async def test_a_cancelled_run_has_no_result(app: App) -> None:
    run = await biller(app).delay("1h").enqueue(Decimal(1), None)
    with pytest.raises(TimeoutError):
        await run.result(0.01)
    await app.client.cancel_run(run.id)
    with pytest.raises(RunCancelled):
        await run.result(30)


async def test_at_an_instant_and_after_a_delay(app: App) -> None:
    bill = biller(app)
    tomorrow = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    run = await bill.at(tomorrow).enqueue(Decimal(1), None)
    assert (await run.get()).due_at == tomorrow
    late = await bill.delay(timedelta(days=2)).enqueue(Decimal(1), None)
    assert (await late.get()).due_at > tomorrow


async def test_many_at_once_in_bounded_requests(app: App) -> None:
    add = adder(app)
    runs = await add.enqueue_many({"x": index} for index in range(2500))
    assert len({run.id for run in runs}) == 2500
    assert (await runs[2499].wait(30)).result == 2500
    big = await add.options(delay="1h").enqueue_many([[1, "y" * 60_000] for _ in range(20)])
    assert len(big) == 20


async def test_handle_says_what_became_of_a_submission(app: App) -> None:
    @app.job(unique=Unique("$.order", scope="period", period="1h"))
    def sync(order: str) -> None: ...

    first = await sync.enqueue(order="o-1")
    again = await sync.options(idempotency_key="a").enqueue(order="o-1")
    repeat = await sync.options(idempotency_key="a").enqueue(order="o-1")
    assert (first.status, again.status, repeat.status) == ("submitted", "existing", "existing")
    assert first == again == repeat
    many = await sync.enqueue_many([{"order": "o-1"}, {"order": "o-2"}])
    assert [handle.status for handle in many] == ["existing", "submitted"]
    assert (await sync.enqueue("o-1")).id == first.id, "arguments that are keys go by their names"


async def test_second_run_is_rejected(app: App) -> None:
    @app.job(unique={"key": "$.order", "on_conflict": "reject"})
    def pay(order: str) -> None: ...

    first = await pay.options(delay="1h").enqueue(order="o-1")
    with pytest.raises(Conflict, match=f"^unique: {first.id} has the same key"):
        await pay.enqueue(order="o-1")
    many = await pay.enqueue_many([{"order": "o-1"}, {"order": "o-2"}])
    assert [handle.status for handle in many] == ["rejected", "submitted"]


async def test_options(app: App) -> None:
    add = adder(app)
    later = await add.options(delay=timedelta(hours=1), priority="low").enqueue(1)
    found = await later.get()
    assert (found.status, found.priority) == ("PENDING", "LOW")
    assert timedelta(minutes=59) < found.due_at - found.created_at < timedelta(minutes=61)
    with pytest.raises(TimeoutError, match="is PENDING"):
        await later.wait(0.1)
    assert (await app.client.cancel_run(later.id)).result == "cancelled"
    delayed = add.options(delay="1h", idempotency_key="later")
    assert await delayed.enqueue(1) == await delayed.enqueue(
        1
    )  # the same request, though now is another instant
    keyed = add.options(idempotency_key="once")
    assert await keyed.enqueue(1) == await keyed.enqueue(1)
    with pytest.raises(Conflict) as caught:
        await keyed.enqueue(2)
    assert caught.value.field == "idempotency_key"
    with pytest.raises(InvalidInput, match="one by one"):
        await keyed.enqueue_many([[1]])


async def test_what_is_refused(app: App) -> None:
    add = adder(app)
    with pytest.raises(PayloadTooLarge):
        await add.enqueue(1, "y" * 70_000)
    with pytest.raises(InvalidInput, match="x: must be int"):
        await add.enqueue(object())
    with pytest.raises(InvalidInput, match=r"calls\[1\]"):
        await add.enqueue_many([[1], "x"])
    with pytest.raises(InvalidInput) as caught:
        await add.options(idempotency_key="\n").enqueue(1)
    assert caught.value.field == "idempotency_key"
    with pytest.raises(NotFound, match="elsewhere"):
        await app.job(name="elsewhere")(print).enqueue()
    with pytest.raises(AttributeError):
        app.client.no_such_route  # type: ignore[attr-defined] # noqa: B018 -- the access is the test


async def test_nobody_there() -> None:
    app = App("http://127.0.0.1:9")
    with pytest.raises(Unreachable):
        await app.job()(print).enqueue()
    app.close()


def test_an_app_serves_many_loops_and_threads(app: App) -> None:
    add = adder(app)

    async def submit() -> str:
        run = await add.enqueue(1)
        return str(run.id)

    ids = {asyncio.run(submit()) for _ in range(3)}
    assert len(ids) == 3


def test_leaving_without_closing_is_silent(url: str, tmp_path: Path) -> None:
    code = (
        "import asyncio\nfrom mainspring import App\napp = App()\n"
        "@app.job()\ndef add(x: int, y: int = 1) -> int: ...\n"
        "print(asyncio.run(add.enqueue(1)).id, add.enqueue_sync(2).wait_sync(20).result)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", code],
        env={"MAINSPRING_SERVER": url},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.endswith(" 3\n")
