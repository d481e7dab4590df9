"""`App`: jobs as decorated functions, and the door to the server that carries them out."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from mainspring.errors import InvalidInput
from mainspring.registry import FunctionRegistry
from mainspring.sdk.definitions import job_body
from mainspring.sdk.function import Function, SubmitOptions
from mainspring.sdk.portal import Portal
from mainspring.sdk.runs import RunHandle

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
DEFAULT_SERVER = "http://127.0.0.1:8620"
_BATCH = 1000


class App:
    """Jobs as decorated functions.

    `mainspring up MODULE:APP` and `mainspring worker MODULE:APP` carry them out and upsert the jobs by name;
    `await f.enqueue(...)` submits a run from anywhere. Calls to the server go out from one loop in a thread of the
    app's own, so they work from any event loop and, by the names that end in `_sync`, without one.

    Args:
        server: the server's address; by default that of the process that carries out the app, else
            MAINSPRING_SERVER, else http://127.0.0.1:8620.

    Attributes:
        registry: the functions by name, for workers.
    """

    def __init__(self, server: str | None = None) -> None:
        self.registry = FunctionRegistry()
        self._server = server
        self._host_server: str | None = None
        self._functions: dict[str, Function[Any, Any]] = {}
        self._job_ids: dict[str, str] = {}
        self._client: AsyncClient | None = None
        self._portal = Portal(self._close_client)

    @property
    def server(self) -> str:
        """The address of the server that calls go to."""
        return self._server or self._host_server or os.environ.get("MAINSPRING_SERVER") or DEFAULT_SERVER

    @property
    def client(self) -> AsyncClient:
        """All routes of the API as coroutine methods that can be awaited on any event loop."""
        return cast("AsyncClient", _Facade(self.perform))

    @property
    def sync(self) -> Any:
        """The same methods for code without an event loop: each waits and returns the answer."""
        return _Facade(self.perform_sync)

    def serve_by(self, server: str) -> None:
        """Tell the app which server its process works for; an address given to `App` goes first."""
        self._host_server = server

    def job(self, name: str | None = None, **definition: Any) -> Callable[[Callable[P, R]], Function[P, R]]:
        """Make a function a job.

        Args:
            name: the job's name; by default the function's.
            definition: fields of a job (`every`, `cron`, `tz`, `run_at`, `retry`, `queue`, `timeout`, …), and
                `retries` for `retry.max_retries`. Without a trigger it runs only when submitted.

        Raises:
            InvalidInput: a field is wrong, or the name is taken.
        """
        if callable(name):
            raise InvalidInput("name", "write @app.job() with parentheses")

        def decorate(call: Callable[P, R]) -> Function[P, R]:
            job_name = name if name is not None else getattr(call, "__name__", "")
            body = job_body(job_name, definition)
            self.registry.add(job_name, call)
            function = Function(self, job_name, call, body)
            self._functions[job_name] = function
            return function

        return decorate

    def definitions(self) -> list[dict[str, Any]]:
        """Return the bodies of the app's jobs, as `PUT /api/v1/jobs` takes them."""
        return [dict(function.definition) for function in self._functions.values()]

    async def submit(
        self, name: str, payloads: Sequence[object], options: SubmitOptions | None = None
    ) -> list[RunHandle]:
        """Submit runs of a job by its name; `Function.enqueue` is the usual way.

        Raises:
            InvalidInput: a payload or option is wrong; nothing of that request is stored.
            NotFound: the server has no job of that name.
            Unreachable: the server did not answer.
        """
        return await self._portal.call_async(lambda: self._submit(name, payloads, options or SubmitOptions()))

    def submit_sync(
        self, name: str, payloads: Sequence[object], options: SubmitOptions | None = None
    ) -> list[RunHandle]:
        """Do as `submit` from code without an event loop."""
        return self._portal.call(lambda: self._submit(name, payloads, options or SubmitOptions()))

    async def perform(self, work: Callable[[AsyncClient], Coroutine[Any, Any, T]]) -> T:
        """Carry out calls on the app's client, from any event loop."""
        return await self._portal.call_async(lambda: self._with_client(work))

    def perform_sync(self, work: Callable[[AsyncClient], Coroutine[Any, Any, T]]) -> T:
        """Carry out calls on the app's client while the thread waits."""
        return self._portal.call(lambda: self._with_client(work))

    def close(self) -> None:
        """End the app's thread and connections; happens by itself at exit, and a later call opens them anew."""
        self._portal.close()

    async def _with_client(self, work: Callable[[AsyncClient], Coroutine[Any, Any, T]]) -> T:
        if self._client is None:
            from mainspring.sdk.client import AsyncClient

            self._client = AsyncClient(self.server)
        return await work(self._client)

    async def _close_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()


class _Facade:
    """The client's methods, each carried out where the app's client lives."""

    def __init__(self, perform: Callable[[Callable[[AsyncClient], Coroutine[Any, Any, Any]]], Any]) -> None:
        self._perform = perform

    def __getattr__(self, name: str) -> Callable[..., Any]:
        from mainspring.sdk.client import AsyncClient

        if name.startswith("_") or not callable(getattr(AsyncClient, name, None)):
            raise AttributeError(f"the client has no method {name!r}")
        return partial(self._call, name)

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self._perform(lambda client: getattr(client, name)(*args, **kwargs))
