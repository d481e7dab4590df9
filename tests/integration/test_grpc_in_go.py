"""Calls of a gRPC server that is written in Go, built by the Go of this machine."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from mainspring.core.outcomes import Failure
from mainspring.executors import GrpcExecutor
from mainspring.ports.executor import Outcome, Success
from tests.unit.executors.attempts import make_attempt

SOURCE = Path(__file__).parents[1] / "support" / "go_grpc"
SERVICE = "grpc.testing.TestService"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("go")]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    if shutil.which("go") is None:
        reason = "Go is not installed; install it to test calls of a server in Go"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    program = tmp_path_factory.mktemp("go") / "server"
    environment = {**os.environ, "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"}
    subprocess.run(["go", "build", "-o", program, "."], cwd=SOURCE, env=environment, check=True)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        yield int(server.stdout.readline().removeprefix("listening on "))
        server.stdin.close()


@pytest.fixture
async def executor() -> AsyncIterator[GrpcExecutor]:
    executor = GrpcExecutor(allow=("127.0.0.0/8",))
    await executor.start()
    yield executor
    await executor.stop()


async def call(executor: GrpcExecutor, port: int, method: str, payload: object) -> Outcome:
    target = {"url": f"grpc://localhost:{port}", "method": f"{SERVICE}/{method}"}
    return await executor.execute(make_attempt(target, payload=json.dumps(payload).encode()))


async def test_server_is_described_by_the_newer_reflection(executor: GrpcExecutor, port: int) -> None:
    body = base64.b64encode(b"settled").decode()
    outcome = await call(executor, port, "UnaryCall", {"payload": {"body": body}})
    assert isinstance(outcome, Success), outcome
    assert outcome.result is not None
    answer = json.loads(outcome.result)
    assert answer["payload"] == {"type": "COMPRESSABLE", "body": body}
    assert answer["username"] == f"[localhost:{port}] [41]"


async def test_status_and_unknown_fields_are_told(executor: GrpcExecutor, port: int) -> None:
    told = {"responseStatus": {"code": 5, "message": "no such order"}}
    failure = await call(executor, port, "UnaryCall", told)
    assert isinstance(failure, Failure)
    assert (failure.error, failure.is_retryable) == ("NOT_FOUND: no such order", False)
    refused = await call(executor, port, "UnaryCall", {"responseSatus": {}})
    assert isinstance(refused, Failure)
    assert "responseSatus" in refused.error
    unimplemented = await call(executor, port, "EmptyCall", {})
    assert isinstance(unimplemented, Failure)
    assert unimplemented.error.startswith("UNIMPLEMENTED")
    streams = await call(executor, port, "FullDuplexCall", {})
    assert isinstance(streams, Failure)
    assert "streams" in streams.error
