"""Reads the address of a place for files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from mainspring.core.values import value
from mainspring.errors import InvalidInput, MissingExtra
from mainspring.objects.store import Objects
from mainspring.objects.streams import ObjectStreams

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_FORMS = "a folder, file:///FOLDER, or s3://BUCKET/PREFIX"
_ALL_FORMS = "a folder, file:///FOLDER, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, or az://CONTAINER/PREFIX"
_CLOUDS: dict[str, Literal["s3", "gs", "az"]] = {"s3": "s3", "gs": "gs", "az": "az"}
_VARIABLES = {
    "s3": "variables like AWS_ACCESS_KEY_ID",
    "gs": "variables like GOOGLE_SERVICE_ACCOUNT",
    "az": "variables like AZURE_STORAGE_ACCOUNT_NAME",
}


@value()
class ObjectPlace:
    """Where files are.

    Attributes:
        target: the folder, or the bucket.
        prefix: what the names in the bucket begin with.
    """

    kind: Literal["folder", "s3", "gs", "az"]
    target: str
    prefix: str = ""

    def url_of(self, name: str) -> str:
        """Return the address of a file, for readers; it holds no password."""
        if self.kind == "folder":
            return str(Path(self.target) / name)
        return "/".join(part for part in (f"{self.kind}://{self.target}", self.prefix, name) if part)


def read_place(text: str, path: str, *, what: str = "an archive", in_clouds: bool = False) -> ObjectPlace:
    """Read an address.

    Args:
        path: the name of the setting that holds it.
        what: what the place is for, for errors.
        in_clouds: it may be a bucket of Google or Azure, too, which `open_streams` opens.

    Raises:
        InvalidInput: it is no address of a place that there can be.
    """
    forms = _ALL_FORMS if in_clouds else _FORMS
    scheme, separator, rest = text.partition("://")
    if not separator:
        return _read_folder(text, path, forms)
    if scheme == "file":
        if not rest.startswith("/"):
            raise InvalidInput(path, "must have three slashes, like file:///srv/mainspring-archive")
        return _read_folder(unquote(rest), path, forms)
    if scheme not in _CLOUDS or (scheme != "s3" and not in_clouds):
        raise InvalidInput(path, f"{scheme[:20]}:// is no place for {what}; give {forms}")
    parts = urlsplit(text)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise InvalidInput(
            path,
            f"holds more than bucket and prefix; keys and region come from {_VARIABLES[scheme]}",
        )
    if not _BUCKET.fullmatch(parts.netloc):
        raise InvalidInput(path, f"must name a bucket, like {scheme}://my-bucket/mainspring")
    prefix = parts.path.strip("/")
    if any(part in {"", ".", ".."} for part in prefix.split("/") if prefix):
        raise InvalidInput(
            path,
            f"has a part of its prefix that is empty, or dots; give one like {scheme}://my-bucket/mainspring",
        )
    return ObjectPlace(_CLOUDS[scheme], parts.netloc, prefix)


def _read_folder(text: str, path: str, forms: str) -> ObjectPlace:
    folder = Path(text)
    if any(sign in text for sign in "*?[]{}"):  # DuckDB would take it for a pattern
        raise InvalidInput(path, "names a folder with one of * ? [ ] { } in it; give another one")
    if not text or "\0" in text or not folder.is_absolute():
        raise InvalidInput(path, f"must be {forms}; a folder begins with /")
    return ObjectPlace("folder", str(folder))


def open_place(place: ObjectPlace, *, feature: str, extra: str) -> Objects:
    """Return the files of a place, without reaching for them yet.

    Args:
        feature, extra: what needs it, and the extra that has the packages, for errors.

    Raises:
        MissingExtra: a package is not installed.
    """
    if place.kind == "folder":
        from mainspring.objects.folder import FolderObjects

        return FolderObjects(Path(place.target))
    try:
        from mainspring.objects.bucket import BucketObjects

        return BucketObjects(place.target, place.prefix)
    except ImportError:
        raise MissingExtra(feature, extra) from None


def open_streams(place: ObjectPlace, *, feature: str, extra: str) -> ObjectStreams:
    """Return the large files of a place, without reaching for them yet.

    Args:
        feature, extra: as for `open_place`.

    Raises:
        MissingExtra: a package is not installed.
        ObjectsUnavailable: the variables that lead to the place do not fit.
    """
    if place.kind == "folder":
        from mainspring.objects.folder_streams import FolderStreams

        return FolderStreams(Path(place.target))
    try:
        from mainspring.objects.bucket_streams import BucketStreams

        return BucketStreams(place.kind, place.target, place.prefix)
    except ImportError:
        raise MissingExtra(feature, extra) from None
