import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

from mainspring.core.causes import Cause
from mainspring.core.definition import read_definition
from mainspring.core.model import DEFAULT_TIMEOUT
from mainspring.core.outcomes import Failure
from mainspring.errors import InvalidInput
from mainspring.executors import HttpExecutor
from mainspring.ports.executor import Outcome, Success
from mainspring.testing.factories import START
from tests.unit.executors.attempts import make_attempt

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Receiver:
    """A real server on loopback."""

    def __init__(self) -> None:
        self.port = 0
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.handler: Handler | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, dict(request.headers), await request.read()))
        return await self.handler(request) if self.handler else web.Response(text="thanks")

    def url(self, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}/hook?a=%2F"


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", receiver.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.port = runner.addresses[0][1]
    yield receiver
    await runner.cleanup()


async def call(
    params: dict[str, Any],
    *,
    payload: bytes | None = None,
    timeout: float = 20,
    limit: timedelta = timedelta(seconds=30),
    **options: Any,
) -> Outcome:
    executor = HttpExecutor(timeout=limit, **options)
    await executor.start()
    try:
        return await executor.execute(make_attempt(params, payload=payload, timeout=timeout))
    finally:
        await executor.stop()


async def fail(params: dict[str, Any], **options: Any) -> Failure:
    outcome = await call(params, **options)
    assert isinstance(outcome, Failure)
    return outcome


LOOPBACK = ("127.0.0.0/8",)


async def test_call_posts_the_payload_and_describes_the_attempt(receiver: Receiver) -> None:
    params = {"url": receiver.url(), "headers": {"x-own": "1"}}
    outcome = await call(params, payload=b'{"a": 1}', allow=LOOPBACK)
    assert outcome == Success(result=b'{"status":200}', output="thanks")
    method, headers, body = receiver.requests[0]
    assert (method, body) == ("POST", b'{"a": 1}')
    assert headers["Mainspring-Run-Id"] == "run_0000000000080"
    assert headers["Mainspring-Job-Id"].startswith("job_")
    assert headers["Mainspring-Attempt"] == "2"
    assert headers["Mainspring-Token"] == "41"
    assert headers["Mainspring-Fire-At"] == "2026-03-29T01:30:00Z"
    assert headers["Idempotency-Key"] == "key-1"
    assert headers["Content-Type"] == "application/json"
    assert headers["X-Own"] == "1"
    assert "Cookie" not in headers


@pytest.mark.parametrize(
    ("method", "body"), [("POST", b"{}"), ("put", b"{}"), ("GET", b""), ("DELETE", b"{}")]
)
async def test_body_without_a_payload(receiver: Receiver, method: str, body: bytes) -> None:
    await call({"url": receiver.url(), "method": method}, allow=LOOPBACK)
    assert receiver.requests[0][0] == method.upper()
    assert receiver.requests[0][2] == body


@pytest.mark.parametrize(
    ("status", "is_retryable"),
    [(400, True), (404, True), (410, False), (429, True), (500, True), (503, True)],
)
async def test_status_that_is_a_failure(receiver: Receiver, status: int, is_retryable: bool) -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=status, text="why")

    receiver.handler = handler
    assert await fail({"url": receiver.url()}, allow=LOOPBACK) == Failure(
        error=f"response status {status}",
        output="why",
        result=b'{"status":%d}' % status,
        is_retryable=is_retryable,
        cause=Cause(status=status),
    )


@pytest.mark.parametrize("status", range(301, 309))
async def test_redirects_are_not_followed(receiver: Receiver, status: int) -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": receiver.url(), "Set-Cookie": "a=b"})

    receiver.handler = handler
    failure = await fail({"url": receiver.url()}, allow=LOOPBACK)
    assert failure.error == f"response status {status}; redirects are not followed"
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    ("status", "value", "expected"),
    [
        (429, "7", timedelta(seconds=7)),
        (503, "999999999999", timedelta(hours=1)),
        (503, "Sun, 29 Mar 2026 01:30:30 GMT", timedelta(seconds=30)),
        (503, "Sun, 29 Mar 2020 01:30:30 GMT", timedelta(0)),
        (503, "Fri, 31 Dec 9999 23:59:59 GMT", timedelta(hours=1)),
        (429, "Sun Mar 29 01:30:02 2026", timedelta(seconds=2)),
        (429, "007", timedelta(seconds=7)),
        (429, "1.5", None),
        (429, "\u0667", None),
        (429, "soon", None),
        (429, "-1", None),
        (500, "7", None),
    ],
)
async def test_retry_after(receiver: Receiver, status: int, value: str, expected: timedelta | None) -> None:
    async def handler(request: web.Request) -> web.Response:
        headers = {"Retry-After": value, "Date": "Sun, 29 Mar 2026 01:30:00 GMT"}
        return web.Response(status=status, headers=headers)

    receiver.handler = handler
    assert (await fail({"url": receiver.url()}, allow=LOOPBACK)).retry_after == expected


async def test_endless_answer_is_cut(receiver: Receiver) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"\xff\0" * 8192)

    receiver.handler = handler
    outcome = await call({"url": receiver.url()}, allow=LOOPBACK)
    assert isinstance(outcome, Success)
    assert outcome.output is not None
    assert 65_536 <= len(outcome.output) < 65_700
    assert "\0" not in outcome.output


async def test_compressed_answer_is_not_unpacked(receiver: Receiver) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.Response(body=b"x" * 1000)
        response.enable_compression(web.ContentCoding.gzip)
        return response

    receiver.handler = handler
    outcome = await call({"url": receiver.url()}, allow=LOOPBACK)
    assert isinstance(outcome, Success)
    assert receiver.requests[0][1]["Accept-Encoding"] == "identity"
    assert "xxx" not in (outcome.output or "")


async def test_answer_that_never_ends_is_a_timeout_that_says_so(receiver: Receiver) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x")
            await asyncio.sleep(0.02)

    receiver.handler = handler
    failure = await fail({"url": receiver.url()}, allow=LOOPBACK, timeout=0.2)
    assert failure.is_timeout
    assert failure.error == "response status 200, but the answer was not complete within 0.2 s"


async def test_slow_answer_is_a_timeout(receiver: Receiver) -> None:
    async def handler(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    receiver.handler = handler
    failure = await fail({"url": receiver.url()}, allow=LOOPBACK, timeout=0.1)
    assert failure.is_timeout
    assert failure.error == "no answer within 0.1 s"


async def test_refused_connection_can_be_retried() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    failure = await fail({"url": f"http://127.0.0.1:{port}/"}, allow=LOOPBACK)
    assert failure.is_retryable
    assert failure.error == f"no connection to 127.0.0.1:{port}: Connection refused"


async def test_answer_that_is_not_http_can_be_retried() -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"secret of an internal host\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        failure = await fail({"url": f"http://127.0.0.1:{port}/"}, allow=LOOPBACK)
    assert failure.is_retryable
    assert "secret" not in failure.error


async def test_tls_is_checked(receiver: Receiver) -> None:
    failure = await fail({"url": receiver.url().replace("http:", "https:")}, allow=LOOPBACK)
    assert failure.is_retryable
    assert "TLS" in failure.error


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "0x7f.1",
        "2130706433",
        "0177.0.0.1",
        "127.1",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "[::1]",
    ],
)
@pytest.mark.parametrize("allow_http", [True, False])
async def test_loopback_is_never_connected_to(receiver: Receiver, host: str, allow_http: bool) -> None:
    failure = await fail({"url": receiver.url(host)}, allow_http=allow_http)
    assert not failure.is_retryable
    assert failure.error.startswith("blocked: ")
    assert receiver.requests == []


@pytest.mark.parametrize(
    "url", [None, 7, "http://a@127.0.0.1/", "http://example.com\\@127.0.0.1/", "ftp://a"]
)
async def test_url_that_is_none_is_refused(url: object) -> None:
    failure = await fail({"url": url}, allow=LOOPBACK)
    assert not failure.is_retryable
    assert "target.url" in failure.error


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["::1"], ["fe80::1%1"], []]
)
async def test_name_with_a_private_address_is_blocked(receiver: Receiver, addresses: list[str]) -> None:
    async def lookup(host: str, port: int) -> list[str]:
        return addresses

    failure = await fail({"url": receiver.url("rebind.example")}, lookup=lookup, allow_http=True)
    assert not failure.is_retryable
    assert failure.error.startswith("blocked: ")
    assert "127.0.0.1" not in failure.error
    assert receiver.requests == []


async def test_name_is_resolved_once_and_the_checked_address_is_used(receiver: Receiver) -> None:
    answers = [["127.0.0.1"], ["169.254.169.254"]]

    async def lookup(host: str, port: int) -> list[str]:
        return answers.pop(0)

    executor = HttpExecutor(allow=["127.0.0.1"], lookup=lookup)
    await executor.start()
    attempt = make_attempt({"url": receiver.url("rebind.example")})
    assert isinstance(await executor.execute(attempt), Success)
    assert len(answers) == 1
    assert receiver.requests[0][1]["Host"] == f"rebind.example:{receiver.port}"
    await executor.stop()
    await executor.start()
    outcome = await executor.execute(attempt)
    assert isinstance(outcome, Failure)
    assert outcome.error.startswith("blocked")
    await executor.stop()


async def test_name_that_cannot_be_resolved_can_be_retried() -> None:
    async def lookup(host: str, port: int) -> list[str]:
        raise socket.gaierror(-2, "Name or service not known")

    failure = await fail({"url": "https://no-such.example/"}, lookup=lookup)
    assert failure.is_retryable
    assert failure.error == "the host no-such.example cannot be resolved"


async def test_allowed_name_may_be_internal(receiver: Receiver) -> None:
    outcome = await call({"url": receiver.url("localhost")}, allow=[f"localhost:{receiver.port}"])
    assert isinstance(outcome, Success)


async def test_proxies_of_the_environment_are_not_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert isinstance(await call({"url": receiver.url()}, allow=LOOPBACK), Success)


@pytest.mark.parametrize(
    "params",
    [
        {"method": "CONNECT"},
        {"method": 7},
        {"headers": ["a"]},
        {"headers": {"Host": "a"}},
        {"headers": {"host": "a"}},
        {"headers": {"Mainspring-Token": "1"}},
        {"headers": {"Transfer-Encoding": "chunked"}},
        {"headers": {"a": "b\r\nc: d"}},
        {"headers": {"a b": "c"}},
        {"headers": {"a": 1}},
        {"headers": {"a": "\0"}},
        {"headers": {"a": "x" * 10_000}},
        {"methods": "GET"},
    ],
)
async def test_params_are_held_to_the_rules_of_a_definition(
    receiver: Receiver, params: dict[str, Any]
) -> None:
    target = {"url": receiver.url(), **params}
    with pytest.raises(InvalidInput) as refused:
        read_definition({"name": "x", "target": {"type": "http", **target}}, now=START)
    failure = await fail(target, allow=LOOPBACK)
    assert failure.error == str(refused.value)
    assert not failure.is_retryable
    assert receiver.requests == []


async def test_cancel_lets_go_of_the_call(receiver: Receiver) -> None:
    arrived = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        arrived.set()
        await asyncio.Event().wait()
        raise AssertionError

    receiver.handler = handler
    attempt = asyncio.ensure_future(call({"url": receiver.url()}, allow=LOOPBACK))
    await arrived.wait()
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt


async def test_many_calls_share_connections(receiver: Receiver) -> None:
    executor = HttpExecutor(allow=LOOPBACK)
    await executor.start()
    attempts = [make_attempt({"url": receiver.url()}, payload=json.dumps(n).encode()) for n in range(50)]
    outcomes = await asyncio.gather(*map(executor.execute, attempts))
    assert all(isinstance(outcome, Success) for outcome in outcomes)
    assert sorted(int(body) for _, _, body in receiver.requests) == list(range(50))
    await executor.stop()


async def _answer_late(request: web.Request) -> web.Response:
    await asyncio.sleep(0.3)
    return web.Response(text="at last")


async def test_limit_of_a_call_is_the_jobs_own(receiver: Receiver) -> None:
    receiver.handler = _answer_late
    outcome = await call({"url": receiver.url()}, allow=LOOPBACK, timeout=20, limit=timedelta(seconds=0.1))
    assert outcome == Success(result=b'{"status":200}', output="at last")


async def test_call_of_a_job_that_names_no_limit_has_a_short_one(receiver: Receiver) -> None:
    receiver.handler = _answer_late
    timeout = DEFAULT_TIMEOUT.total_seconds()
    failure = await fail(
        {"url": receiver.url()}, allow=LOOPBACK, timeout=timeout, limit=timedelta(seconds=0.1)
    )
    assert failure == Failure(error="no answer within 0.1 s", is_timeout=True)
