"""Files in a bucket of S3, or of what speaks its protocol."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainspring.objects.store import ObjectMissing, ObjectsUnavailable

if TYPE_CHECKING:
    from obstore.store import S3Store

_CHUNK = 8 << 20
_PATIENCE = timedelta(seconds=30)
"""How long a request is tried again."""
_TEXT_LIMIT = 300
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")


class BucketObjects:
    """Implements `Objects`, with obstore's usual variables (`AWS_ACCESS_KEY_ID`, `AWS_REGION`, `AWS_ENDPOINT_URL`, …).

    Args:
        bucket: the bucket's name.
        prefix: what the names begin with; empty for none.
    """

    def __init__(self, bucket: str, prefix: str) -> None:
        import obstore
        from obstore.exceptions import BaseError

        self._obstore = obstore
        self._errors: tuple[type[Exception], ...] = (BaseError, OSError, ValueError)
        self._address = f"s3://{bucket}"
        self._store: S3Store = make_bucket("s3", bucket, prefix)

    def put(self, name: str, file: Path) -> None:
        """See `Objects`. A large file goes in parts."""
        try:
            self._obstore.put(self._store, name, file, chunk_size=_CHUNK)
        except self._errors as error:
            raise self._unavailable(error) from None

    def put_new(self, name: str, file: Path) -> bool:
        """See `Objects`."""
        from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

        try:
            self._obstore.put(self._store, name, file.read_bytes(), mode="create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return False
        except (NotImplementedError, NotSupportedError):  # the service has no conditional put
            if name in self.list(name.rpartition("/")[0]):
                return False
            self.put(name, file)
        except self._errors as error:
            raise self._unavailable(error) from None
        return True

    def get(self, name: str, file: Path) -> None:
        """See `Objects`."""
        try:
            with file.open("wb") as written:
                for chunk in self._obstore.get(self._store, name).stream(min_chunk_size=_CHUNK):
                    written.write(chunk)
        except self._errors as error:
            raise self._unavailable(error) from None

    def read(self, name: str) -> bytes:
        """See `Objects`."""
        try:
            return bytes(self._obstore.get(self._store, name).bytes())
        except self._errors as error:
            raise self._unavailable(error) from None

    def list(self, folder: str) -> list[str]:
        """See `Objects`."""
        try:
            found = [meta["path"] for page in self._obstore.list(self._store, folder) for meta in page]
        except self._errors as error:
            raise self._unavailable(error) from None
        return sorted(found)

    def local(self, name: str) -> Path | None:
        """Return None: it lies elsewhere."""
        del name
        return None

    def _unavailable(self, error: Exception) -> ObjectsUnavailable:
        return explain(error, self._address)


def make_bucket(kind: str, bucket: str, prefix: str, *, seconds: int = 60) -> Any:
    """Make a store of obstore, which reads its usual variables.

    Args:
        kind: `s3`, `gs` or `az`.
        seconds: how long a request may take, with its body.

    Raises:
        ObjectsUnavailable: the variables do not fit.
    """
    from obstore.exceptions import BaseError
    from obstore.store import AzureStore, GCSStore, S3Store

    makers: dict[str, Any] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
    plain = os.environ.get("AZURE_ALLOW_HTTP" if kind == "az" else "AWS_ALLOW_HTTP", "").lower()
    try:
        return makers[kind](
            bucket,
            prefix=prefix or None,
            client_options={
                "timeout": timedelta(seconds=seconds),
                "connect_timeout": timedelta(seconds=5),
                # Options that are given here take the place of those that variables give.
                "allow_http": kind != "gs" and plain in {"1", "true", "yes", "on"},
            },
            retry_config={"max_retries": 3, "retry_timeout": _PATIENCE},
        )
    except (BaseError, OSError, ValueError) as error:
        raise explain(error, f"{kind}://{bucket}") from None


def explain(error: Exception, address: str) -> ObjectsUnavailable:
    """Return what an error of obstore means, without passwords.

    Args:
        address: the bucket that it comes from.
    """
    from obstore.exceptions import NotFoundError

    is_missing = isinstance(error, FileNotFoundError | NotFoundError)
    kind = ObjectMissing if is_missing else ObjectsUnavailable
    return kind(f"{address}: {_shorten(error)}")


def _shorten(error: Exception) -> str:
    """Return what is wrong in one line: what the server says of it, or how the client's message begins."""
    text = str(error)
    said = _MESSAGE.search(text)
    line = said.group(1) if said else text.partition("\n")[0]
    return line if len(line) <= _TEXT_LIMIT else f"{line[: _TEXT_LIMIT - 1]}…"
