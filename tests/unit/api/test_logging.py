"""`/api/v1/logging`: which lines the server writes."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from httpx import AsyncClient

from mainspring.ports.logs import LogState
from mainspring.testing.manual import ManualRuntime
from tests.unit.api.asgi import api_of, client_of

PATH = "/api/v1/logging"
NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)


class Switch:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.state = LogState("info", "info", None)

    def read(self) -> LogState:
        return self.state

    def set(self, level: str, *, lasts: timedelta) -> LogState:
        self.state = LogState(level, "info", NOW + lasts)
        return self.state


@pytest.fixture
async def logged(runtime: ManualRuntime) -> AsyncIterator[AsyncClient]:
    async with client_of(api_of(runtime, logs=Switch())) as client:
        yield client


async def test_the_level_is_shown_and_set_for_a_while(logged: AsyncClient) -> None:
    assert (await logged.get(PATH)).json() == {"level": "info", "usual": "info", "until": None}
    answer = await logged.put(PATH, json={"level": "debug", "duration": "90s"})
    assert answer.json() == {"level": "debug", "usual": "info", "until": "2026-11-27T12:01:30Z"}
    assert (await logged.get(PATH)).json() == answer.json()
    assert (await logged.put(PATH, json={"level": "error"})).json()["until"] == "2026-11-27T12:10:00Z"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"level": "trace"}, "level"),
        ({"level": "debug", "duration": "2d"}, "duration"),
        ({"level": "debug", "duration": "0s"}, "duration"),
        ({"level": "debug", "duration": "soon"}, "duration"),
        ({}, "level"),
    ],
)
async def test_what_is_wrong_is_named_and_changes_nothing(
    logged: AsyncClient, body: dict[str, str], field: str
) -> None:
    answer = await logged.put(PATH, json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field
    assert (await logged.get(PATH)).json()["level"] == "info"


async def test_a_log_that_is_not_the_servers_own_is_left_alone(http: AsyncClient) -> None:
    for answer in (await http.get(PATH), await http.put(PATH, json={"level": "debug"})):
        assert answer.status_code == 409
        assert "the app that this server runs in has the log" in answer.text
