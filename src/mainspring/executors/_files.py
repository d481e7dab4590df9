"""Takes the files of attempts to where they are kept, from whatever thread or event loop a job runs on."""

from __future__ import annotations

import asyncio
import hashlib
import io
import mimetypes
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from mainspring.core.artifacts import (
    MAX_SIZE,
    RESULT_NAME,
    USUAL_TYPE,
    check_artifact_name,
    check_content_type,
    make_reference,
)
from mainspring.core.fields import kind
from mainspring.core.ids import ArtifactId, format_artifact_id
from mainspring.errors import InvalidInput
from mainspring.ports.artifacts import ArtifactGateway, ArtifactUpload
from mainspring.ports.executor import AttemptContext, FileContent
from mainspring.ports.strict_json import encode_json

_CHUNK = 1 << 20
_JSON = "application/json"


class _Source(NamedTuple):
    """What a file comes to, and how it is opened."""

    size: int
    sha256: bytes
    md5: bytes
    open: Callable[[], BinaryIO]


class AttemptFiles:
    """Implements `FileKeeper`.

    Args:
        gateway: takes the files; its calls are made on the worker's event loop.
        loop: that loop.
    """

    def __init__(self, gateway: ArtifactGateway, loop: asyncio.AbstractEventLoop) -> None:
        self._gateway = gateway
        self._loop = loop

    async def keep(
        self, context: AttemptContext, name: str, content: FileContent, content_type: str | None
    ) -> str:
        """Keep a file, and return its id."""
        checked = check_artifact_name(name)
        media_type = _media_type(checked, content_type)
        with _spooled() as spool:
            source = await asyncio.to_thread(_prepare, content, spool)
            upload = _upload(context, checked, media_type, source)
            putting = asyncio.run_coroutine_threadsafe(
                self._gateway.put_artifact(context.session_id, upload), self._loop
            )
            return format_artifact_id(await asyncio.wrap_future(putting))

    def keep_sync(
        self, context: AttemptContext, name: str, content: FileContent, content_type: str | None
    ) -> str:
        """Keep a file, and return its id. The calling thread waits."""
        checked = check_artifact_name(name)
        media_type = _media_type(checked, content_type)
        with _spooled() as spool:
            upload = _upload(context, checked, media_type, _prepare(content, spool))
            return format_artifact_id(self._put(context, upload))

    def keep_result_sync(self, context: AttemptContext, result: bytes) -> bytes:
        """Keep a large result, and return what stands in its place."""
        upload = _result_upload(context, result)
        return encode_json(make_reference(self._put(context, upload), upload.size, upload.sha256))

    async def keep_result(self, context: AttemptContext, result: bytes) -> bytes:
        """Keep a large result, and return what stands in its place."""
        upload = await asyncio.to_thread(_result_upload, context, result)
        putting = asyncio.run_coroutine_threadsafe(
            self._gateway.put_artifact(context.session_id, upload), self._loop
        )
        return encode_json(make_reference(await asyncio.wrap_future(putting), upload.size, upload.sha256))

    def _put(self, context: AttemptContext, upload: ArtifactUpload) -> ArtifactId:
        try:
            is_own = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_own = False
        if is_own:
            raise RuntimeError(
                "artifact_sync() would wait for itself here; await artifact() in an async function"
            )
        putting = asyncio.run_coroutine_threadsafe(
            self._gateway.put_artifact(context.session_id, upload), self._loop
        )
        try:
            return putting.result()
        except BaseException:
            putting.cancel()
            raise


def read_content(name: str, content: FileContent, content_type: str | None) -> None:
    """Read what a job leaves behind, and keep nothing of it.

    Raises:
        InvalidInput: the name or the type is none, or the content cannot be read.
    """
    checked = check_artifact_name(name)
    _media_type(checked, content_type)
    with _spooled() as spool:
        _prepare(content, spool)


def _media_type(name: str, given: str | None) -> str:
    if given is not None:
        return check_content_type(given)
    return mimetypes.guess_type(name, strict=False)[0] or USUAL_TYPE


@contextmanager
def _spooled() -> Iterator[BinaryIO]:
    """Give room on the disk for what can be read only once. It costs nothing until it is used."""
    with tempfile.SpooledTemporaryFile(max_size=_CHUNK, prefix="mainspring-artifact-") as spool:
        yield spool  # type: ignore[misc]  # it has all methods of a binary file


def _prepare(content: FileContent, spool: BinaryIO) -> _Source:
    """Return what a content comes to. A stream is copied to the disk meanwhile.

    Raises:
        InvalidInput: it is none, or a file that cannot be read.
    """
    if isinstance(content, bytes | bytearray | memoryview):
        data = bytes(content)
        return _digest(lambda: io.BytesIO(data))
    if isinstance(content, str | os.PathLike):
        path = Path(content)
        try:
            if not path.is_file():
                raise InvalidInput("content", f"there is no file {path}; text goes as text.encode()")
            _check_size(path.stat().st_size)
            return _digest(lambda: path.open("rb"))
        except OSError as error:
            raise InvalidInput("content", f"{path}: {error.strerror}") from None
    if not hasattr(content, "read"):
        raise InvalidInput("content", f"must be a path, bytes or an open binary file, not {kind(content)}")
    size = 0
    while chunk := content.read(_CHUNK):
        if not isinstance(chunk, bytes):
            raise InvalidInput("content", "must be opened in binary mode, as by open(path, 'rb')")
        size += len(chunk)
        _check_size(size)
        spool.write(chunk)
    return _digest(lambda: _rewound(spool))


def _check_size(size: int) -> None:
    """Refuse what no server takes, before all of it is read: it may have no end."""
    if size > MAX_SIZE:
        raise InvalidInput("content", f"has {size:,} bytes; at most {MAX_SIZE:,} can be kept")


def _rewound(spool: BinaryIO) -> BinaryIO:
    spool.seek(0)
    return _Lent(spool)  # type: ignore[return-value]  # what readers of files need


class _Lent(io.RawIOBase):
    """A file that is not closed by who reads it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read into a buffer."""
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _digest(reopen: Callable[[], BinaryIO]) -> _Source:
    sha256, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    size = 0
    with reopen() as file:
        while chunk := file.read(_CHUNK):
            size += len(chunk)
            _check_size(size)
            sha256.update(chunk)
            md5.update(chunk)
    return _Source(size, sha256.digest(), md5.digest(), reopen)


def _upload(context: AttemptContext, name: str, media_type: str, source: _Source) -> ArtifactUpload:
    return ArtifactUpload(
        run_id=context.run_id,
        token=context.token,
        name=name,
        content_type=media_type,
        size=source.size,
        sha256=source.sha256,
        md5=source.md5,
        open=source.open,
    )


def _result_upload(context: AttemptContext, result: bytes) -> ArtifactUpload:
    source = _digest(lambda: io.BytesIO(result))
    return ArtifactUpload(
        run_id=context.run_id,
        token=context.token,
        name=RESULT_NAME,
        content_type=_JSON,
        size=source.size,
        sha256=source.sha256,
        md5=source.md5,
        open=source.open,
        is_result=True,
    )
