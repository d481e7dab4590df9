"""A client whose server is in the same process: its requests are calls, and no socket is opened."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlencode

from mainspring.sdk.client import AsyncClient
from mainspring.wire.operations import SUBMIT_RUNS
from mainspring.wire.run_logs import LogEvent, write_event

if TYPE_CHECKING:
    from mainspring.api import Api

_HOST = "127.0.0.1"
_PORT = 8620


class InProcessClient(AsyncClient):
    """A client of an API in this process. It sends what it would send to a server, and reads the same answers.

    Args:
        api: the API to call.
        tenant: the tenant to act for.
        on_change: called before each request that may change more than the runs that it submits.
    """

    def __init__(self, api: Api, *, tenant: str, on_change: Callable[[], object]) -> None:
        super().__init__(f"http://{_HOST}:{_PORT}", tenant=tenant)
        self._api = api
        self._on_change = on_change

    async def start(self) -> None:
        """Do nothing: there is no session."""

    async def _ask(self, request: Any, *, may_repeat: bool) -> tuple[str, int, bytes]:
        del may_repeat
        if request.method != "GET" and request.path != SUBMIT_RUNS.path:
            self._on_change()
        scope = _scope_of(request)
        parts: list[bytes] = []
        status = 500
        is_read = False

        async def receive() -> dict[str, Any]:
            nonlocal is_read
            if is_read:
                return {"type": "http.disconnect"}
            is_read = True
            return {"type": "http.request", "body": request.data or b"", "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                parts.append(message.get("body", b""))

        await self._api(scope, receive, send)
        return self._chosen, status, b"".join(parts)

    async def open_stream(
        self, operation: Any, key: str, *, silence: float, **given: Any
    ) -> AsyncIterator[bytes]:
        """Return what there is by now, and an end: nobody writes while the caller waits here."""
        del silence
        run = await self.get_run(key)
        text = await self.get_run_logs(key, attempt=given["query"].get("attempt"))
        mark = (run.attempt, len(text.encode()))
        events = [write_event("log", mark, LogEvent(attempt=run.attempt, text=text))] if text else []
        events.append(write_event("end", mark, LogEvent(status=run.status)))
        del operation
        return _lines_of(b"".join(events))


async def _lines_of(data: bytes) -> AsyncIterator[bytes]:
    for line in data.splitlines(keepends=True):
        yield line


def _scope_of(request: Any) -> dict[str, Any]:
    headers = {"host": f"{_HOST}:{_PORT}", **request.headers}
    if request.data is None:  # no content has no type
        headers.pop("Content-Type", None)
    else:
        headers["content-length"] = str(len(request.data))
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": request.method,
        "path": unquote(request.path),
        "raw_path": request.path.encode(),
        "query_string": urlencode(request.query).encode(),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
        "server": (_HOST, _PORT),
        "client": (_HOST, 0),
    }
