"""Host names that are never resolved: whoever needs another host does not notice."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

from mainspring.core.causes import Cause
from mainspring.core.outcomes import Failure
from mainspring.egress.names import MAX_LOOKUPS, MAX_UNPROVEN, NameLookups, SlowName
from mainspring.executors import HttpExecutor
from mainspring.ports.executor import Outcome, Success
from tests.unit.executors.attempts import make_attempt


class Names:
    """A resolver that never answers for `*.dead.test`, fails for `*.none.test`, and says 127.0.0.1 for the others."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.release = threading.Event()

    def __call__(self, host: str) -> list[str]:
        self.asked.append(host)
        if host.endswith("dead.test"):
            self.release.wait(60)
        if host.endswith((".dead.test", ".none.test")):
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return ["127.0.0.1"]

    async def until_asked(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.asked) < count:  # noqa: ASYNC110 -- its threads cannot tell the loop
                await asyncio.sleep(0.005)


@pytest.fixture
def names() -> Iterator[Names]:
    names = Names()
    yield names
    names.release.set()


@pytest.fixture
async def lookups(names: Names) -> AsyncIterator[NameLookups]:
    lookups = NameLookups(names)
    yield lookups
    lookups.close()


def ask(lookups: NameLookups, *hosts: str) -> list[asyncio.Task[list[str]]]:
    return [asyncio.create_task(lookups(host, 443)) for host in hosts]


async def end(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """The port of a receiver of callbacks."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="thanks")

    application = web.Application()
    application.router.add_post("/", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


@pytest.mark.parametrize("dead", [["a.dead.test"] * 12, [f"{n}.dead.test" for n in range(50)]])
async def test_callback_goes_through_at_once_beside_hosts_that_never_resolve(
    monkeypatch: pytest.MonkeyPatch, names: Names, port: int, dead: list[str]
) -> None:
    def getaddrinfo(host: str, *_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (names(host)[0], port))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    executor = HttpExecutor(allow=["127.0.0.0/8"])
    await executor.start()

    def call(host: str, timeout: float) -> asyncio.Task[Outcome]:
        attempt = make_attempt({"url": f"http://{host}:{port}/"}, timeout=timeout)
        return asyncio.create_task(executor.execute(attempt))

    slow = [call(host, 60) for host in dead]
    await names.until_asked(min(len(set(dead)), 6))
    assert await call("good.test", 5) == Success(result=b'{"status":200}', output="thanks")
    assert not any(task.done() for task in slow)
    await end(slow)
    names.release.set()
    await executor.stop()


async def test_one_host_is_looked_up_once_at_a_time(names: Names, lookups: NameLookups) -> None:
    slow = ask(lookups, *["a.dead.test"] * 12)
    await names.until_asked(1)
    slow += ask(lookups, *["a.dead.test"] * 12)
    assert await lookups("good.test", 443) == ["127.0.0.1"]
    assert names.asked == ["a.dead.test", "good.test"]
    names.release.set()
    results = await asyncio.gather(*slow, return_exceptions=True)
    assert {type(result) for result in results} == {socket.gaierror}
    with pytest.raises(socket.gaierror):
        await lookups("a.dead.test", 443)  # looked up anew: nothing is remembered
    assert names.asked[2:] == ["a.dead.test"]


async def test_caller_who_goes_leaves_the_look_up_to_the_others(names: Names, lookups: NameLookups) -> None:
    first, second = ask(lookups, "a.dead.test", "a.dead.test")
    await names.until_asked(1)
    await end([first])
    assert not second.done()
    names.release.set()
    with pytest.raises(socket.gaierror):
        await second


async def test_host_that_is_known_goes_through_whatever_number_of_others_does_not(
    names: Names, lookups: NameLookups
) -> None:
    assert await lookups("good.test", 443) == ["127.0.0.1"]
    slow = ask(lookups, *(f"{number}.dead.test" for number in range(MAX_LOOKUPS + 50)))
    await names.until_asked(1 + MAX_UNPROVEN)
    assert await lookups("good.test", 443) == ["127.0.0.1"]
    new = ask(lookups, "new.test")
    gone = ask(lookups, "gone.test")
    await asyncio.sleep(0)
    await end(gone)
    assert len(names.asked) == 2 + MAX_UNPROVEN
    names.release.set()
    assert await new[0] == ["127.0.0.1"]
    await asyncio.gather(*slow, return_exceptions=True)
    assert "gone.test" not in names.asked  # nobody waited for it any more


async def test_caller_waits_no_longer_than_the_limit(names: Names) -> None:
    lookups = NameLookups(names, limit=timedelta(seconds=0.05))
    with pytest.raises(SlowName):
        await lookups("a.dead.test", 443)
    lookups.close()


async def test_failure_says_that_the_name_was_slow(names: Names) -> None:
    executor = HttpExecutor(lookup=NameLookups(names, limit=timedelta(seconds=0.05)))
    await executor.start()
    outcome = await executor.execute(make_attempt({"url": "https://a.dead.test/"}, timeout=20))
    await executor.stop()
    message = "the host a.dead.test was not resolved within 0.05 s"
    assert outcome == Failure(error=message, cause=Cause(is_connection=True))


async def test_system_knows_the_hosts_file() -> None:
    lookups = NameLookups()
    assert set(await lookups("localhost", 443)) <= {"127.0.0.1", "::1"}
    lookups.close()
