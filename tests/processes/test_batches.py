"""Batches by the SDK, against a real server: docs/howto/batch-runs.md, done."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring import App, Batch, Call, InvalidInput
from tests.processes.processes import run, running, server

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "batch-runs.md").read_text()
APP = """
from mainspring import App, Batch, Call, Done, Failed, Outcome

app = App()


@app.job(batch=Batch(size=10, wait="0.3s", key="$.customer"), retry={"delay": "0.05s"})
async def mail(calls: list[Call]) -> list[Outcome]:
    return [
        Failed("bounced") if call.payload.get("bounces", 0) >= call.attempt.attempt
        else Done([len(calls), len({each.payload["customer"] for each in calls}), call.attempt.attempt])
        for call in calls
    ]


@app.job(batch=Batch(size=5, wait="0.1s"), retries=0)
def count(calls: list[Call]) -> None:
    if any(call.payload == 13 for call in calls):
        raise ValueError("thirteen")


@app.job(batch=Batch(size=3, wait="1h"))
async def patient(calls: list[Call]) -> None: ...
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("batches")
    (folder / "mailing.py").write_text(APP)
    with server("mailing:app", "--data", str(folder / "data"), cwd=folder) as (_, address):
        yield address


async def test_one_call_takes_many_runs_of_a_key(url: str) -> None:
    app = App(url)

    @app.job(batch=Batch(size=10, key="$.customer"))
    async def mail(calls: list[Call]) -> None:
        raise AssertionError("the server carries it out")

    handles = await mail.enqueue_many({"customer": "ab"[number % 2]} for number in range(24))
    results = [(await handle.wait(timeout=30)).result for handle in handles]
    assert all(size <= 10 and customers == 1 for size, customers, _ in results)
    assert sum(1 / size for size, _, _ in results) == pytest.approx(
        4
    )  # two of ten, and what was left of both


async def test_only_what_failed_is_retried(url: str) -> None:
    app = App(url)
    payloads = [{"customer": "c", "bounces": number == 3} for number in range(10)]
    handles = await app.submit("mail", payloads)
    runs = [await handle.wait(timeout=30) for handle in handles]
    assert [run.result[2] for run in runs] == [1, 1, 1, 2, 1, 1, 1, 1, 1, 1]
    assert runs[3].result[0] == 1


async def test_what_is_raised_is_the_error_of_all(url: str) -> None:
    app = App(url)
    handles = await app.submit("count", [11, 12, 13, 14, 15])
    runs = [await handle.wait(timeout=30) for handle in handles]
    assert {run.error for run in runs} == {"ValueError: thirteen"}
    more = [await handle.wait(timeout=30) for handle in await app.submit("count", [1, 2])]
    assert {run.status for run in more} == {"SUCCEEDED"}


async def test_a_run_says_for_which_batch_it_waits_and_goes_when_it_is_full(url: str) -> None:
    app = App(url)
    [first, second] = await app.submit("patient", [1, 2])
    why = await first.why()
    assert why.code == "batch"
    assert re.fullmatch(r"It waits for its batch: 2 of 3, until \S+Z\.", why.sentence)
    [third] = await app.submit("patient", [3])
    for handle in (first, second, third):
        assert (await handle.wait(timeout=30)).status == "SUCCEEDED"


async def test_a_run_that_waits_is_cancelled_alone(url: str) -> None:
    app = App(url)
    [first, second, third] = await app.submit("patient", [1, 2, 3][:2]) + await app.submit("count", [1])
    await app.client.cancel_run(first.id)
    assert (await first.wait(timeout=30)).status == "CANCELLED"
    more = await app.submit("patient", [3, 4])
    for handle in (second, third, *more):
        assert (await handle.wait(timeout=30)).status == "SUCCEEDED"


async def test_a_worker_over_http_gets_whole_batches(tmp_path: Path) -> None:
    (tmp_path / "mailing.py").write_text(APP)
    with running("server", "--store", "memory://", "--port", 0, cwd=tmp_path) as process:
        address = process.wait_for("listening on ")
        with running("worker", "mailing:app", "--server", address, cwd=tmp_path) as worker:
            worker.wait_for("ready")
            app = App(address)
            handles = await app.submit("mail", [{"customer": "a"}] * 10)
            results = [(await handle.wait(timeout=30)).result for handle in handles]
            assert {tuple(result) for result in results} == {(10, 1, 1)}
            [shown] = (await app.client.list_workers()).items
            assert shown.labels == []
            app.close()


def test_the_command_line_takes_it(url: str, tmp_path: Path) -> None:
    run("job", "add", "typed", "--function", "count", "--batch", '{"size": 7, "wait": "3s"}', "--server", url)
    shown = json.loads(run("job", "show", "typed", "--json", "--server", url).stdout)
    assert shown["batch"] == {"size": 7, "wait_seconds": 3.0, "key": None}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"batch": Batch(size=1)}, "batch.size"),
        ({"batch": Batch(size=2, wait="2h")}, "batch.wait"),
        ({"batch": Batch(size=2), "delivery": "at_most_once"}, "batch"),
        ({"batch": Batch(size=2), "concurrency": 3}, "batch"),
    ],
)
def test_the_sdk_refuses_what_does_not_go(fields: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        App().job(name="job", **fields)(lambda calls: None)  # type: ignore[call-overload]
    assert caught.value.field == field


def test_the_page_shows_what_a_run_says() -> None:
    assert "It waits for its batch: 3 of 100, until" in PAGE
