"""`App.embedded` within one process: its options, its blocks, and who does not start it."""

import asyncio
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from fastapi import FastAPI

from mainspring import App, InvalidInput, MainspringError
from mainspring.config.settings import StoreLocation
from mainspring.errors import StoreLocked
from mainspring.host.address import find_address, tell_address
from mainspring.host.embedding import Embedding
from mainspring.host.reloading import why_not_to_serve
from mainspring.sdk.staging import refuse_servers
from mainspring.stores.sqlite.connection import LockFile

TELL_TALES = {"_pytest.main", "mainspring.cli.main"}


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("MAINSPRING_")]:
        monkeypatch.delenv(name)
    structlog.reset_defaults()


@pytest.fixture
def app() -> Iterator[App]:
    app = App()

    @app.job()
    def double(number: int) -> int:
        return 2 * number

    yield app
    app.close()


def double(app: App, number: int) -> Any:
    (run,) = app.submit_sync("double", [[number]])
    return run.result_sync(20)


def test_a_block_serves_the_app_and_may_be_entered_again(app: App) -> None:
    server = app.server
    embedding = app.embedded(data="jobs", port=0)
    for number in (1, 2):
        with embedding:
            assert embedding.is_running
            assert app.server != server
            assert double(app, number) == 2 * number
        assert not embedding.is_running
        assert app.server == server
    assert find_address(StoreLocation("sqlite", "jobs")) is None
    assert Path("jobs/mainspring.db").exists()


async def test_a_lifespan_serves_the_app(app: App) -> None:
    lifespan = app.embedded(store="memory://", port=0)
    async with lifespan(FastAPI()) as state:
        assert state is None
        (run,) = await app.submit("double", [[4]])
        assert await run.result(20) == 8


def test_a_second_one_stands_by_and_takes_over(app: App) -> None:
    other = App()
    other.registry.add("double", lambda number: 2 * number)
    first, second = app.embedded(data="jobs", port=0), other.embedded(data="jobs", port=0)
    with first, second:
        assert other.server == app.server
        assert double(other, 3) == 6
        first.stop()
        assert double(other, 5) == 10  # the call waits for the next server
        assert other.server == find_address(StoreLocation("sqlite", "jobs"))


def test_a_port_that_is_taken_is_no_obstacle(app: App) -> None:
    other = App()
    with app.embedded(data="one", port=0):
        port = int(app.server.rpartition(":")[2])
        with other.embedded(data="two", port=port):
            assert other.server != app.server
            assert other.sync.list_jobs().items == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"slots": -1}, "slots: -1 is not between 0 and 10000"),
        ({"slot": 1}, "slot: there is no such option; known are data, drain, port, prune, slots, store"),
        ({"store": "memory://", "data": "x"}, "store: says the same as data; give one of them"),
        ({"drain": "soon"}, "drain: "),
        ({"port": "x"}, "port: "),
        ({"prune": True}, "prune: give App(name=…)"),
    ],
)
def test_a_wrong_option_is_named(app: App, options: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        app.embedded(**options)
    assert str(raised.value).startswith(error)


def test_a_wrong_store_is_named_at_the_start(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="store: 'nowhere://' is not"), app.embedded(store="nowhere://"):
        pass
    monkeypatch.setenv("MAINSPRING_PORT", "many")
    with pytest.raises(InvalidInput, match="MAINSPRING_PORT"), app.embedded():
        pass
    Path("file").touch()
    monkeypatch.delenv("MAINSPRING_PORT")
    with (
        pytest.raises(InvalidInput, match=r"data: .*file is a file; give a folder"),
        app.embedded(data="file"),
    ):
        pass


def test_a_holder_without_an_api_is_named(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.host.embedding._LOOKS_AT_START", 2)
    Path("jobs").mkdir()
    lock = LockFile(Path("jobs/mainspring.db.lock"))
    lock.acquire()
    with pytest.raises(StoreLocked, match="it serves no API"), app.embedded(data="jobs", port=0):
        pass
    lock.release()


async def test_under_test_nothing_starts(app: App) -> None:
    web = FastAPI(lifespan=app.embedded())

    @web.get("/{number}")
    async def look(number: int) -> object:
        (run,) = await app.submit("double", [[number]])
        return await run.result()

    transport = httpx.ASGITransport(web)
    async with (
        app.testing(),
        web.router.lifespan_context(web),
        httpx.AsyncClient(transport=transport, base_url="http://shop") as client,
    ):
        assert (await client.get("/21")).json() == 42
    assert not await asyncio.to_thread(Path("mainspring-data").exists)


def test_a_test_that_may_not_call_servers_starts_none(app: App) -> None:
    refuse_servers("use the fixture")
    try:
        with pytest.raises(MainspringError, match="use the fixture"), app.embedded():
            pass
    finally:
        refuse_servers(None)
    assert not Path("mainspring-data").exists()


def test_start_does_nothing_under_pytest_but_finds_the_server(app: App) -> None:
    assert why_not_to_serve() == "this process runs tests"
    other = App()
    with app.embedded(data="jobs", port=0):
        embedding = Embedding(other, data="jobs")
        embedding.start()
        assert not embedding.is_running
        assert other.server == app.server
        embedding.stop()


@pytest.mark.parametrize("text", ["", "1\n", "x\nhttp://a\n", "1\nhttp://a", f"{2**22 + 1}\nhttp://a\n"])
def test_an_address_that_is_not_there_is_not_found(text: str) -> None:
    Path("mainspring.db.lock").write_text(text)
    assert find_address(StoreLocation("sqlite", ".")) is None


def test_the_address_of_a_live_holder_is_found() -> None:
    location = StoreLocation("sqlite", ".")
    lock = LockFile(Path("mainspring.db.lock"))
    lock.acquire()
    tell_address(location, "http://127.0.0.1:1")
    assert find_address(location) == "http://127.0.0.1:1"
    with pytest.raises(StoreLocked, match=f"in use by process {os.getpid()};"):
        LockFile(Path("mainspring.db.lock")).acquire()
    lock.release()
    assert find_address(location) is None
    tell_address(StoreLocation("memory", ""), "http://127.0.0.1:1")
    assert find_address(StoreLocation("memory", "")) is None


def test_failures_are_lines_of_the_hosts_log(app: App, caplog: pytest.LogCaptureFixture) -> None:
    @app.job(retries=0)
    def fail() -> None:
        raise ValueError("no paper")

    with caplog.at_level(logging.INFO, "mainspring"), app.embedded(store="memory://", port=0):
        (run,) = app.submit_sync("fail", [[]])
        assert run.wait_sync(20).status == "FAILED"
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("mainspring.")]
    assert any(line.startswith("embedded address=http://127.0.0.1:") for line in lines)
    assert any("fail: failed for good at attempt 1: ValueError: no paper" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "variables", "reason"),
    [
        (["/site/manage.py", "migrate"], {}, "this command of Django serves nothing"),
        (["manage.py", "runserver", "8000"], {}, "this is the parent process of a reloader"),
        (["manage.py", "runserver"], {"RUN_MAIN": "true"}, None),
        (["manage.py", "runserver", "--noreload"], {}, None),
        (["manage.py", "runserver_plus"], {"WERKZEUG_RUN_MAIN": "true"}, None),
        (["django-admin", "shell"], {}, "this command of Django serves nothing"),
        (["manage.py"], {}, None),
        (["/bin/gunicorn", "shop.wsgi"], {}, None),
    ],
)
def test_what_serves_is_told_by_the_command(
    arguments: list[str], variables: dict[str, str], reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = {name: module for name, module in sys.modules.items() if name not in TELL_TALES}
    monkeypatch.setattr(sys, "modules", modules)
    monkeypatch.setattr(sys, "argv", arguments)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = why_not_to_serve()
    assert found == reason or (found is not None and reason is not None and found.startswith(reason))


def test_mainsprings_own_commands_start_nothing_in_the_code_that_they_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    modules = {name: module for name, module in sys.modules.items() if name not in TELL_TALES}
    monkeypatch.setattr(sys, "modules", {**modules, "mainspring.cli.main": sys})
    assert why_not_to_serve() == "this is a command of Mainspring"
