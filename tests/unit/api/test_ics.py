"""Calendars from ICS files over HTTP."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from mainspring.api.ics import IcsReader
from mainspring.errors import InvalidInput, MainspringError
from mainspring.sdk.client import AsyncClient
from mainspring.testing.manual import ManualRuntime
from tests.unit.api.asgi import api_of, client_of
from tests.unit.api.serving import make_api, serving

URL = "/api/v1/calendars/company/ics"
HEADERS = {"content-type": "text/calendar"}
TEXT = (
    "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20261224\r\nDTEND;VALUE=DATE:20261227\r\n"
    "SUMMARY:Christmas\r\nEND:VEVENT\r\nBEGIN:VEVENT\r\nDTSTART:20260101\r\nRRULE:FREQ=YEARLY\r\nEND:VEVENT\r\n"
    "END:VCALENDAR\r\n"
)


@pytest.fixture
async def runtime() -> AsyncIterator[ManualRuntime]:
    runtime = ManualRuntime()
    await runtime.store.open()
    yield runtime
    await runtime.store.close()


@pytest.fixture
async def http(runtime: ManualRuntime) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(api_of(runtime)) as client:
        yield client


async def test_a_file_makes_a_calendar_and_the_same_events_no_new_version(http: httpx.AsyncClient) -> None:
    answer = await http.post(URL, params={"tz": "Europe/Berlin"}, content=TEXT, headers=HEADERS)
    assert answer.status_code == 201, answer.text
    done = answer.json()
    assert done == {
        "name": "company",
        "version": 1,
        "followers": [],
        "jobs": 0,
        "moved": 0,
        "tz": "Europe/Berlin",
        "rules": 12,
        "events": 2,
        "left_out": 0,
        "expanded_to": "2036-12-31",
    }
    shown = (await http.get("/api/v1/calendars/company")).json()
    assert shown["tz"] == "Europe/Berlin"
    assert {"from": "2026-12-24", "to": "2026-12-26", "note": "Christmas"} in shown["rules"]
    head, first, second = TEXT.removesuffix("END:VCALENDAR\r\n").split("BEGIN:VEVENT")
    turned = f"{head}BEGIN:VEVENT{second}BEGIN:VEVENT{first}END:VCALENDAR\r\n"
    again = await http.post(URL, params={"tz": "Europe/Berlin"}, content=turned, headers=HEADERS)
    assert (again.status_code, again.json()) == (200, done)
    changed = await http.post(URL, content=TEXT, headers={"content-type": "Text/Calendar; charset=utf-8"})
    assert (changed.status_code, changed.json()["version"], changed.json()["tz"]) == (200, 2, "UTC")


async def test_a_put_of_what_was_imported_makes_no_new_version(http: httpx.AsyncClient) -> None:
    await http.post(URL, content=TEXT, headers=HEADERS)
    shown = (await http.get("/api/v1/calendars/company")).json()
    body = {name: shown[name] for name in ("tz", "rules", "invert")}
    assert (await http.put("/api/v1/calendars/company", json=body)).json()["version"] == 1


async def test_a_wrong_line_is_named_and_nothing_is_stored(http: httpx.AsyncClient) -> None:
    answer = await http.post(URL, content=TEXT.replace("20260101", "foo"), headers=HEADERS)
    assert answer.status_code == 422
    message = "must be a date like 20261224 or a time like 20261224T220000, not 'foo'"
    assert answer.json()["errors"] == [{"field": "line 8: DTSTART", "message": message}]
    assert answer.json()["detail"] == f"line 8: DTSTART: {message}"
    assert (await http.get("/api/v1/calendars/company")).status_code == 404
    zone = await http.post(URL, params={"tz": "Nowhere"}, content=TEXT, headers=HEADERS)
    assert (zone.status_code, zone.json()["errors"][0]["field"]) == (422, "tz")
    name = await http.post("/api/v1/calendars/no%20name/ics", content=TEXT, headers=HEADERS)
    assert (name.status_code, name.json()["errors"][0]["field"]) == (422, "calendar")
    empty = await http.post(URL, headers=HEADERS)
    assert (empty.status_code, empty.json()["errors"][0]["field"]) == (422, "line 1: BEGIN")


@pytest.mark.parametrize("media_type", ["application/json", "text/plain", "application/octet-stream"])
async def test_another_content_type_is_refused(http: httpx.AsyncClient, media_type: str) -> None:
    answer = await http.post(URL, content=TEXT, headers={"content-type": media_type})
    assert answer.status_code == 415
    assert answer.json()["detail"] == f"the content type must be text/calendar, not {media_type}"
    body = await http.put("/api/v1/calendars/company", content=TEXT, headers=HEADERS)
    assert body.json()["detail"] == "the content type must be application/json, not text/calendar"


async def test_a_file_is_as_large_as_the_setting_says(runtime: ManualRuntime) -> None:
    filling = "X-FILL:" + "a" * 2000
    async with client_of(api_of(runtime, ics=IcsReader(most_bytes=1024, most_days=13))) as http:
        large = await http.post(URL, content=TEXT.replace("SUMMARY", filling), headers=HEADERS)
        assert large.status_code == 413
        assert "the limit is 1024" in large.json()["detail"]

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(100):
                yield b"a" * 100

        assert (await http.post(URL, content=pieces(), headers=HEADERS)).status_code == 413
        many = await http.post(URL, content=TEXT, headers=HEADERS)
        assert many.json()["errors"][0]["message"].startswith(
            "with this event, the file has more than 13 dates"
        )
    async with client_of(api_of(runtime)) as http:
        large = await http.post(URL, content=TEXT + "\n" * (1024 * 1024), headers=HEADERS)
        assert large.status_code == 413
        exact = TEXT + "\n" * (1024 * 1024 - len(TEXT))
        assert (await http.post(URL, content=exact, headers=HEADERS)).status_code == 201


async def test_files_are_read_beside_the_event_loop_and_one_at_a_time(
    runtime: ManualRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, go_on, most = asyncio.Event(), asyncio.Event(), 0
    under_way = 0
    original = asyncio.to_thread

    async def slow(*arguments: Any, **given: Any) -> object:
        nonlocal most, under_way
        under_way += 1
        most = max(most, under_way)
        reading.set()
        await go_on.wait()
        under_way -= 1
        return await original(*arguments, **given)

    monkeypatch.setattr(asyncio, "to_thread", slow)
    async with client_of(api_of(runtime)) as http:
        imports = [asyncio.create_task(http.post(URL, content=TEXT, headers=HEADERS)) for _ in range(3)]
        await reading.wait()
        assert (await http.get("/api/v1/calendars")).status_code == 200
        go_on.set()
        assert sorted(answer.status_code for answer in await asyncio.gather(*imports)) == [200, 200, 201]
    assert most == 1


async def test_a_server_without_the_extra_says_so(
    runtime: ManualRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(sys.modules):
        if name.startswith("mainspring.importers.ics."):
            monkeypatch.delitem(sys.modules, name)
        elif name.partition(".")[0] == "icalendar":
            monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "icalendar", None)
    async with serving(make_api(runtime)) as url, AsyncClient(url) as client:
        with pytest.raises(MainspringError, match=r"pip install 'mainspring\[ics\]'"):
            await client.import_calendar("company", TEXT)
    async with client_of(api_of(runtime)) as http:
        assert (await http.post(URL, content=TEXT, headers=HEADERS)).status_code == 501


async def test_the_client_sends_a_file_as_it_is(runtime: ManualRuntime) -> None:
    async with serving(make_api(runtime)) as url, AsyncClient(url) as client:
        done = await client.import_calendar("company", TEXT, tz="Asia/Tokyo")
        assert (done.version, done.tz, done.rules) == (1, "Asia/Tokyo", 12)
        again = await client.import_calendar("company", TEXT.encode(), tz="Asia/Tokyo")
        assert again.version == 1
        with pytest.raises(InvalidInput, match="line 8: DTSTART: must be"):
            await client.import_calendar("company", TEXT.replace("20260101", "foo"))
        with pytest.raises(InvalidInput, match="body: must be bytes or text, not"):
            await client.import_calendar("company", {"rules": []})  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="body: holds a lone surrogate"):
            await client.import_calendar("company", "\ud800")
