"""docs/howto/chains-groups-and-chords.md, done on a real server: the app that submits is in another process."""

from __future__ import annotations

import contextlib
import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from mainspring import App, MainspringError, NotFound, RunFailed, chain
from mainspring.host.exit_codes import ExitCode
from tests.processes.processes import run_here, server
from tests.support.postgres import temporary_database

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "chains-groups-and-chords.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


[DEFINED, *SUBMITTED] = blocks("python")
[NAMED] = [block for block in SUBMITTED if "app.workflow" in block]
SUBMITTED.remove(NAMED)


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str | None]]:
    """A server that runs the app of the page, and its database, if it has one."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "pictures.py").write_text(f"{DEFINED}\n{NAMED}")
    with contextlib.ExitStack() as stack:
        where: tuple[str, ...] = ()
        dsn: str | None = None
        if request.param == "postgres":
            dsn = stack.enter_context(temporary_database(request.getfixturevalue("postgres_server")))
            where = ("--store", dsn)
        process, address = stack.enter_context(server("pictures:app", *where, cwd=folder))
        yield address, dsn
        process.stop()


@pytest.fixture
def url(place: tuple[str, str | None]) -> str:
    return place[0]


@pytest.fixture
def scope(url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What the first block of the page defines, in this process."""
    monkeypatch.setenv("MAINSPRING_SERVER", url)
    (tmp_path / "pictures.py").write_text(DEFINED)
    made = runpy.run_path(str(tmp_path / "pictures.py"))
    yield made
    made["app"].close()


@pytest.mark.parametrize("block", SUBMITTED, ids=lambda block: block.partition(" = ")[0])
def test_code_of_the_page_does_what_it_says(block: str, scope: dict[str, Any]) -> None:
    exec(compile(block, str(PAGE), "exec"), scope)


def test_commands_of_the_page(scope: dict[str, Any]) -> None:
    [extra, show] = blocks("sh")
    assert extra == "pip install 'mainspring[cel]'\n"
    run = chain(scope["fetch"].s("a.png"), scope["resize"].s(200)).enqueue_sync()
    run.result_sync(timeout=60)
    shown = run_here(*show.replace("RUN", run.id).split()[1:])
    assert shown.returncode == ExitCode.DONE, shown.stdout + shown.stderr
    [drawing] = re.findall(r"^```\n(✓ fetch .*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    took = re.compile(r"[0-9]+m?s")
    assert took.sub("T", drawing) in took.sub("T", shown.stdout)


def test_the_workflow_that_has_a_name(scope: dict[str, Any]) -> None:
    (run,) = scope["app"].submit_sync("nightly", [{"url": "h.png"}])
    assert run.result_sync(timeout=60) == "all: 2"


def test_a_shape_is_one_job(scope: dict[str, Any]) -> None:
    for width in (1, 2, 3):
        chain(scope["resize"].s("x", width), scope["fetch"].s(), scope["pack"].si(["y"])).enqueue_sync()
    listed = json.loads(run_here("job", "list", "--json").stdout)["items"]
    assert sum(job["name"].startswith("chain:resize,fetch,pack:") for job in listed) == 1


def test_a_failure_is_told_to_the_handler(scope: dict[str, Any]) -> None:
    whole = chain(scope["fetch"].s("x"), scope["resize"].s("wide")).on_error(scope["tell"].s())
    with pytest.raises(MainspringError, match=r"chain\[1\]\.width: must be int"):
        whole.enqueue_sync()
    sent = chain(scope["pack"].si(["a"]), scope["fetch"].s(), scope["resize"].si("x", 1).set(timeout="1s"))
    assert sent.enqueue_sync().result_sync(timeout=60) == "x at 1"
    failing = chain(scope["tell"].si("x"), scope["pack"].s().set(retries=0)).on_error(scope["tell"].s())
    run = failing.enqueue_sync()
    with pytest.raises(RunFailed, match="step pack has not succeeded"):
        run.result_sync(timeout=60)
    steps = {step.name: step for step in scope["app"].sync.list_steps(run.id).items}
    assert {name: step.status for name, step in steps.items()} == {
        "tell": "succeeded",
        "pack": "failed",
        "tell_2": "succeeded",
    }
    assert (
        scope["app"]
        .sync.get_run(steps["tell_2"].run_id)
        .payload["error"]
        .startswith("TypeError: object of type 'NoneType'")
    )


async def test_it_is_submitted_from_an_event_loop(scope: dict[str, Any]) -> None:
    app: App = scope["app"]
    run = await chain(scope["fetch"].s("z"), scope["resize"].s(1)).options(idempotency_key="z").enqueue()
    assert await run.result(timeout=60) == "<z> at 1"
    again = chain(scope["fetch"].s("z"), scope["resize"].s(1)).options(idempotency_key="z")
    assert (await again.enqueue()).id == run.id
    assert (await app.client.get_run(run.id)).status == "SUCCEEDED"


async def test_it_is_part_of_a_transaction(place: tuple[str, str | None], scope: dict[str, Any]) -> None:
    _, dsn = place
    if dsn is None:
        return  # a caller shares no transaction with SQLite
    whole = chain(scope["fetch"].s("t"), scope["fetch"].s(), scope["fetch"].s())  # of a shape that is new
    connection = await asyncpg.connect(dsn)
    try:
        transaction = connection.transaction()
        await transaction.start()
        lost = await whole.options(connection=connection).enqueue()
        await transaction.rollback()
        async with connection.transaction():
            kept = await whole.options(connection=connection).enqueue()
    finally:
        await connection.close()
    assert await kept.result(timeout=60) == "<<<t>>>"
    with pytest.raises(NotFound):
        await lost.get()
