"""`App.testing`: an app on an engine within the test's own process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, TypedDict, Unpack

from mainspring.core.fields import read_instant
from mainspring.errors import InvalidInput
from mainspring.sdk.portal import Portal
from mainspring.testing.calling import Caller
from mainspring.testing.engine_room import EngineRoom
from mainspring.testing.factories import START
from mainspring.testing.outside import Handler, Outside
from mainspring.testing.rehearsal import Rehearsal
from mainspring.testing.tester import AppTester, AsyncAppTester

if TYPE_CHECKING:
    from mainspring.sdk.app import App

MODES = ("eager", "held")
_lock = threading.Lock()


class TestingOptions(TypedDict, total=False):
    """How an app is tested.

    Attributes:
        raise_errors: whether the call that carries out a run raises the exception with which the run fails for good.
            If not, look at `t.runs`.
        now: what the clock shows at first; by default a Monday at noon, UTC.
        http: answers HTTP callbacks: gets an `OutsideCall` and returns a status, or a status and a body.
        shell: answers commands: returns an exit code, or an exit code and the output.
    """

    raise_errors: bool
    now: datetime | str
    http: Handler | None
    shell: Handler | None


class TestingMode:
    """An app under test, until the block ends.

    `with` gives an `AppTester`, and `async with` an `AsyncAppTester`.

    Args:
        mode: `eager` or `held`.
        options: see `TestingOptions`.

    Raises:
        InvalidInput: there is no such mode, or the start has no zone.
    """

    __test__ = False  # for pytest

    def __init__(self, app: App, mode: str = "eager", **options: Unpack[TestingOptions]) -> None:
        if mode not in MODES:
            raise InvalidInput("mode", f"must be 'eager' or 'held', not {mode!r}")
        unknown = sorted(options.keys() - TestingOptions.__annotations__.keys())
        if unknown:
            known = ", ".join(sorted(TestingOptions.__annotations__))
            raise InvalidInput(unknown[0], f"there is no such option; known are {known}")
        self._app = app
        self._mode = mode
        self._raises = options.get("raise_errors", True)
        self._now = read_instant(options.get("now", START), "now")
        self._outside = Outside({"http": options.get("http"), "shell": options.get("shell")})
        self._room: EngineRoom | None = None
        self._portal = Portal(self._close_room)
        self._rehearsal: Rehearsal | None = None

    def __enter__(self) -> AppTester:
        rehearsal = self._begin()
        try:
            self._portal.call(rehearsal.room.open)
        except BaseException:
            self._end()
            raise
        return AppTester(self._app, self._mode, rehearsal, self._outside)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    async def __aenter__(self) -> AsyncAppTester:
        rehearsal = self._begin()
        try:
            await self._portal.call_async(rehearsal.room.open)
        except BaseException:
            self._end()
            raise
        return AsyncAppTester(self._app, self._mode, rehearsal, self._outside)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def awaited(self) -> AsyncAppTester:
        """The same block's tester for an event loop. Enter the block first."""
        assert self._rehearsal is not None
        return AsyncAppTester(self._app, self._mode, self._rehearsal, self._outside)

    def _begin(self) -> Rehearsal:
        app = self._app
        with _lock:
            if app.stage is not None:
                message = "this app is being tested already; use the tester of that block, or leave it first"
                raise InvalidInput("testing", message)
            self._room = EngineRoom(app.registry, app.definitions, tenant=app.tenant, now=self._now)
            caller = Caller(app.registry, self._outside, now=self._room.clock.now)
            self._rehearsal = Rehearsal(
                self._room, self._portal, caller, is_eager=self._mode == "eager", raises=self._raises
            )
            app.serve_on(self._rehearsal)
            return self._rehearsal

    def _end(self) -> None:
        """Let the app's calls go to its server again, and forget the runs."""
        self._app.serve_on(None)
        if self._rehearsal is not None:
            self._rehearsal.hands.close()
        self._portal.close()

    async def _close_room(self) -> None:
        if self._room is not None:
            await self._room.close()


@contextmanager
def open_for(
    app: App, *, is_async: bool, mode: str = "eager", **options: Unpack[TestingOptions]
) -> Iterator[AppTester | AsyncAppTester]:
    """Test an app until the block ends, in code without an event loop, for a test with or without one."""
    block = TestingMode(app, mode, **options)
    with block as tester:
        yield block.awaited if is_async else tester
