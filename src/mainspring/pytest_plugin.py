"""The pytest plugin: a fixture that tests an app without a server, and a guard that keeps tests off real servers.

Importing it costs next to nothing. It loads the engine when a test asks for the fixture `mainspring_app`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mainspring.sdk.app import App
    from mainspring.testing.tester import AppTester, AsyncAppTester

_APP = "mainspring_app"
_BLOCK = "mainspring_block_network"
_MARKER = "mainspring"
_REASON = (
    "tests must not submit to a real server. Use the fixture mainspring_app, or app.testing(); if this test is meant "
    "to call a server, mark it with @pytest.mark.mainspring(network=True)"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plugin's settings."""
    parser.addini(_APP, "the app for the fixture mainspring_app, like shop.jobs:app")
    parser.addini(
        _BLOCK,
        f"whether calls of apps to Mainspring servers fail in tests; by default they do if {_APP} is set",
        default="",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Describe the marker."""
    config.addinivalue_line(
        "markers",
        "mainspring(mode='eager', raise_errors=True, now=…, http=…, shell=…, network=False): how the fixture "
        "mainspring_app tests the app; network=True lets the test call real servers",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Refuse calls to servers while a test runs, with its fixtures, unless it may make them."""
    if not _is_blocked(item):
        return (yield)
    from mainspring.sdk.staging import refuse_servers

    refuse_servers(_REASON)
    try:
        return (yield)
    finally:
        refuse_servers(None)


@pytest.fixture
def mainspring_source(request: pytest.FixtureRequest) -> App | str:
    """Return the app under test, or where it is. Override it instead of the setting `mainspring_app`."""
    place = str(request.config.getini(_APP))
    if not place:
        raise pytest.UsageError(
            f"which app is to be tested? Set {_APP} = shop.jobs:app in the configuration of pytest, or override the "
            "fixture mainspring_source so that it returns the app"
        )
    return place


@pytest.fixture
def mainspring_app(
    request: pytest.FixtureRequest, mainspring_source: App | str
) -> Iterator[AppTester | AsyncAppTester]:
    """Test the app in this process: no server, no network, and a clock that the test moves.

    An async test gets an `AsyncAppTester`, whose `jump`, `work` and `run_all` are awaited. Other tests get an
    `AppTester`.
    """
    from mainspring.testing.mode import open_for

    options = _options(request.node)
    is_async = inspect.iscoroutinefunction(inspect.unwrap(getattr(request, "function", None) or _nothing))
    with open_for(_load(mainspring_source), is_async=is_async, **options) as tester:
        yield tester


def _nothing() -> None:
    """Stand for the function of a test that has none."""


def _load(source: App | str) -> App:
    if not isinstance(source, str):
        return source
    from mainspring.host.loading import load_app

    try:
        return load_app(source)
    except ValueError as error:
        raise pytest.UsageError(f"{_APP} = {source}: {error}") from error


def _options(item: pytest.Item) -> dict[str, Any]:
    """Return the options of the test's markers; those closest to the test win."""
    options: dict[str, Any] = {}
    for marker in item.iter_markers(_MARKER):
        options = {**marker.kwargs, **options}
        if marker.args:
            options.setdefault("mode", marker.args[0])
    options.pop("network", None)
    return options


def _is_blocked(item: pytest.Item) -> bool:
    for marker in item.iter_markers(_MARKER):
        if "network" in marker.kwargs:
            return not marker.kwargs["network"]
    chosen = str(item.config.getini(_BLOCK)).strip().lower()
    if chosen in {"true", "1", "yes", "on"}:
        return True
    if chosen in {"false", "0", "no", "off"}:
        return False
    if chosen:
        raise pytest.UsageError(f"{_BLOCK} must be true or false, not {chosen!r}")
    return bool(item.config.getini(_APP))
