"""Large files in a bucket, a piece at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from datetime import timedelta
from typing import Any

from mainspring.objects.bucket import explain, make_bucket
from mainspring.objects.store import ObjectsUnavailable
from mainspring.objects.streams import ObjectFacts, SignedPut

_PART = 8 << 20
"""The bytes of a part. A bucket takes 10,000 of them."""
_AT_ONCE = 2
_SECONDS = 600
"""How long one request may take: a part on a slow line, or a read whose reader is slow."""


class BucketStreams:
    """Implements `ObjectStreams`, with obstore's usual variables.

    Args:
        kind: `s3`, `gs` or `az`.
        bucket: the bucket's name.
        prefix: what the names begin with; empty for none.
    """

    def __init__(self, kind: str, bucket: str, prefix: str) -> None:
        import obstore
        from obstore.exceptions import BaseError

        self._obstore: Any = obstore
        self._errors: tuple[type[Exception], ...] = (BaseError, OSError, ValueError)
        self._kind = kind
        self._address = f"{kind}://{bucket}"
        self._store: Any = make_bucket(kind, bucket, prefix, seconds=_SECONDS)

    async def write(
        self, name: str, content: AsyncIterator[bytes], *, content_type: str, disposition: str
    ) -> None:
        """See `ObjectStreams`. A large file goes in parts, of which nothing is left if it is broken off."""
        failed: list[BaseException] = []
        attributes = {"Content-Type": content_type, "Content-Disposition": disposition}
        try:
            await self._obstore.put_async(
                self._store,
                name,
                _noting(content, failed),
                attributes=attributes,
                chunk_size=_PART,
                max_concurrency=_AT_ONCE,
            )
        except self._errors as error:
            if failed:
                raise failed[0] from None
            raise self._unavailable(error) from None

    async def read(self, name: str, start: int, stop: int) -> AsyncGenerator[bytes, None]:
        """See `ObjectStreams`."""
        if stop <= start:
            return
        try:
            found = await self._obstore.get_async(self._store, name, options={"range": (start, stop)})
            async for chunk in found.stream(min_chunk_size=1 << 20):
                yield bytes(chunk)
        except self._errors as error:
            raise self._unavailable(error) from None

    async def sign_get(self, name: str, lifetime: timedelta) -> str | None:
        """See `ObjectStreams`."""
        return await self._sign("GET", name, lifetime)

    async def sign_put(
        self, name: str, lifetime: timedelta, *, content_type: str, disposition: str
    ) -> SignedPut | None:
        """See `ObjectStreams`."""
        headers = {"Content-Type": content_type, "Content-Disposition": disposition}
        if self._kind == "az":
            headers = {
                "Content-Type": content_type,
                "x-ms-blob-type": "BlockBlob",
                "x-ms-blob-content-disposition": disposition,
            }
        return SignedPut(await self._sign("PUT", name, lifetime), headers)

    async def _sign(self, method: str, name: str, lifetime: timedelta) -> str:
        try:
            signed: str = await self._obstore.sign_async(self._store, method, name, lifetime)
        except self._errors as error:
            raise self._unavailable(error) from None
        return signed

    async def measure(self, name: str) -> ObjectFacts:
        """See `ObjectStreams`."""
        try:
            found = await self._obstore.get_async(self._store, name, options={"head": True})
        except self._errors as error:
            raise self._unavailable(error) from None
        return ObjectFacts(found.meta["size"], found.attributes.get("Content-Disposition"))

    async def delete(self, name: str) -> None:
        """See `ObjectStreams`."""
        try:
            await self._obstore.delete_async(self._store, name)
        except FileNotFoundError:
            return
        except self._errors as error:
            raise self._unavailable(error) from None

    def _unavailable(self, error: Exception) -> ObjectsUnavailable:
        return explain(error, self._address)


async def _noting(content: AsyncIterator[bytes], failed: list[BaseException]) -> AsyncIterator[bytes]:
    """Yield the content, and keep what it raises: obstore makes an error of its own of that."""
    try:
        async for chunk in content:
            yield chunk
    except BaseException as error:
        failed.append(error)
        raise
