"""`App.embedded`: an app that is served within a process that something else runs, such as a web server."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401 -- so that its own end of threads comes after ours
import contextlib
import logging
import os
import threading
from concurrent.futures import Future
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

import structlog

from mainspring.config.processes import settings_of, store_option
from mainspring.config.sources import ChosenValue, Level, read_sources
from mainspring.config.table import SETTINGS
from mainspring.errors import InvalidInput, StoreLocked
from mainspring.host.address import find_address
from mainspring.host.log_lines import write_sentence
from mainspring.host.reloading import call_before_reloading, why_not_to_serve
from mainspring.plugins import load_plugins
from mainspring.sdk.portal import Portal
from mainspring.sdk.staging import check_allowed

if TYPE_CHECKING:
    from mainspring.config.settings import Settings
    from mainspring.sdk.app import App

_log = structlog.get_logger(__name__)
_NAMES = {"store": "store", "data": "data", "slots": "worker.slots", "port": "port", "drain": "drain"}
"""The options that are settings."""
_LOOK = 0.25
"""Seconds between two looks at a store that another process has."""
_LOOKS_AT_START = 120
"""Looks until a process gives up whose store is held by one that serves no API."""
_PAUSE = 2.0
"""Seconds after a take-over that failed."""
_LAST_STEPS = 10.0
"""Seconds that an end may take beyond the drain."""


class EmbeddingOptions(TypedDict, total=False):
    """How an app is embedded. What is not given comes from the environment and the file, as for `mainspring up`.

    Attributes:
        store: `postgresql://…`, `sqlite:///FOLDER` or `memory://`.
        data: the folder of a store on SQLite.
        slots: how many attempts this process runs at a time; 0: it runs none.
        port: where the API listens on this machine; if another process has it, a free one is taken.
        drain: how long an end waits for attempts before it hands them back: a `timedelta`, seconds or text.
        prune: delete the jobs that this app once defined and does not any more. That takes a name of the app.
    """

    store: str
    data: str | os.PathLike[str]
    slots: int
    port: int
    drain: timedelta | float | str
    prune: bool


class Embedding:
    """Serves an app until it is stopped, on threads of its own. It may be started again.

    As a lifespan or a block it starts at the beginning, and at the end stops as `mainspring up` does: attempts have
    time to finish, and what has not ended by then another process takes over.

    Args:
        app: the app.
        options: see `EmbeddingOptions`.

    Raises:
        InvalidInput: an option is wrong.
    """

    def __init__(self, app: App, **options: Unpack[EmbeddingOptions]) -> None:
        self._app = app
        self._prune = bool(options.get("prune", False))
        self._chosen = _read_options(dict(options))
        if self._prune and app.name is None:
            raise InvalidInput(
                "prune", "give App(name=…): without a name, nobody knows which jobs were this app's"
            )
        self._running: _Running | None = None
        self._ends_with_process = False

    @property
    def is_running(self) -> bool:
        """Whether this process serves the app, or stands by to do so."""
        running = self._running
        return running is not None and running.pid == os.getpid()

    def start(self) -> None:
        """Start if this process is to serve, and return when the app is served.

        It does not start in the parent process of a reloader, in commands of Flask and Django that serve nothing, and
        under pytest. Calls of the app then go to the server that has the store, if there is one on this machine.

        Raises:
            InvalidInput: a setting is wrong.
            MainspringError: the store cannot be used.
        """
        reason = why_not_to_serve()
        if reason is None:
            self._start()
            call_before_reloading(self.stop)
            return
        logging.getLogger(__name__).debug("not embedded: %s", reason)
        with contextlib.suppress(InvalidInput):  # whoever serves is told of it
            url = find_address(self._read_settings()[0].store)
            if url is not None:
                self._app.serve_by(url)

    def _start(self) -> None:
        """Start; if it runs, or the app is under test (`App.testing`), do nothing."""
        if self.is_running or self._app.stage is not None:
            return
        check_allowed("an embedded server")
        _log_for_the_host()
        settings, option = self._read_settings()
        running = _Running(self._app, settings, option, prune=self._prune)
        running.start()
        self._running = running
        if not self._ends_with_process:
            # Plain atexit comes too late: by then the interpreter starts no work on threads any more.
            getattr(threading, "_register_atexit", atexit.register)(self.stop)
            self._ends_with_process = True

    def stop(self) -> None:
        """Stop, and return when that is done. If it does not run, that does nothing."""
        running, self._running = self._running, None
        if running is not None and running.pid == os.getpid():
            running.stop()

    def __call__(self, web: object = None, /) -> Self:
        """Return itself, so that a framework can take it as a lifespan."""
        del web
        return self

    def __enter__(self) -> None:
        self._start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> None:  # what a lifespan gives, Starlette takes as the state of requests
        await asyncio.to_thread(self._start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    def _read_settings(self) -> tuple[Settings, str]:
        choices = read_sources()
        choices = replace(choices, values={**choices.values, **self._chosen})
        return settings_of("up", choices, stores=load_plugins()), store_option(choices)


class _Running:
    """One start of an embedding, up to its end."""

    def __init__(self, app: App, settings: Settings, store_option: str, *, prune: bool) -> None:
        self.pid = os.getpid()
        self._app = app
        self._settings = settings
        self._store_option = store_option
        self._prune = prune
        self._stop = asyncio.Event()
        self._ready: Future[None] = Future()
        self._task: asyncio.Task[None] | None = None
        patience = settings.drain.total_seconds() + _LAST_STEPS
        self._portal = Portal(self._end, patience=patience, name="mainspring")

    def start(self) -> None:
        """Start, and wait until the app is served, here or by another process that has the store."""
        self._portal.call(self._begin)
        try:
            self._ready.result()
        except BaseException:
            self._portal.close()
            raise

    def stop(self) -> None:
        self._portal.close()

    async def _begin(self) -> None:
        self._task = asyncio.ensure_future(self._run())

    async def _end(self) -> None:
        self._stop.set()
        if self._task is not None:
            await self._task
        self._app.serve_by(None)

    async def _run(self) -> None:
        looks = 0
        while not self._stop.is_set():
            try:
                await self._serve()
            except StoreLocked as error:
                looks += 1
                if not self._stand_by() and looks >= _LOOKS_AT_START and not self._ready.done():
                    message = f"{error}; it serves no API that this process could use"
                    self._ready.set_exception(StoreLocked(message))
                    return
                await self._pause(_LOOK)
            except Exception as error:  # noqa: BLE001 -- whoever starts gets it; later, the next try may succeed
                if not self._ready.done():
                    self._ready.set_exception(error)
                    return
                _log.error("embedding_failed", error=f"{type(error).__name__}: {error}")
                await self._pause(_PAUSE)

    async def _serve(self) -> None:
        """Serve the app in this process until it is to stop.

        Raises:
            StoreLocked: another process has the store.
        """
        from mainspring.host.hosting import (
            choose_callers_by,
            make_folder,
            serve_app,
            url_from_here,
            warn_if_open,
        )
        from mainspring.host.serving import listen_nearby
        from mainspring.runtime import open_engine

        settings, app = self._settings, self._app
        make_folder(settings.store, self._store_option)
        async with open_engine(
            settings, registry=app.registry, holds_start=True, owns_process=False
        ) as engine:
            with listen_nearby(settings.host, settings.port) as listener:
                callers = choose_callers_by(settings)
                url = url_from_here(listener, settings)
                app.serve_by(url, may_move=True)
                warn_if_open(settings, url)
                serving = serve_app(engine, settings, app.registry, app, listener, callers, prune=self._prune)
                async with serving:
                    _log.info("embedded", address=url, store=settings.store.label, slots=settings.slots)
                    self._tell_ready()
                    await self._stop.wait()

    def _stand_by(self) -> bool:
        """Have calls go to the process that has the store. Return whether it serves an API."""
        url = find_address(self._settings.store)
        if url is None:
            return False
        if not self._ready.done():
            _log.info("standing_by", address=url, store=self._settings.store.label)
        self._app.serve_by(url, may_move=True)
        self._tell_ready()
        return True

    def _tell_ready(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)


def _read_options(options: dict[str, Any]) -> dict[str, ChosenValue]:
    unknown = sorted(options.keys() - _NAMES.keys() - {"prune"})
    if unknown:
        known = ", ".join(sorted({*_NAMES, "prune"}))
        raise InvalidInput(unknown[0], f"there is no such option; known are {known}")
    chosen = {}
    for word, name in _NAMES.items():
        if word not in options:
            continue
        value = options[word]
        try:
            read = SETTINGS[name].read(os.fspath(value) if isinstance(value, os.PathLike) else value)
        except InvalidInput as error:
            raise InvalidInput(word, error.message) from None
        chosen[name] = ChosenValue(read, Level.FLAG)
    if "store" in chosen and "data" in chosen:
        raise InvalidInput("store", "says the same as data; give one of them")
    return chosen


def _log_for_the_host() -> None:
    """Send log lines to the loggers of `logging` below `mainspring`, unless the process has set structlog up itself."""
    if structlog.is_configured():
        return
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, structlog.processors.format_exc_info, _write],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )


def _write(logger: object, method: str, said: Any) -> str:
    del logger, method
    trace = said.pop("exception", None)
    line = write_sentence(str(said.pop("event")), said)
    return line if trace is None else f"{line}\n{trace}"
