"""Lists of the SDK ask for a page when the one before is used up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import App
from mainspring.sdk.client import AsyncClient
from mainspring.sdk.transport import Transport
from mainspring.wire.operation import Operation
from mainspring.wire.pages import BriefPage

SERVER = "http://127.0.0.1:9"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Lists have three pages of two numbers, and one empty page that was cut. Returns the queries."""
    asked: list[dict[str, Any]] = []
    pages: list[tuple[list[Any], str | None]] = [([1, 2], "a"), ([], "b"), ([3, 4], "c"), ([5, 6], None)]

    async def ask(
        _: Transport, operation: Operation[Any], answer: Any, key: str | None = None, **given: Any
    ) -> Any:
        asked.append({name: value for name, value in given["query"].items() if value is not None})
        return answer(*pages[len(asked) - 1])

    monkeypatch.setattr(Transport, "call_as", ask)
    return asked


@pytest.mark.parametrize(
    ("name", "cursor", "later"),
    [
        ("runs", "before", 100),
        ("briefs", "before", 1000),
        ("dead_runs", "before", 1000),
        ("jobs", "after", 1000),
        ("workers", "after", 1000),
    ],
)
async def test_each_list_goes_through_its_pages(
    asked: list[dict[str, Any]], name: str, cursor: str, later: int
) -> None:
    found = [item async for item in getattr(AsyncClient(SERVER), name)()]
    assert found == [1, 2, 3, 4, 5, 6]
    # A server of an older release refuses parameters of the first page of workers, which is its only one.
    first = {} if name == "workers" else {"limit": 100}
    wanted = [first, *({cursor: at, "limit": later} for at in "abc")]
    assert [{key: query[key] for key in query if key != "fields"} for query in asked] == wanted
    assert all(query.get("fields") == ("brief" if name == "briefs" else None) for query in asked)


async def test_nothing_is_asked_for_that_nobody_wants(asked: list[dict[str, Any]]) -> None:
    async for found in AsyncClient(SERVER).jobs():
        if found == 2:  # type: ignore[comparison-overlap]  # the pages hold numbers
            break
    assert len(asked) == 1


async def test_an_app_has_the_same_lists(asked: list[dict[str, Any]]) -> None:
    app = App(SERVER)
    found: list[Any] = [item async for item in app.client.briefs(state="FAILED")]
    assert found == [1, 2, 3, 4, 5, 6]
    app.close()
    assert [query["state"] for query in asked] == ["FAILED"] * 4


@pytest.mark.parametrize("name", ["runs", "briefs", "dead_runs", "jobs", "workers"])
def test_so_has_code_without_a_loop(asked: list[dict[str, Any]], name: str) -> None:
    app = App(SERVER)
    found = getattr(app.sync, name)()
    assert asked == []
    assert next(found) == 1
    assert len(asked) == 1
    assert list(found) == [2, 3, 4, 5, 6]
    app.close()


async def test_filters_are_sent_as_the_api_takes_them(asked: list[dict[str, Any]]) -> None:
    at = datetime(2026, 11, 22, tzinfo=UTC)
    page = await AsyncClient(SERVER).list_briefs(kind="manual", since=timedelta(hours=2), until=at)
    assert isinstance(page, BriefPage)
    [query] = asked
    expected = {"kind": "manual", "since": "7200.000000s", "until": "2026-11-22T00:00:00+00:00"}
    assert query == {**expected, "limit": 100, "fields": "brief"}
    with pytest.raises(TypeError, match="there is no filter 'colour'"):
        await AsyncClient(SERVER).list_runs(colour="red")  # type: ignore[call-arg]  # the call is the test
