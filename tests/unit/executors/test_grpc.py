"""Calls of a real gRPC server."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring.config.secret_settings import SecretPlace
from mainspring.config.secrets import ConfiguredSecrets
from mainspring.core.causes import Cause
from mainspring.core.definition import read_definition
from mainspring.core.ids import RunId, format_run_id
from mainspring.core.outcomes import Failure
from mainspring.core.results import read_mark
from mainspring.egress.secrets import Revealer
from mainspring.errors import InvalidInput
from mainspring.executors import GrpcExecutor
from mainspring.executors._grpc.protocols import status_messages
from mainspring.executors.grpc import _without_secrets, read_endpoint
from mainspring.ports.executor import Outcome, Success
from mainspring.testing.factories import START
from tests.support.certificates import Pair, make_authority, make_certificate
from tests.support.grpc_server import Orders, serving, write_descriptors
from tests.unit.executors.attempts import make_attempt

METHOD = "shop.v1.Orders/Settle"
LOOPBACK = ("127.0.0.0/8",)
SECRET = "hunter2-hunter2"
SECRETS = ConfiguredSecrets([SecretPlace("token", "env:TOKEN", ("default",))], {"TOKEN": SECRET})


@asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[GrpcExecutor]:
    executor = GrpcExecutor(**{"allow": LOOPBACK, "secrets": SECRETS, **options})
    await executor.start()
    try:
        yield executor
    finally:
        await executor.stop()


@pytest.fixture
async def orders() -> AsyncIterator[Orders]:
    async with serving() as orders:
        yield orders


@pytest.fixture
async def executor() -> AsyncIterator[GrpcExecutor]:
    async with opened() as executor:
        yield executor


async def call(
    executor: GrpcExecutor, orders: Orders, payload: object = None, *, timeout: float = 20, **params: Any
) -> Outcome:
    target = {"url": f"grpc://127.0.0.1:{orders.port}", "method": METHOD, **params}
    text = None if payload is None else json.dumps(payload).encode()
    return await executor.execute(make_attempt(target, payload=text, timeout=timeout))


async def fail(executor: GrpcExecutor, orders: Orders, payload: object = None, **params: Any) -> Failure:
    outcome = await call(executor, orders, payload, **params)
    assert isinstance(outcome, Failure), outcome
    return outcome


async def test_payload_and_answer_are_the_messages_in_json(executor: GrpcExecutor, orders: Orders) -> None:
    payload = {"order": "A-1", "cents": 1290, "due": "2026-03-01T08:00:00Z"}
    outcome = await call(executor, orders, payload)
    assert isinstance(outcome, Success)
    assert outcome.result is not None
    assert json.loads(outcome.result) == {
        "order": "A-1",
        "cents": "1290",
        "fail": "",
        "wait": 0.0,
        "due": "2026-03-01T08:00:00Z",
    }


@pytest.mark.parametrize("payload", [b"null", None, b"{}"])
async def test_no_payload_is_an_empty_message(
    executor: GrpcExecutor, orders: Orders, payload: bytes | None
) -> None:
    target = {"url": f"grpc://127.0.0.1:{orders.port}", "method": METHOD}
    assert isinstance(await executor.execute(make_attempt(target, payload=payload)), Success)


async def test_metadata_tell_which_attempt_it_is(executor: GrpcExecutor, orders: Orders) -> None:
    await call(executor, orders, headers={"x-shop": "7"})
    (metadata,) = orders.metadata
    told = {name: text for name, text in metadata.items() if name.startswith(("mainspring-", "x-", "idem"))}
    assert told == {
        "x-shop": "7",
        "mainspring-run-id": format_run_id(RunId(256)),
        "mainspring-job-id": told["mainspring-job-id"],
        "mainspring-attempt": "2",
        "mainspring-token": "41",
        "mainspring-fire-at": "2026-03-29T01:30:00Z",
        "idempotency-key": "key-1",
    }


async def test_secrets_go_out_and_do_not_come_back(executor: GrpcExecutor, orders: Orders) -> None:
    headers = {"authorization": "Bearer ${secret:token}"}
    outcome = await call(executor, orders, {"order": SECRET}, headers=headers)
    assert orders.metadata[0]["authorization"] == f"Bearer {SECRET}"
    assert isinstance(outcome, Success)
    assert outcome.result is not None
    assert json.loads(outcome.result)["order"] == "***"
    orders.details = f"wrong: {SECRET}"
    failure = await fail(executor, orders, {"fail": "UNAUTHENTICATED"}, headers=headers)
    assert failure.error == "UNAUTHENTICATED: wrong: ***"
    missing = await fail(executor, orders, headers={"a": "${secret:absent}"})
    assert "absent" in missing.error
    assert missing.is_retryable


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ({"oder": "A-1"}, 'has no field named "oder"'),
        ({"cents": "many"}, "cents"),
        ([1], "shop.v1.SettleRequest"),
        ("text", "shop.v1.SettleRequest"),
    ],
)
async def test_payload_that_does_not_fit_is_refused(
    executor: GrpcExecutor, orders: Orders, payload: object, words: str
) -> None:
    failure = await fail(executor, orders, payload)
    assert failure.error.startswith("the payload does not fit shop.v1.SettleRequest: ")
    assert words in failure.error
    assert not failure.is_retryable
    assert orders.metadata == []


@pytest.mark.parametrize(
    ("status", "is_retryable"),
    [
        ("INVALID_ARGUMENT", False),
        ("NOT_FOUND", False),
        ("ALREADY_EXISTS", False),
        ("PERMISSION_DENIED", False),
        ("UNAUTHENTICATED", False),
        ("FAILED_PRECONDITION", False),
        ("OUT_OF_RANGE", False),
        ("UNIMPLEMENTED", False),
        ("DATA_LOSS", False),
        ("UNKNOWN", True),
        ("ABORTED", True),
        ("INTERNAL", True),
        ("RESOURCE_EXHAUSTED", True),
        ("CANCELLED", True),
        ("UNAVAILABLE", True),
    ],
)
async def test_status_decides_on_retries(
    executor: GrpcExecutor, orders: Orders, status: str, is_retryable: bool
) -> None:
    failure = await fail(executor, orders, {"fail": status})
    assert failure.error == f"{status}: no such order"
    assert failure.is_retryable == is_retryable
    assert failure.result == b'{"status":"%b"}' % status.encode()
    assert failure.cause == Cause(exceptions=(f"grpc.{status}",), is_connection=status == "UNAVAILABLE")
    assert not failure.is_timeout


async def test_deadline_is_a_time_out(executor: GrpcExecutor, orders: Orders) -> None:
    failure = await fail(executor, orders, {"wait": 60}, timeout=0.5)
    assert (failure.error, failure.is_timeout) == ("no answer within 0.5 s", True)
    told = await fail(executor, orders, {"fail": "DEADLINE_EXCEEDED"})
    assert (told.error, told.is_timeout) == ("DEADLINE_EXCEEDED: no such order", True)


async def test_cancel_reaches_the_server(executor: GrpcExecutor, orders: Orders) -> None:
    running = asyncio.ensure_future(call(executor, orders, {"wait": 60}))
    await orders.is_entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    async with asyncio.timeout(20):
        await orders.is_cancelled.wait()


@pytest.mark.parametrize(
    ("seconds", "nanos", "expected"),
    [(7, 500_000_000, timedelta(seconds=7.5)), (90_000, 0, timedelta(hours=1)), (-5, 0, timedelta(0))],
)
async def test_retry_info_puts_the_retry_off(
    executor: GrpcExecutor, orders: Orders, seconds: int, nanos: int, expected: timedelta
) -> None:
    status, info = status_messages()
    told = info()
    told.retry_delay.seconds, told.retry_delay.nanos = seconds, nanos
    answer = status(code=8, message="slow down")
    detail = answer.details.add()
    detail.type_url, detail.value = "type.googleapis.com/google.rpc.RetryInfo", told.SerializeToString()
    orders.trailing = (("grpc-status-details-bin", answer.SerializeToString()),)
    failure = await fail(executor, orders, {"fail": "RESOURCE_EXHAUSTED"})
    assert failure.retry_after == expected


async def test_broken_details_are_no_details(executor: GrpcExecutor, orders: Orders) -> None:
    orders.trailing = (("grpc-status-details-bin", b"\xff\xff\xff"),)
    assert (await fail(executor, orders, {"fail": "ABORTED"})).retry_after is None


@pytest.mark.parametrize("name", ["shop.v1.Orders", ""])
async def test_server_that_does_not_serve_is_asked_again_later(
    executor: GrpcExecutor, orders: Orders, name: str
) -> None:
    await orders.set_health(name, "NOT_SERVING")
    failure = await fail(executor, orders)
    assert "is not serving" in failure.error
    assert failure.is_retryable
    assert orders.metadata == []
    await orders.set_health(name, "SERVING")
    assert isinstance(await call(executor, orders), Success)
    await orders.set_health(name, "NOT_SERVING")  # only a new channel asks
    assert isinstance(await call(executor, orders), Success)


async def test_server_without_health_is_called(executor: GrpcExecutor) -> None:
    async with serving(has_health=False) as orders:
        assert isinstance(await call(executor, orders), Success)


async def test_server_without_reflection_needs_a_file(executor: GrpcExecutor, tmp_path: Path) -> None:
    async with serving(has_reflection=False) as orders:
        failure = await fail(executor, orders, {"order": "A-1"})
        assert "executors.grpc.descriptors" in failure.error
        assert not failure.is_retryable
        path = write_descriptors(tmp_path / "shop.pb")
        async with opened(descriptors=(path,)) as told:
            assert isinstance(await call(told, orders, {"order": "A-1"}), Success)


def test_file_that_lacks_its_imports_may_use_those_of_protobuf(tmp_path: Path) -> None:
    GrpcExecutor(descriptors=(write_descriptors(tmp_path / "shop.pb", is_whole=False),))


@pytest.mark.parametrize("data", [None, b"\xff\xff"])
def test_file_that_is_no_descriptor_is_refused(tmp_path: Path, data: bytes | None) -> None:
    path = tmp_path / "shop.pb"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(InvalidInput, match=r"executors\.grpc\.descriptors"):
        GrpcExecutor(descriptors=(str(path),))


async def test_what_the_server_learnt_since_is_asked_for(executor: GrpcExecutor) -> None:
    async with serving() as orders:
        port = orders.port
        assert "has no field" in (await fail(executor, orders, {"note": "x"})).error
        assert isinstance(await call(executor, orders, {"order": "A-1"}), Success)
    async with serving(port=port, fields=("note",)) as orders:
        assert isinstance(await call(executor, orders, {"note": "x"}), Success)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("shop.v1.Orders/Follow", "streams"),
        ("shop.v1.Orders/Setle", "has no method 'Setle'"),
        ("shop.v1.Odrers/Settle", "does not know shop.v1.Odrers"),
    ],
)
async def test_method_that_is_not_there_or_streams_is_refused(
    executor: GrpcExecutor, orders: Orders, method: str, words: str
) -> None:
    failure = await fail(executor, orders, method=method)
    assert words in failure.error
    assert not failure.is_retryable


async def test_nobody_there_is_a_failed_connection_without_addresses(executor: GrpcExecutor) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    orders = Orders()
    orders.port = port
    failure = await fail(executor, orders, url=f"grpc://localhost:{port}")
    assert failure.error == f"no connection to localhost:{port}: Connection refused"
    assert failure.cause == Cause(is_connection=True, exceptions=("grpc.UNAVAILABLE",))
    assert failure.is_retryable


@pytest.mark.parametrize(
    ("url", "addresses", "words"),
    [
        ("grpcs://orders.test", ["10.1.2.3"], "not a public address"),
        ("grpcs://orders.test", ["203.0.113.7", "169.254.169.254"], "not a public address"),
        ("grpc://orders.test:443", ["93.184.215.14"], "only grpcs"),
        ("grpcs://orders.test:50051", ["93.184.215.14"], "port 50051"),
        ("grpcs://2130706433", ["127.0.0.1"], "not a public address"),
    ],
)
async def test_policy_refuses_addresses(url: str, addresses: list[str], words: str) -> None:
    async def lookup(host: str, port: int) -> list[str]:
        return addresses

    async with opened(allow=(), lookup=lookup) as executor:
        outcome = await executor.execute(make_attempt({"url": url, "method": METHOD}))
    assert isinstance(outcome, Failure)
    assert outcome.error.startswith("blocked: ")
    assert words in outcome.error
    assert not outcome.is_retryable


@pytest.mark.parametrize(
    "url",
    [
        "unix:/run/shop.sock",
        "dns:///orders.test",
        "https://orders.test",
        "grpcs://",
        "grpcs://orders.test/path",
        "grpcs://me@orders.test",
        "grpcs://orders.test?x",
        "orders.test:443",
    ],
)
def test_other_addresses_are_refused_in_a_definition(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"^target.url: "):
        read_definition({"name": "x", "target": {"type": "grpc", "url": url, "method": METHOD}}, now=START)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("method", "Settle"),
        ("method", "shop.v1.Orders.Settle"),
        ("method", "shop..Orders/Settle"),
        ("headers", {"Authorization": "x"}),
        ("headers", {"grpc-timeout": "1S"}),
        ("headers", {"x-bin": "x"}),
        ("headers", {"mainspring-token": "1"}),
        ("headers", {"x": "ü"}),
        ("headers", {"traceparent": "x"}),
        ("payload", {}),
    ],
)
def test_wrong_parameters_are_refused(field: str, value: object) -> None:
    target = {"type": "grpc", "url": "grpcs://orders.test", "method": METHOD, field: value}
    with pytest.raises(InvalidInput, match=rf"^target\.{field}"):
        read_definition({"name": "x", "target": target}, now=START)


def test_ports_are_the_usual_ones() -> None:
    assert read_endpoint("grpcs://orders.test").port == 443
    assert read_endpoint("GRPC://Orders.Test/").port == 80
    assert read_endpoint("grpcs://[2001:db8::1]:8443").host == "2001:db8::1"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_authority(tmp_path_factory.mktemp("authority"))


async def test_certificate_is_checked_by_the_name_in_the_address(authority: Pair, tmp_path: Path) -> None:
    async def lookup(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    pair = make_certificate(tmp_path, authority)
    async with serving(pair=pair) as orders, opened(ca=str(authority.cert), lookup=lookup) as executor:
        assert isinstance(await call(executor, orders, url=f"grpcs://localhost:{orders.port}"), Success)
        failure = await fail(executor, orders, url=f"grpcs://orders.test:{orders.port}")
        assert failure.error == f"the certificate of orders.test:{orders.port} is not accepted"


async def test_unknown_authority_is_not_accepted(authority: Pair, tmp_path: Path) -> None:
    pair = make_certificate(tmp_path, authority)
    async with serving(pair=pair) as orders, opened() as executor:
        failure = await fail(executor, orders, url=f"grpcs://localhost:{orders.port}")
    assert failure.error == f"the certificate of localhost:{orders.port} is not accepted"
    assert failure.is_retryable


def test_result_that_a_secret_would_break_is_left_out() -> None:
    revealer = Revealer(SECRETS, "default")
    revealer.remember("123456.5")
    mark = read_mark(_without_secrets(b'{"wait":123456.5}', revealer))
    assert mark is not None
    assert mark.note == "the answer holds a secret"
    assert _without_secrets(b'{"wait":"123456.5"}', revealer) == b'{"wait":"***"}'
