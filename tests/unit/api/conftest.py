"""The whole HTTP pipeline in process, on the memory store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from httpx import AsyncClient

from mainspring.registry import FunctionRegistry
from mainspring.testing.manual import ManualRuntime
from tests.unit.api.asgi import api_of, client_of


@pytest.fixture
async def runtime() -> AsyncIterator[ManualRuntime]:
    registry = FunctionRegistry()
    registry.add("work", lambda **_: "done")
    async with ManualRuntime(registry) as runtime:
        yield runtime


@pytest.fixture
async def http(runtime: ManualRuntime) -> AsyncIterator[AsyncClient]:
    async with client_of(api_of(runtime)) as client:
        yield client


@pytest.fixture
async def job(http: AsyncClient) -> dict[str, Any]:
    answer = await http.post("/api/v1/jobs", json={"name": "report", "cron": "0 9 * * *", "function": "work"})
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body
