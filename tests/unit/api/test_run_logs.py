"""What a run writes is read over HTTP while it runs, by places, and followed until its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from mainspring.core.outcomes import Failure
from mainspring.core.run_logs import PIECE, LogPart, RunProgress, deflate
from mainspring.ports.executor import Success
from mainspring.ports.gateway import Lease, LogReport, LogResult, Report, ReportResult
from mainspring.registry import FunctionRegistry
from mainspring.sdk.client import AsyncClient
from mainspring.sdk.log_streams import LogStream
from mainspring.testing.manual import ManualRuntime, ManualWorker
from mainspring.wire.run_logs import OFFSET_HEADER
from tests.unit.api.serving import make_api, serving


class Scene:
    """A run under way on a real server, whose attempts write what they are told to."""

    def __init__(self, runtime: ManualRuntime, worker: ManualWorker, client: AsyncClient, url: str) -> None:
        self.runtime = runtime
        self.worker = worker
        self.client = client
        self.url = url
        self.run_id = ""
        self.lease: Lease | None = None
        self.places: dict[int, int] = {}

    @property
    def path(self) -> str:
        return f"{self.url}/api/v1/runs/{self.run_id}/logs"

    async def submit(self) -> None:
        body = {"name": "pay", "function": "work", "retry": {"delay": "1s", "max_retries": 1}}
        job = await self.client.create_job(body)
        self.run_id = (await self.client.submit_run(job.job_id)).run_id

    async def begin(self) -> Lease:
        [self.lease] = await self.worker.claim()
        return self.lease

    async def write(self, text: str, **more: Any) -> LogResult:
        assert self.lease is not None
        data, token = text.encode(), self.lease.token
        start = self.places.get(token, 0)
        self.places[token] = start + len(data)
        parts = (LogPart(start, len(data), deflate(data)),) if data else ()
        report = LogReport(self.lease.run_id, token, parts, **more)
        [result] = await self.runtime.gateway.log(self.worker.session_id, (report,))
        return result

    async def end(self, ending: Success | Failure) -> None:
        assert self.lease is not None
        report = Report(self.lease.run_id, self.lease.token, ending)
        assert await self.worker.report(report) == [ReportResult.APPLIED]


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    registry = FunctionRegistry()
    registry.add("work", lambda: None)
    async with (
        ManualRuntime(registry) as runtime,
        serving(make_api(runtime)) as url,
        AsyncClient(url) as client,
    ):
        scene = Scene(runtime, await runtime.worker(), client, url)

        async def pump() -> None:
            while True:
                await runtime.tick("log-feed")
                await asyncio.sleep(0.005)

        pumping = asyncio.create_task(pump())
        yield scene
        pumping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await pumping


async def read_on(stream: LogStream, client: AsyncClient) -> str:
    async with asyncio.timeout(10):
        event = await stream.read(client)
    return "" if event is None else event.text


async def test_what_is_written_can_be_read_before_the_end_from_any_place(scene: Scene) -> None:
    await scene.submit()
    assert await scene.client.get_run_logs(scene.run_id) == "", "it has not begun"
    await scene.begin()
    await scene.write("one\ntwo\n")
    assert await scene.client.get_run_logs(scene.run_id) == "one\ntwo\n"
    async with httpx.AsyncClient() as http:
        answer = await http.get(scene.path, params={"offset": "4"})
        assert answer.text == "two\n"
        assert answer.headers[OFFSET_HEADER] == "8"
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        beyond = await http.get(scene.path, params={"offset": "99"})
        assert (beyond.text, beyond.headers[OFFSET_HEADER]) == ("", "99")


async def test_what_ended_at_once_has_the_output_of_its_report(scene: Scene) -> None:
    await scene.submit()
    await scene.begin()
    await scene.end(Success(output="short\n"))
    assert await scene.client.get_run_logs(scene.run_id) == "short\n"
    assert await scene.client.get_run_logs(scene.run_id, offset=2) == "ort\n"
    assert [line async for line in scene.client.follow_logs(scene.run_id)] == ["short"]


async def test_a_follower_gets_what_is_written_until_the_run_has_ended(scene: Scene) -> None:
    await scene.submit()
    await scene.begin()
    await scene.write("one\n")
    stream = LogStream(scene.run_id)
    assert await read_on(stream, scene.client) == "one\n"
    await scene.write("two\n")
    assert await read_on(stream, scene.client) == "two\n"
    await scene.write("three\n")
    await scene.end(Success(output="the report's"))
    assert await read_on(stream, scene.client) == "three\n"
    assert await read_on(stream, scene.client) == ""
    assert stream.status == "SUCCEEDED"


async def test_a_follower_gets_much_in_bounded_pieces(scene: Scene) -> None:
    """Of what it does not take, the server holds a piece."""
    await scene.submit()
    await scene.begin()
    text = "".join(f"{number:07}\n" for number in range(PIECE // 8))
    for _ in range(12):
        await scene.write(text)
    stream, sizes = LogStream(scene.run_id), [0]
    while sum(sizes) < 12 * PIECE:
        sizes.append(len(await read_on(stream, scene.client)))
    for _ in range(12):
        await scene.write(text)
    await scene.end(Success())
    while sum(sizes) < 24 * PIECE:
        sizes.append(len(await read_on(stream, scene.client)))
    assert sum(sizes) == 24 * PIECE
    assert max(sizes) <= 4 * PIECE


async def test_a_follower_whose_connection_broke_goes_on_where_it_was(scene: Scene) -> None:
    await scene.submit()
    await scene.begin()
    await scene.write("one\ntwo\n")
    stream = LogStream(scene.run_id)
    assert await read_on(stream, scene.client) == "one\ntwo\n"
    await stream.close()
    await scene.write("three\n")
    assert await read_on(stream, scene.client) == "three\n"
    async with httpx.AsyncClient() as http:
        wanted = {"Last-Event-ID": f"{scene.lease.token}.4"}  # type: ignore[union-attr]
        async with http.stream("GET", scene.path, params={"follow": "true"}, headers=wanted) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            lines = answer.aiter_lines()
            assert [await anext(lines) for _ in range(3)] == [
                f"id: {scene.lease.token}.14",  # type: ignore[union-attr]
                "event: log",
                'data: {"attempt":1,"text":"two\\nthree\\n"}',
            ]


async def test_a_follower_goes_on_with_the_next_attempt_or_ends_with_its_own(scene: Scene) -> None:
    await scene.submit()
    first = await scene.begin()
    await scene.write("one\n")
    own, all_of_them = LogStream(scene.run_id, 1), LogStream(scene.run_id)
    for stream in (own, all_of_them):
        assert await read_on(stream, scene.client) == "one\n"
    await scene.end(Failure(error="no"))
    assert await read_on(own, scene.client) == ""
    assert own.status == "RETRYING"
    await scene.runtime.advance(3)
    second = await scene.begin()
    assert second.token > first.token
    await scene.write("two\n")
    await scene.runtime.advance(1)  # nobody is told of a begin: it is looked for once a second
    async with asyncio.timeout(10):
        event = await all_of_them.read(scene.client)
    assert event is not None
    assert (event.attempt, event.text) == (2, "two\n")
    await scene.end(Success())
    assert await read_on(all_of_them, scene.client) == ""
    assert await scene.client.get_run_logs(scene.run_id, attempt=1) == "one\n"
    assert await scene.client.get_run_logs(scene.run_id) == "two\n"


async def test_what_a_killed_worker_had_sent_stays(scene: Scene) -> None:
    await scene.submit()
    first = await scene.begin()
    await scene.write("before\n")
    await scene.runtime.gateway.leave(scene.worker.session_id)
    await scene.runtime.advance(20)
    assert await scene.write("late\n") is LogResult.STALE
    await scene.worker.register()
    scene.lease = (await scene.worker.claim())[0]
    assert scene.lease.attempt == first.attempt, "a loss uses up no attempt"
    await scene.write("again\n")
    assert await scene.client.get_run_logs(scene.run_id) == "before\nagain\n"
    assert await scene.client.get_run_logs(scene.run_id, offset=7) == "again\n"


async def test_progress_is_shown_with_the_run(scene: Scene) -> None:
    await scene.submit()
    await scene.begin()
    await scene.runtime.advance(1)
    assert (await scene.client.get_run(scene.run_id)).progress is None
    await scene.write("", progress=RunProgress(3.0, 10.0, "reading"))
    told = (await scene.client.get_run(scene.run_id)).progress
    assert told is not None
    assert (told.done, told.total, told.message) == (3.0, 10.0, "reading")


WRONG = [
    ({"attempt": "7"}, {}, 404, "attempt"),
    ({"attempt": "7", "follow": "true"}, {}, 404, "attempt"),
    ({"attempt": "0"}, {}, 422, "attempt"),
    ({"offset": "-1"}, {}, 422, "offset"),
    ({"follow": "yes"}, {}, 422, "follow"),
    ({"follow": "true", "offset": "3"}, {}, 422, "offset"),
    ({"follow": "true"}, {"Last-Event-ID": "x"}, 422, "last-event-id"),
    ({"follow": "true"}, {"Last-Event-ID": f"1.{2**60}"}, 422, "last-event-id"),
    ({}, {"Last-Event-ID": "1.2"}, 422, "last-event-id"),
]


@pytest.mark.parametrize(("query", "headers", "status", "named"), WRONG)
async def test_wrong_input_is_refused_by_name(
    scene: Scene, query: dict[str, str], headers: dict[str, str], status: int, named: str
) -> None:
    await scene.submit()
    async with httpx.AsyncClient() as http:
        answer = await http.get(scene.path, params=query, headers=headers)
    assert answer.status_code == status, answer.text
    assert named in answer.text


async def test_there_is_nothing_of_a_run_that_there_is_not(scene: Scene) -> None:
    scene.run_id = "run_0000000000zzz"
    async with httpx.AsyncClient() as http:
        for query in ({}, {"follow": "true"}):
            assert (await http.get(scene.path, params=query)).status_code == 404


async def test_followers_that_leave_are_forgotten(scene: Scene) -> None:
    await scene.submit()
    await scene.begin()
    await scene.write("one\n")
    stream = LogStream(scene.run_id)
    await read_on(stream, scene.client)
    feed: Any = scene.runtime.services["log-feed"]
    assert feed.followers == 1
    await stream.close()
    async with asyncio.timeout(10):
        while feed.followers:  # noqa: ASYNC110 -- nobody is told that a socket has closed
            await asyncio.sleep(0.01)
