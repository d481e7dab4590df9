"""Functions leave files behind from any thread or loop, and large results become files where that works."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.fields import MAX_PAYLOAD
from mainspring.core.ids import ArtifactId, SessionId
from mainspring.core.outcomes import Failure
from mainspring.core.results import LeftOut, read_mark
from mainspring.errors import Conflict
from mainspring.executors import FunctionExecutor
from mainspring.objects import ObjectsUnavailable
from mainspring.ports.artifacts import ArtifactUpload
from mainspring.ports.executor import Outcome, Success
from mainspring.registry import FunctionRegistry
from mainspring.signals import current_attempt
from tests.unit.executors.attempts import make_attempt

LARGE = "x" * (MAX_PAYLOAD + 1)


class Room:
    """Takes files into memory."""

    def __init__(self) -> None:
        self.uploads: list[ArtifactUpload] = []
        self.data: dict[str, bytes] = {}
        self.error: Exception | None = None

    async def put_artifact(self, session_id: SessionId, upload: ArtifactUpload) -> ArtifactId:
        """Take a file."""
        if self.error is not None:
            raise self.error
        self.uploads.append(upload)
        for _ in range(2):  # as a gateway that tries again
            with upload.open() as file:
                self.data[upload.name] = file.read()
        return ArtifactId(len(self.uploads))


class Bench:
    """An executor whose functions leave files in a room."""

    def __init__(self) -> None:
        self.registry, self.room = FunctionRegistry(), Room()
        self.executor = FunctionExecutor(self.registry, artifacts=self.room)

    async def run(self, function: Callable[..., Any]) -> Outcome:
        """Run a function once."""
        self.registry.add("it", function)
        return await self.executor.execute(make_attempt({"function": "it"}))


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    await bench.executor.start()
    yield bench
    await bench.executor.stop()


def result_of(outcome: Outcome) -> Any:
    assert isinstance(outcome, Success), outcome
    assert outcome.result is not None
    return json.loads(outcome.result)


async def test_an_async_function_leaves_files(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"from a path")

    async def function() -> list[str]:
        attempt = current_attempt()
        return [
            await attempt.artifact("a.csv", file),
            await attempt.artifact("b", str(file), content_type="text/x-own"),
            await attempt.artifact("c.bin", memoryview(b"bytes")),
            await attempt.artifact("d/e.txt", io.BytesIO(b"s" * 3_000_000)),
        ]

    outcome = await bench.run(function)
    assert result_of(outcome) == [f"art_{number:013}" for number in (1, 2, 3, 4)]
    assert bench.room.data == {
        "a.csv": b"from a path",
        "b": b"from a path",
        "c.bin": b"bytes",
        "d/e.txt": b"s" * 3_000_000,
    }
    types = [upload.content_type for upload in bench.room.uploads]
    assert types == ["text/csv", "text/x-own", "application/octet-stream", "text/plain"]
    assert {(upload.run_id, upload.token) for upload in bench.room.uploads} == {(256, 41)}


async def test_a_function_in_a_thread_leaves_files(bench: Bench) -> None:
    assert (
        result_of(await bench.run(lambda: current_attempt().artifact_sync("a", b"x"))) == "art_0000000000001"
    )
    assert bench.room.data == {"a": b"x"}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("../a", b"", "begins with a dot"),
        ("a", "/no/such/file", "there is no file /no/such/file"),
        ("a", 7, "must be a path, bytes or an open binary file, not a number"),
        ("a", io.StringIO("text"), "binary mode"),
    ],
)
async def test_odd_files_are_refused(bench: Bench, name: str, content: Any, words: str) -> None:
    async def function() -> None:
        await current_attempt().artifact(name, content)

    outcome = await bench.run(function)
    assert isinstance(outcome, Failure)
    assert words in outcome.error
    assert bench.room.uploads == []


async def test_what_the_room_refuses_is_raised_in_the_function(bench: Bench) -> None:
    bench.room.error = Conflict("lease", "is lost")

    async def function() -> str:
        try:
            return await current_attempt().artifact("a", b"x")
        except Conflict as error:
            return error.message

    assert result_of(await bench.run(function)) == "is lost"


async def large_async() -> str:
    return LARGE


async def large_after_a_wait() -> str:
    import asyncio

    await asyncio.sleep(0)
    return LARGE


def large_in_thread() -> str:
    return LARGE


FUNCTIONS = pytest.mark.parametrize("function", [large_async, large_after_a_wait, large_in_thread])


@FUNCTIONS
async def test_a_large_result_becomes_a_file(bench: Bench, function: Callable[[], Any]) -> None:
    found = result_of(await bench.run(function))
    [upload] = bench.room.uploads
    assert found == {
        "$artifact": "art_0000000000001",
        "size": len(LARGE) + 2,
        "sha256": upload.sha256.hex(),
    }
    assert (upload.is_result, upload.content_type) == (True, "application/json")
    assert json.loads(bench.room.data[upload.name]) == LARGE


@FUNCTIONS
async def test_a_large_result_that_cannot_be_a_file_is_left_out(
    bench: Bench, function: Callable[[], Any]
) -> None:
    bench.room.error = Conflict("artifacts.url", "is not set")
    outcome = await bench.run(function)
    assert isinstance(outcome, Success)
    mark = read_mark(outcome.result)
    assert mark is not None
    assert (mark.reason, mark.size) == (LeftOut.TOO_LARGE, len(LARGE) + 2)
    assert mark.note == "the result is 65,539 bytes of JSON; at most 65,536 can be kept"


@FUNCTIONS
async def test_a_result_that_is_left_out_says_why_it_became_no_file(
    bench: Bench, function: Callable[[], Any]
) -> None:
    bench.room.error = ObjectsUnavailable("there is no folder /srv/files")
    outcome = await bench.run(function)
    assert isinstance(outcome, Success)
    mark = read_mark(outcome.result)
    assert mark is not None
    assert mark.note.endswith("and it could not be kept as a file: there is no folder /srv/files")


async def test_without_a_room_a_large_result_is_left_out() -> None:
    registry = FunctionRegistry()
    registry.add("it", large_async)
    executor = FunctionExecutor(registry)
    await executor.start()
    outcome = await executor.execute(make_attempt({"function": "it"}))
    await executor.stop()
    assert isinstance(outcome, Success)
    assert read_mark(outcome.result) is not None


async def test_others_go_on_while_a_large_result_is_kept(bench: Bench) -> None:
    import asyncio

    going, begun = asyncio.Event(), asyncio.Event()

    class Slow(Room):
        async def put_artifact(self, session_id: SessionId, upload: ArtifactUpload) -> ArtifactId:
            begun.set()
            await going.wait()
            return await super().put_artifact(session_id, upload)

    registry = FunctionRegistry()
    registry.add("large", large_async)
    registry.add("small", lambda: 1)
    executor = FunctionExecutor(registry, artifacts=Slow())
    await executor.start()
    large = asyncio.create_task(executor.execute(make_attempt({"function": "large"}, run_id=512)))
    await begun.wait()
    assert await executor.execute(make_attempt({"function": "small"})) == Success(result=b"1")
    assert not large.done()
    going.set()
    assert "$artifact" in result_of(await large)
    await executor.stop()
