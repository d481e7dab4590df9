"""Sends and fetches files piece by piece, at a server or at the bucket that it names."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from typing import BinaryIO

import aiohttp

from mainspring.errors import MainspringError, NotFound, StoreUnavailable, Unreachable
from mainspring.sdk.bodies import check_key
from mainspring.sdk.transport import Transport, explain, make_refusal
from mainspring.wire import operations

_CHUNK = 1 << 18
_LIMITS = aiohttp.ClientTimeout(total=None, connect=5.0, sock_connect=5.0, sock_read=120.0)
_SIGNED_HEADER_LIMIT = 300


class Transfers(Transport):
    """A part of `AsyncClient`."""

    async def send_file(
        self, url: str, headers: Mapping[str, str], opener: Callable[[], BinaryIO], size: int
    ) -> None:
        """PUT a file where a server has said: at a path of its own, or at a bucket.

        Raises:
            Unreachable, StoreUnavailable: it did not work now.
            InvalidInput, Conflict, NotFound: the server refuses it.
            MainspringError: the bucket does.
        """
        is_ours = url.startswith("/")
        await self.start()
        assert self._session is not None
        server = self._chosen if is_ours else ""
        given = {**headers, "Content-Length": str(size)}
        if is_ours:
            given = {**given, **self._headers, **self.credentials.headers}
        file = await asyncio.to_thread(opener)
        try:
            async with self._session.put(
                f"{server}{url}",
                data=file,
                headers=given,
                timeout=_LIMITS,
                skip_auto_headers=("Accept-Encoding",),
                ssl=self._tls(server),
            ) as response:
                text = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            where = server or _host_of(url)
            raise Unreachable(explain(error, where)) from error
        finally:
            file.close()
        if response.status >= 400:
            if is_ours:
                raise make_refusal(response.status, text, operations.PUT_ARTIFACT_CONTENT, None)
            raise _bucket_error(response.status, text, url)

    async def _fetch(self, artifact_id: str, file: BinaryIO, sha256: str | None, most: int | None) -> int:
        """Write the bytes of an artifact into a file; see `ArtifactFiles`."""
        check_key("artifact_id", artifact_id)
        await self.start()
        assert self._session is not None
        server, path = self._chosen, operations.GET_ARTIFACT_CONTENT.url(artifact_id)
        url, headers = f"{server}{path}", {**self._headers, **self.credentials.headers}
        try:
            async with self._session.get(
                url, headers=headers, allow_redirects=False, timeout=_LIMITS, ssl=self._tls(server)
            ) as answer:
                if answer.status != 302:
                    _check_there(answer.status, artifact_id)
                    if answer.status >= 400:
                        text, operation = await answer.read(), operations.GET_ARTIFACT_CONTENT
                        raise make_refusal(answer.status, text, operation, artifact_id)
                    return await _write(answer, file, sha256, most)
                place = answer.headers["Location"]
            async with self._session.get(place, timeout=_LIMITS) as answer:
                if answer.status >= 400:
                    raise _bucket_error(answer.status, await answer.read(), place)
                return await _write(answer, file, sha256, most)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unreachable(explain(error, server)) from error


def _check_there(status: int, artifact_id: str) -> None:
    if status == 410:
        raise NotFound("artifact", artifact_id, remedy="it is not kept any more")


async def _write(answer: aiohttp.ClientResponse, file: BinaryIO, sha256: str | None, most: int | None) -> int:
    digest, size = hashlib.sha256(), 0
    async for chunk in answer.content.iter_chunked(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
        if most is not None and size > most:  # a bucket may have no end of them
            raise MainspringError(
                f"more has come than the {most:,} bytes that were put: it was changed since"
            )
        file.write(chunk)
    if sha256 is not None and digest.hexdigest() != sha256:
        raise MainspringError(
            f"what was fetched comes to {digest.hexdigest()}, and {sha256} was put: it was changed since, or cut off"
        )
    return size


def _bucket_error(status: int, text: bytes, url: str) -> MainspringError:
    said = text[:_SIGNED_HEADER_LIMIT].decode(errors="replace")
    message = f"{_host_of(url)} answers {status}: {said}"
    if status == 404:
        return NotFound("artifact", _host_of(url), remedy="the bucket does not have it any more")
    return StoreUnavailable(message) if status >= 500 or status == 429 else MainspringError(message)


def _host_of(url: str) -> str:
    """Return where an address leads, without what is signed in it."""
    return "/".join(url.partition("?")[0].split("/", 3)[:3])
