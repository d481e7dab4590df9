"""Files of runs over HTTP: a worker asks, puts and confirms; others list and fetch. Fenced, whole, and safe."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from mainspring.core.artifacts import MOST_ARTIFACTS
from mainspring.core.ids import format_run_id
from mainspring.objects import ObjectPlace, open_streams
from mainspring.ports.executor import Success
from mainspring.ports.gateway import Lease, Report
from mainspring.registry import FunctionRegistry
from mainspring.testing.manual import ManualRuntime, ManualWorker
from mainspring.wire.protocol import show_session
from tests.unit.api.asgi import api_of, client_of

DATA = bytes(range(256)) * 40
ASK = "/api/v1/worker/artifacts"
CONFIRM = f"{ASK}/confirm"


def files_in(folder: Path) -> list[str]:
    """Return the names of all files, also of those in the making."""
    return sorted(one.relative_to(folder).as_posix() for one in folder.rglob("*") if one.is_file())


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[ManualRuntime]:
    registry = FunctionRegistry()
    registry.add("work", lambda **_: "done")
    files = open_streams(ObjectPlace("folder", str(tmp_path)), feature="", extra="")
    async with ManualRuntime(registry, files=files) as runtime:
        yield runtime


@pytest.fixture
async def http(runtime: ManualRuntime) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(api_of(runtime)) as client:
        yield client


class Held:
    """A run that a worker holds."""

    def __init__(self, http: httpx.AsyncClient, worker: ManualWorker, lease: Lease) -> None:
        self.http, self.worker, self.lease = http, worker, lease
        self.run = format_run_id(lease.run_id)
        self.session = show_session(worker.session_id)

    def offer(self, data: bytes = DATA, **overrides: Any) -> dict[str, Any]:
        """Return what a worker says of a file."""
        return {
            "session_id": self.session,
            "run_id": self.run,
            "token": self.lease.token,
            "name": "report.pdf",
            "content_type": "application/pdf",
            "size": len(data),
            "sha256": sha256(data).hexdigest(),
            **overrides,
        }

    async def ask(self, data: bytes = DATA, **overrides: Any) -> httpx.Response:
        """Ask where a file goes."""
        return await self.http.post(ASK, json=self.offer(data, **overrides))

    async def keep(self, data: bytes = DATA, **overrides: Any) -> dict[str, Any]:
        """Ask, put and confirm."""
        asked = await self.ask(data, **overrides)
        assert asked.status_code == 201, asked.text
        place = asked.json()
        put = await self.http.put(place["url"], content=data, headers=place["headers"])
        assert put.status_code == 200, put.text
        return await self.confirm(place["artifact_id"])

    async def confirm(self, artifact_id: str) -> dict[str, Any]:
        """Confirm that the bytes are there."""
        done = await self.http.post(CONFIRM, json={"session_id": self.session, "artifact_id": artifact_id})
        assert done.status_code == 200, done.text
        body: dict[str, Any] = done.json()
        return body

    async def end(self) -> None:
        """End the run well."""
        await self.worker.report(
            Report(run_id=self.lease.run_id, token=self.lease.token, ending=Success(result=b"1"))
        )

    async def listed(self) -> list[str]:
        """Return the names of the run's files."""
        found = await self.http.get(f"/api/v1/runs/{self.run}/artifacts")
        assert found.status_code == 200, found.text
        return [item["name"] for item in found.json()["items"]]


@pytest.fixture
async def held(runtime: ManualRuntime, http: httpx.AsyncClient) -> Held:
    made = await http.post(
        "/api/v1/jobs", json={"name": "report", "function": "work", "retry": {"max_retries": 3}}
    )
    assert made.status_code == 201, made.text
    await http.post(f"/api/v1/jobs/{made.json()['job_id']}/runs", json={})
    worker = await runtime.worker()
    [lease] = await worker.claim()
    return Held(http, worker, lease)


async def test_a_file_is_asked_for_put_confirmed_listed_and_fetched(held: Held, tmp_path: Path) -> None:
    kept = await held.keep()
    assert (kept["name"], kept["size"], kept["is_result"]) == ("report.pdf", len(DATA), False)
    assert await held.confirm(kept["artifact_id"]) == kept
    await held.end()
    assert await held.listed() == ["report.pdf"]
    path = f"/api/v1/artifacts/{kept['artifact_id']}"
    assert (await held.http.get(path)).json() == kept
    fetched = await held.http.get(f"{path}/content")
    assert (fetched.status_code, fetched.content) == (200, DATA)
    assert fetched.headers["content-type"] == "application/pdf"
    assert fetched.headers["content-disposition"].startswith('attachment; filename="report.pdf"')
    assert fetched.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in fetched.headers["content-security-policy"]
    assert files_in(tmp_path) == [f"default/{held.run}/{held.lease.token}/report.pdf"]


@pytest.mark.parametrize(
    ("asked", "status", "start", "stop"),
    [
        ("bytes=0-9", 206, 0, 10),
        ("bytes=100-", 206, 100, len(DATA)),
        ("bytes=-7", 206, len(DATA) - 7, len(DATA)),
        (f"bytes=10-{10**9}", 206, 10, len(DATA)),
        ("bytes=0-1,5-6", 200, 0, len(DATA)),
        ("bytes=9-3", 200, 0, len(DATA)),
        ("lines=1-2", 200, 0, len(DATA)),
    ],
)
async def test_a_range_of_a_file_is_sent(held: Held, asked: str, status: int, start: int, stop: int) -> None:
    kept = await held.keep()
    answer = await held.http.get(f"/api/v1/artifacts/{kept['artifact_id']}/content", headers={"Range": asked})
    assert (answer.status_code, answer.content) == (status, DATA[start:stop])
    expected = f"bytes {start}-{stop - 1}/{len(DATA)}" if status == 206 else None
    assert answer.headers.get("content-range") == expected


async def test_a_range_that_is_not_there_is_refused(held: Held) -> None:
    kept = await held.keep()
    path = f"/api/v1/artifacts/{kept['artifact_id']}/content"
    answer = await held.http.get(path, headers={"Range": f"bytes={len(DATA)}-"})
    assert (answer.status_code, answer.headers["content-range"]) == (416, f"bytes */{len(DATA)}")


async def test_an_empty_file_is_kept(held: Held) -> None:
    kept = await held.keep(b"", name="empty")
    fetched = await held.http.get(f"/api/v1/artifacts/{kept['artifact_id']}/content")
    assert (fetched.status_code, fetched.content) == (200, b"")


async def test_what_is_not_whole_is_not_shown(held: Held, tmp_path: Path) -> None:
    asked = (await held.ask()).json()
    for data, field in ((DATA[:-1], "body"), (DATA + b"x", "body"), (DATA[:-1] + b"x", "sha256")):
        answer = await held.http.put(asked["url"], content=data)
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["field"] == field
    answer = await held.http.post(
        CONFIRM, json={"session_id": held.session, "artifact_id": asked["artifact_id"]}
    )
    assert (answer.status_code, "have not arrived" in answer.json()["detail"]) == (409, True)
    assert await held.listed() == []
    assert (await held.http.get(f"/api/v1/artifacts/{asked['artifact_id']}")).status_code == 404
    assert files_in(tmp_path) == []


async def test_bytes_are_put_once(held: Held) -> None:
    kept = await held.keep()
    url = f"/api/v1/artifacts/{kept['artifact_id']}/content?session_id={held.session}"
    answer = await held.http.put(url, content=DATA)
    assert (answer.status_code, "there already" in answer.json()["detail"]) == (409, True)
    answer = await held.ask()
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (409, "name")


async def test_only_the_last_attempts_files_are_shown(runtime: ManualRuntime, held: Held) -> None:
    kept, late = await held.keep(), (await held.ask(name="late.txt")).json()
    assert await held.listed() == ["report.pdf"]
    await runtime.advance(40)  # the worker is silent, so its run goes back
    other = await runtime.worker()
    leases = await other.claim()
    while not leases:
        await runtime.advance(10)
        await other.beat()
        leases = await other.claim()
    assert await held.listed() == []
    assert (await held.http.get(f"/api/v1/artifacts/{kept['artifact_id']}")).status_code == 404
    answers = [
        await held.ask(name="new.txt"),
        await held.http.put(late["url"], content=DATA),
        await held.http.post(CONFIRM, json={"session_id": held.session, "artifact_id": late["artifact_id"]}),
    ]
    assert [answer.status_code for answer in answers] == [409, 409, 409]
    again = Held(held.http, other, leases[0])
    await again.keep(b"second")
    await again.end()
    assert await again.listed() == ["report.pdf"]
    answer = await again.ask(name="after.txt")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (409, "lease")


async def test_files_are_another_tenants_business(held: Held) -> None:
    kept = await held.keep()
    headers = {"Mainspring-Tenant": "other"}
    for path in (
        f"/api/v1/runs/{held.run}/artifacts",
        f"/api/v1/artifacts/{kept['artifact_id']}",
        f"/api/v1/artifacts/{kept['artifact_id']}/content",
    ):
        assert (await held.http.get(path, headers=headers)).status_code == 404


@pytest.mark.parametrize(
    ("overrides", "field", "words"),
    [
        ({"name": "../etc/passwd"}, "name", "a part that begins with a dot"),
        ({"name": ".hidden"}, "name", "a part that begins with a dot"),
        ({"name": "a//b"}, "name", "an empty part"),
        ({"name": "/etc/passwd"}, "name", "an empty part"),
        ({"name": "a\\b"}, "name", "a backslash"),
        ({"name": "a "}, "name", "a space at its end"),
        ({"name": "a\nb"}, "name", "cannot be printed"),
        ({"name": ""}, "name", "1 to 200 characters"),
        ({"name": "ü" * 100}, "name", "too long"),
        ({"content_type": "pdf"}, "content_type", "a media type like text/csv"),
        ({"content_type": "text/html\r\nx: y"}, "content_type", "a media type like text/csv"),
        ({"sha256": "abc"}, "sha256", "64 hexadecimal digits"),
        ({"size": 6 * 10**9}, "size", "artifacts.limit allows 5,000,000,000"),
        ({"size": -1}, "size", ""),
        ({"run_id": "run_x"}, "run_id", "not an id"),
    ],
)
async def test_odd_files_are_refused(held: Held, overrides: dict[str, Any], field: str, words: str) -> None:
    answer = await held.ask(**overrides)
    assert answer.status_code == 422, answer.text
    [error] = answer.json()["errors"]
    assert error["field"] == field
    assert words in error["message"]


async def test_a_job_cannot_take_the_name_of_a_result(held: Held) -> None:
    kept = await held.keep(b"[1]", name="", is_result=True, content_type="application/json")
    assert (kept["is_result"], kept["name"]) == (True, ".result.json")
    assert (await held.ask(name=".result.json")).status_code == 422


async def test_an_attempt_leaves_only_so_many_files(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.engine.usecases.artifacts.MOST_ARTIFACTS", 2)
    await held.keep(name="a")
    await held.keep(name="b")
    answer = await held.ask(name="c")
    assert (answer.status_code, "pack them" in answer.json()["detail"]) == (409, True)
    assert MOST_ARTIFACTS == 1000


async def test_files_go_when_their_time_is_over(runtime: ManualRuntime, held: Held, tmp_path: Path) -> None:
    kept, asked = await held.keep(), (await held.ask(name="never.txt")).json()
    await held.end()
    path = f"/api/v1/artifacts/{kept['artifact_id']}"
    runtime.clock.advance(86_400 + 120)
    await runtime.tick("janitor")
    index = runtime.store
    assert await index.list_expired_artifacts(before=runtime.clock.now(), limit=10) == []
    assert (await held.http.get(path)).status_code == 200
    runtime.clock.advance(29 * 86_400 - 150)
    assert (await held.http.get(f"{path}/content")).status_code == 200
    runtime.clock.advance(30)
    gone = await held.http.get(f"{path}/content")
    assert (gone.status_code, "not kept any more" in gone.json()["detail"]) == (410, True)
    runtime.clock.advance(120)
    await runtime.client.artifacts.sweep(now=runtime.clock.now())
    assert files_in(tmp_path) == []
    assert (await held.http.get(path)).status_code == 404
    assert asked["artifact_id"] != kept["artifact_id"]


async def test_a_file_that_was_lost_says_so(held: Held, tmp_path: Path) -> None:
    kept = await held.keep()
    [name] = files_in(tmp_path)
    (tmp_path / name).unlink()
    gone = await held.http.get(f"/api/v1/artifacts/{kept['artifact_id']}/content")
    assert gone.status_code == 410


async def test_without_a_place_no_file_is_kept() -> None:
    registry = FunctionRegistry()
    registry.add("work", lambda **_: "done")
    async with ManualRuntime(registry) as runtime, client_of(api_of(runtime)) as http:
        made = await http.post("/api/v1/jobs", json={"name": "report", "function": "work"})
        await http.post(f"/api/v1/jobs/{made.json()['job_id']}/runs", json={})
        worker = await runtime.worker()
        [lease] = await worker.claim()
        answer = await Held(http, worker, lease).ask()
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (409, "artifacts.url")
        assert (await http.get(f"/api/v1/runs/{format_run_id(lease.run_id)}/artifacts")).json()["items"] == []


async def test_a_place_that_is_gone_is_told(held: Held, tmp_path: Path) -> None:
    asked = (await held.ask()).json()
    elsewhere = str(tmp_path.with_name("elsewhere"))
    os.rename(tmp_path, elsewhere)  # noqa: PTH104 -- in an async function
    answer = await held.http.put(asked["url"], content=DATA)
    assert answer.status_code == 503
    os.rename(elsewhere, tmp_path)  # noqa: PTH104 -- likewise
    assert (await held.http.put(asked["url"], content=DATA)).status_code == 200


async def test_a_session_puts_only_its_own(runtime: ManualRuntime, held: Held) -> None:
    asked = (await held.ask()).json()
    other = await runtime.worker()
    url = asked["url"].replace(held.session, show_session(other.session_id))
    assert (await held.http.put(url, content=DATA)).status_code == 409
    assert (await held.http.put(asked["url"].partition("?")[0], content=DATA)).status_code == 422
