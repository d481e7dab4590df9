"""A web page of a stranger, in a browser on this machine, is refused."""

from __future__ import annotations

import pytest
from litestar import Litestar
from litestar.testing import AsyncTestClient

Http = AsyncTestClient[Litestar]


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example:8620"},
        {"host": "localhost@evil.example"},
    ],
)
async def test_stranger_is_refused(http: Http, headers: dict[str, str]) -> None:
    answer = await http.post("/api/v1/jobs", json={"name": "x", "function": "work"}, headers=headers)
    assert answer.status_code == 403
    assert answer.headers["content-type"] == "application/problem+json"
    assert (await http.get("/api/v1/jobs")).json()["items"] == []


@pytest.mark.parametrize(
    "headers",
    [{"host": "127.0.0.1:8620"}, {"host": "[::1]:8620"}, {"origin": "http://localhost:8620"}],
)
async def test_this_machine_is_served(http: Http, headers: dict[str, str]) -> None:
    assert (await http.get("/api/v1/jobs", headers=headers)).status_code == 200
