"""HTTP calls to a server: one session, errors as exceptions of our own."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self, TypeVar

import aiohttp
import msgspec

from mainspring.errors import (
    Conflict,
    InvalidInput,
    MainspringError,
    NotFound,
    StoreUnavailable,
    Unreachable,
)

T = TypeVar("T")
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 35.0


class _FieldError(msgspec.Struct):
    field: str
    message: str


class _Problem(msgspec.Struct):
    status: int = 0
    detail: str = ""
    errors: list[_FieldError] | None = None


class Transport:
    """Sends requests to one server.

    Args:
        server: its address, like http://127.0.0.1:8620.
    """

    def __init__(self, server: str) -> None:
        if not server.startswith(("http://", "https://")):
            raise InvalidInput("server", f"{server[:80]!r} is not an address like http://127.0.0.1:8620")
        self._server = server.rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Open the session."""
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS, connect=_CONNECT_SECONDS)
            self._session = aiohttp.ClientSession(timeout=timeout, trust_env=False)

    async def close(self) -> None:
        """Close the session."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def call(
        self,
        method: str,
        path: str,
        answer: type[T],
        *,
        body: object = msgspec.UNSET,
        query: Mapping[str, str | int | None] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> T:
        """Send a request and decode its answer.

        Raises:
            Unreachable: no answer came; whether the request was carried out is unknown.
            StoreUnavailable: the server's store does not answer.
            InvalidInput, NotFound, Conflict: the server refuses.
        """
        await self.start()
        assert self._session is not None
        data = None if body is msgspec.UNSET else msgspec.json.encode(body)
        parameters = {name: str(value) for name, value in (query or {}).items() if value is not None}
        all_headers = {"Content-Type": "application/json", **(headers or {})}
        try:
            async with self._session.request(
                method, f"{self._server}{path}", data=data, params=parameters, headers=all_headers
            ) as response:
                text = await response.read()
                status = response.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            reason = str(error) or type(error).__name__
            message = f"no answer from {self._server} ({reason}); is `mainspring up` running there?"
            raise Unreachable(message) from error
        if status >= 400:
            raise _refusal(status, text, path)
        if answer is type(None) or not text:
            return None  # type: ignore[return-value]  # the caller asked for nothing
        try:
            return msgspec.json.decode(text, type=answer)
        except msgspec.DecodeError as error:
            raise Unreachable(f"{self._server} answered what is not understood: {error}") from error


def _refusal(status: int, text: bytes, path: str) -> MainspringError:
    try:
        problem = msgspec.json.decode(text, type=_Problem)
    except msgspec.DecodeError:
        problem = _Problem(status, text[:200].decode(errors="replace"))
    first = problem.errors[0] if problem.errors else None
    if status == 404:
        parts = path.split("/")  # "", "api", "v1", "jobs", "job_…"
        return NotFound(
            parts[3].removesuffix("s") if len(parts) > 4 else "path", parts[-1 if len(parts) < 5 else 4]
        )
    if status == 409:
        return Conflict(first.field if first else "request", first.message if first else problem.detail)
    if status in {502, 503, 504}:
        return StoreUnavailable(problem.detail)
    if 400 <= status < 500:
        return InvalidInput(first.field if first else "request", first.message if first else problem.detail)
    return MainspringError(f"the server failed: {problem.detail}")
