"""Artifacts: files that a run leaves behind. What may be one's name, and where its bytes lie."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from mainspring.core.fields import kind, read_text
from mainspring.core.ids import ArtifactId, RunId, format_artifact_id, format_run_id, parse_artifact_id
from mainspring.core.values import value
from mainspring.errors import InvalidInput

RESULT_NAME = ".result.json"
"""The name of a result that is too large for its run. No name that a job gives begins with a dot."""
MOST_ARTIFACTS = 1000
"""How many one attempt may leave behind."""
MAX_SIZE = 5 << 30
"""The most bytes of one, whatever the setting says: what S3 takes in one request."""
UPLOAD_TIME = timedelta(days=1)
"""How long an upload may take. What is not there by then is removed."""
USUAL_TYPE = "application/octet-stream"
_LONGEST = 200
_LONGEST_PART = 200
"""The most bytes of an encoded name: file systems take 255, and a file in the making has some more."""
_LONGEST_TYPE = 100
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_TYPE = re.compile(
    r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(?:; ?[A-Za-z0-9_.+-]+=[A-Za-z0-9_.+-]+)*", re.ASCII
)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


@value(kw_only=True)
class Artifact:
    """A file that an attempt of a run has left behind, or is about to.

    Attributes:
        token: the token of the attempt. Only those of the run's last token are shown.
        location: where its bytes lie in the place for artifacts.
        size: its bytes.
        sha256: the digest of its bytes.
        is_ready: whether its bytes are there.
        expires_at: from when on it is removed.
    """

    id: ArtifactId
    tenant: str
    run_id: RunId
    token: int
    name: str
    location: str
    content_type: str
    size: int
    sha256: bytes
    is_ready: bool
    created_at: datetime
    expires_at: datetime


class ArtifactVerdict(StrEnum):
    """What became of a request for room for an artifact."""

    ADDED = "added"
    STALE = "stale"
    TAKEN = "taken"
    FULL = "full"
    SEALED = "sealed"


@value(kw_only=True)
class ResultReference:
    """What stands in the place of a large result: the artifact that has it."""

    artifact: str
    size: int
    sha256: str


def check_artifact_name(name: object, field: str = "name") -> str:
    """Return the name of an artifact: a file's name, with folders before it if need be.

    Raises:
        InvalidInput: it is none. The message says what would be right.
    """
    text = read_text(name, field, longest=_LONGEST)
    if "\\" in text:
        raise InvalidInput(field, "holds a backslash; separate folders by /")
    for part in text.split("/"):
        if not part:
            raise InvalidInput(field, "has an empty part; give a name like report.pdf or plots/a.png")
        if part.startswith("."):
            raise InvalidInput(
                field, f"has a part that begins with a dot, {part[:40]!r}; give it another name"
            )
        if part != part.strip():
            raise InvalidInput(field, f"has a part with a space at its end, {part[:40]!r}; leave it out")
    if len(_encode(text)) > _LONGEST_PART:
        raise InvalidInput(
            field, f"is too long: it comes to more than {_LONGEST_PART} bytes as a file's name"
        )
    return text


def check_content_type(text: object, field: str = "content_type") -> str:
    """Return a media type like `text/csv`.

    Raises:
        InvalidInput: it is none.
    """
    if not isinstance(text, str) or len(text) > _LONGEST_TYPE or _TYPE.fullmatch(text) is None:
        shown = repr(text[:60]) if isinstance(text, str) else kind(text)
        raise InvalidInput(field, f"must be a media type like text/csv, not {shown}")
    return text


def check_size(size: object, *, limit: int, field: str = "size") -> int:
    """Return the size of an artifact.

    Raises:
        InvalidInput: it is none, or more than the limit.
    """
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise InvalidInput(field, "must be a number of bytes from 0")
    if size > limit:
        raise InvalidInput(field, f"is {size:,} bytes; artifacts.limit allows {limit:,}")
    return size


def read_sha256(text: object, field: str = "sha256") -> bytes:
    """Return a digest of its 64 hexadecimal digits.

    Raises:
        InvalidInput: the text is none.
    """
    if not isinstance(text, str) or _SHA256.fullmatch(text) is None:
        raise InvalidInput(field, "must be 64 hexadecimal digits in lower case")
    return bytes.fromhex(text)


def locate(tenant: str, run_id: RunId, token: int, name: str) -> str:
    """Return where the bytes of an artifact lie: tenant, run, token and name, each safe as the name of a file."""
    return f"{_encode(tenant)}/{format_run_id(run_id)}/{token}/{_encode(name)}"


def _encode(text: str) -> str:
    """Return a text as one part of a path: two texts never become the same part, and none means a folder above."""
    encoded = "".join(
        chr(byte) if byte in _PLAIN else f"~{byte:02x}" for byte in text.encode("utf-8", "surrogatepass")
    )
    return f"~2e{encoded[1:]}" if encoded.startswith(".") and encoded != RESULT_NAME else encoded


def disposition_of(name: str) -> str:
    """Return the header that has browsers save an artifact, and never show it."""
    last = name.rpartition("/")[2].lstrip(".")
    plain = "".join(char if char.isascii() and char not in '"\\%' else "_" for char in last)
    encoded = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in last.encode())
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}"


def make_reference(artifact_id: ArtifactId, size: int, sha256: bytes) -> dict[str, Any]:
    """Return what stands in the place of a large result."""
    return {"$artifact": format_artifact_id(artifact_id), "size": size, "sha256": sha256.hex()}


def read_reference(result: object) -> ResultReference | None:
    """Return which artifact a result stands for; None if it is a result itself."""
    if not isinstance(result, dict) or result.keys() != {"$artifact", "size", "sha256"}:
        return None
    artifact, size, sha256 = result["$artifact"], result["size"], result["sha256"]
    if not isinstance(artifact, str) or not isinstance(size, int) or not isinstance(sha256, str):
        return None
    try:
        parse_artifact_id(artifact)
        read_sha256(sha256)
    except ValueError:
        return None
    return ResultReference(artifact=artifact, size=size, sha256=sha256)
