"""Callers that know several servers: one is enough to be answered, and what may not be repeated is not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from itertools import cycle

import pytest

from mainspring.core.ids import RunId, SessionId
from mainspring.engine.settling.reaper import DEADLINE_MARGIN
from mainspring.errors import InvalidInput, MainspringError, StoreUnavailable, Unreachable
from mainspring.ports.executor import Success
from mainspring.ports.gateway import ClaimCall, Registration, Report, ReportResult
from mainspring.sdk import http_gateway
from mainspring.sdk.client import AsyncClient
from mainspring.sdk.http_gateway import HttpGateway
from mainspring.sdk.transport import read_servers
from mainspring.testing.manual import ManualRuntime
from tests.unit.api.serving import make_api, serving, until

REGISTRATION = Registration(name="far", host="elsewhere", pid=7, slots=5)
NOBODY = "http://127.0.0.1:9"


class Keeps:
    """Leaves servers in the order in which they are named."""

    def random(self) -> float:
        return 0.5


class Turns:
    """Turns two servers round whenever they are shuffled."""

    def __init__(self) -> None:
        self._numbers = cycle([0.9, 0.1])

    def random(self) -> float:
        return next(self._numbers)


@contextlib.asynccontextmanager
async def odd_server(answer: bytes | None) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that gives always the same answer, hangs up on every request (b""), or never answers (None)."""
    requests: list[bytes] = []
    over = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append((await reader.readline()).rstrip())
        if answer is None:
            await over.wait()
        elif answer:
            writer.write(answer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", requests
        finally:
            over.set()


@pytest.fixture
async def good(runtime: ManualRuntime) -> AsyncIterator[str]:
    async with serving(make_api(runtime)) as address:
        yield address


@contextlib.asynccontextmanager
async def gateway(*servers: str) -> AsyncIterator[HttpGateway]:
    made = HttpGateway(",".join(servers), random=Keeps())
    await made.start()
    try:
        yield made
    finally:
        await made.close()


@pytest.mark.parametrize("text", ["", "a", "http://a,", "http://a,b", ","])
def test_what_is_no_address_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_servers(text)
    assert caught.value.field == "server"


def test_addresses_are_read_once_each() -> None:
    assert read_servers("http://a/, https://b ,http://a") == ("http://a", "https://b")


async def test_a_server_that_is_not_there_has_not_got_the_request(runtime: ManualRuntime, good: str) -> None:
    async with gateway(NOBODY, good) as far:
        session = await far.register(REGISTRATION)
    assert [found.id for found in await runtime.store.list_sessions()] == [session.id]
    async with AsyncClient(f"{NOBODY},{good}", random=Keeps()) as client:
        await client.create_job({"name": "a-job", "callback_url": "https://example.com/"})


async def test_a_request_whose_answer_is_missing_is_not_repeated_of_itself(good: str) -> None:
    async with odd_server(b"") as (bad, requests), AsyncClient(f"{bad},{good}", random=Keeps()) as client:
        body = {"name": "a-job", "callback_url": "https://example.com/"}
        with pytest.raises(Unreachable):
            await client.create_job(body)
        assert requests == [b"POST /api/v1/jobs HTTP/1.1"]
        await client.create_job(body)  # the caller's own repeat goes elsewhere
        assert len(requests) == 1


async def test_a_question_is_asked_elsewhere_at_once(good: str) -> None:
    async with odd_server(b"") as (bad, requests), AsyncClient(f"{bad},{good}", random=Keeps()) as client:
        assert (await client.list_jobs()).items == []
        asked = len(requests)  # the library asks once more by itself
        assert asked
        assert (await client.list_jobs()).items == []
        assert len(requests) == asked


async def test_a_server_whose_store_is_away_is_left(good: str) -> None:
    answer = b"HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n"
    async with odd_server(answer) as (bad, requests), gateway(bad, good) as far:
        with pytest.raises(StoreUnavailable):
            await far.register(REGISTRATION)
        await far.register(REGISTRATION)
        assert len(requests) == 1


async def test_a_heartbeat_goes_elsewhere_while_its_server_hangs(runtime: ManualRuntime, good: str) -> None:
    async with gateway(good, NOBODY) as near:
        session = await near.register(REGISTRATION)
    async with odd_server(None) as (bad, requests):
        far = HttpGateway(f"{bad},{good}", random=Keeps())
        far._silence = 0.05
        await far.start()
        try:
            assert (await far.beat(session.id, ())).is_session_live
        finally:
            await far.close()
        assert len(requests) == 1


async def test_a_heartbeat_has_the_more_part_of_its_period_for_the_first_of_several(good: str) -> None:
    async with gateway(good) as alone, gateway(good, NOBODY) as several:
        period = (await alone.register(REGISTRATION)).beat_period
        assert alone._silence > period.total_seconds()
        await several.register(REGISTRATION)
        assert timedelta(seconds=several._silence) == period * 0.6


async def test_what_waits_for_a_server_that_fell_silent_goes_elsewhere_with_the_first_that_finds_it_out(
    runtime: ManualRuntime, good: str
) -> None:
    """A claim may wait for its server half a minute; the others must not be without work for as long."""
    async with gateway(good) as near:
        session = await near.register(REGISTRATION)
    call = ClaimCall(session_id=session.id, number=1, limit=1, wait=timedelta(seconds=20), is_idle=True)
    report = Report(run_id=RunId(256), token=1, ending=Success())
    async with odd_server(None) as (bad, requests), gateway(bad, good) as far:
        claiming = asyncio.create_task(far.claim(call))
        reporting = asyncio.create_task(far.report(session.id, (report,)))
        await until(lambda: len(requests) == 2)
        far._silence = 0.05
        assert (await far.beat(session.id, ())).is_session_live
        assert await asyncio.wait_for(reporting, 10) == (ReportResult.MISSING,)
        with pytest.raises(Unreachable):
            await asyncio.wait_for(claiming, 10)
        repeated = replace(call, limit=0, wait=timedelta(0))
        assert (await far.claim(repeated)).is_session_live


async def test_what_may_not_move_waits_for_its_own_answer(good: str) -> None:
    async with (
        odd_server(None) as (bad, requests),
        AsyncClient(f"{bad},{good}", random=Keeps()) as client,
    ):
        body = {"name": "a-job", "callback_url": "https://example.com/"}
        creating = asyncio.create_task(client.create_job(body))
        await until(lambda: len(requests) == 1)
        client._move_others(bad)
        await asyncio.sleep(0)
        assert not creating.done()
        creating.cancel()


def test_a_report_goes_elsewhere_before_its_run_counts_as_timed_out() -> None:
    silences = 2 * timedelta(seconds=http_gateway._LONGEST_SILENCE)
    assert silences < DEADLINE_MARGIN


@pytest.mark.parametrize(
    ("body", "error", "told"),
    [
        (b"<html>", Unreachable, r"the answer of \S+ cannot be read: JSON is malformed"),
        (
            b"{}",
            MainspringError,
            r"the answer of \S+ is not what this release reads: Object missing required field",
        ),
    ],
)
async def test_an_answer_of_another_form_is_no_outage(
    body: bytes, error: type[MainspringError], told: str
) -> None:
    """Somebody else's page may be gone at the next try; what another release answers is not, so none may be made."""
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    async with odd_server(answer) as (odd, _), gateway(odd) as far:
        with pytest.raises(MainspringError, match=told) as caught:
            await far.register(REGISTRATION)
    assert type(caught.value) is error


async def test_nobody_answers(good: str) -> None:
    async with gateway(NOBODY, "http://127.0.0.1:7") as far:
        with pytest.raises(Unreachable, match=r"no answer from http://127\.0\.0\.1:7"):
            await far.beat(SessionId(1), ())


async def test_callers_spread_over_the_servers() -> None:
    chosen = {HttpGateway("http://a,http://b", random=kind())._transport._chosen for kind in (Keeps, Turns)}
    assert chosen == {"http://a", "http://b"}
