"""A client that speaks to the API in process, without a socket."""

from __future__ import annotations

from typing import Any

import httpx

from mainspring.api import Api, create_api
from mainspring.api.principals import identify_anybody
from mainspring.testing.manual import ManualRuntime

HERE = "http://127.0.0.1:8620"


def client_of(api: Api) -> httpx.AsyncClient:
    """Return a client of an API; a fault of the API is raised here."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url=HERE)


def api_of(runtime: ManualRuntime, **options: Any) -> Api:
    """Return the API of a manual runtime, with some of its options changed."""
    usual: dict[str, Any] = {
        "identify": identify_anybody,
        "store_name": "memory",
        "ping": runtime.store.read_time,
        "shards": runtime.shards,
    }
    return create_api(runtime.client, runtime.gateway, **{**usual, **options})
