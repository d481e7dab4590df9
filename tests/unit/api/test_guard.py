"""A web page of a stranger, in a browser that can reach the server, is refused."""

from __future__ import annotations

import pytest
from httpx import AsyncClient

from mainspring.api.errors import Rejected
from mainspring.api.guard import Guard
from mainspring.config.access import Access

Http = AsyncClient
OPEN = Guard(Access(is_open=True, names=frozenset({"server-1", "10.0.0.9"})))
HERE = "10.0.0.5"
"""The address of the server's machine at which the connections of these tests arrive."""


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example:8620"},
        {"host": "localhost@evil.example"},
        {"host": "evil.example@localhost"},
        {"origin": "file://localhost"},
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


def passes(
    guard: Guard = OPEN, *, host: str | None, origin: str | None = None, at: str | None = HERE
) -> bool:
    try:
        guard.check(host=host, origin=origin, arrived_at=at)
    except Rejected:
        return False
    return True


@pytest.mark.parametrize(
    "host",
    ["server-1:8620", "SERVER-1.", "10.0.0.9", "10.0.0.5:8620", "localhost:8620", "[::1]", "[::ffff:a00:5]"],
)
def test_own_names_and_the_address_of_arrival_are_served(host: str) -> None:
    assert passes(host=host)


@pytest.mark.parametrize(
    "host",
    [
        "rebound.example:8620",
        "server-2",
        "server-1.example",
        "10.0.0.6",
        "0.0.0.0",
        "10.0.0.5.example",
        "server-1:x",
        "localhost/evil",
        "",
    ],
)
def test_other_names_are_refused_so_that_none_can_be_rebound(host: str) -> None:
    assert not passes(host=host)


def test_address_of_arrival_is_told_in_either_family() -> None:
    assert passes(host="10.0.0.5:8620", at="::ffff:10.0.0.5")
    assert passes(host="[fd00::5]:8620", at="fd00::5")


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("server-1:8620", "http://server-1:8620"),
        ("server-1", "http://server-1"),
        ("server-1", "https://server-1:443"),  # a proxy speaks TLS for the server, and passes the host on
        ("127.0.0.1:8620", "http://localhost:3000"),
    ],
)
def test_own_pages_are_served(host: str, origin: str) -> None:
    assert passes(host=host, origin=origin)


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("server-1:8620", "https://evil.example"),
        ("server-1:8620", "http://server-1:3000"),  # another service on the same host
        ("server-1:8620", "http://10.0.0.9:8620"),
        (
            "10.0.0.5:8620",
            "http://localhost:8620",
        ),  # the browser's own machine is another one than the server's
        ("server-1", "ftp://server-1"),
        ("server-1:8620", "null"),
        (None, "http://server-1:8620"),
    ],
)
def test_pages_from_elsewhere_are_refused(host: str | None, origin: str) -> None:
    assert not passes(host=host, origin=origin)


def test_loopback_server_knows_no_other_name() -> None:
    closed = Guard(Access())
    assert passes(closed, host="localhost:8620", at="127.0.0.1")
    assert not passes(closed, host="server-1:8620", at="127.0.0.1")
