"""The whole HTTP pipeline in process, on the memory store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import AsyncTestClient

from mainspring.api import create_api
from mainspring.registry import FunctionRegistry
from mainspring.testing.manual import ManualRuntime


@pytest.fixture
async def runtime() -> AsyncIterator[ManualRuntime]:
    registry = FunctionRegistry()
    registry.add("work", lambda **_: "done")
    async with ManualRuntime(registry) as runtime:
        yield runtime


@pytest.fixture
async def http(runtime: ManualRuntime) -> AsyncIterator[AsyncTestClient[Litestar]]:
    api = create_api(
        runtime.client,
        runtime.gateway,
        store_name="memory",
        ping=runtime.store.read_time,
        shards=runtime.shards,
    )
    async with AsyncTestClient(api, base_url="http://127.0.0.1:8620") as client:
        yield client


@pytest.fixture
async def job(http: AsyncTestClient[Litestar]) -> dict[str, Any]:
    answer = await http.post("/api/v1/jobs", json={"name": "report", "cron": "0 9 * * *", "function": "work"})
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body
